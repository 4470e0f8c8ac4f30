"""A thread that was saved by a clock that is ahead: it is waited for, or said to be busy."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START
from langgraph.types import Command

from loopwright import ThreadBusy, open_durability
from loopwright.run.graph import LoopBuilder
from support.patience import PATIENCE
from support.toy_graphs import ToyInput, ToyState, asker, greeter, hello, on

AHEAD = timedelta(seconds=0.5)


@pytest.fixture
def clock(monkeypatch):
    """Sets how far the clock of this process is ahead."""
    right = ids.time.time_ns

    def is_ahead(by: timedelta) -> None:
        fake = type("Clock", (), {"time_ns": lambda: right() + int(by.total_seconds() * 1e9)})
        monkeypatch.setattr(ids, "time", fake)
        # As in another process, which has made no id yet.
        monkeypatch.setattr(ids, "_last_v6_timestamp", None)

    yield is_ahead
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)


@pytest.fixture(params=["sqlite", "plain sqlite", "memory"])
def saver(request, tmp_path):
    if request.param == "sqlite":
        with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
            yield kept.checkpointer
    elif request.param == "plain sqlite":
        with SqliteSaver.from_conn_string(f"{tmp_path}/t.db") as plain:
            yield plain
    else:
        yield InMemorySaver()


def is_in_order(graph, thread="t"):
    """Every checkpoint is newer than the one it follows, and the newest is the last in line."""
    for state in graph.get_state_history(on(thread)):
        parent = state.parent_config
        if parent is not None:
            own, before = (c["configurable"]["checkpoint_id"] for c in (state.config, parent))
            assert own > before
    return True


@pytest.mark.req("W-70")
def test_a_paused_thread_takes_its_answer(saver, clock):
    clock(AHEAD)
    asker().compile(saver).invoke(hello(), on("t"))
    clock(timedelta())
    graph = asker().compile(saver)
    result = graph.invoke(Command(resume="yes"), on("t"))
    assert (result["log"], result["outcome"]) == (
        ["greet", "ask:yes", "end"],
        {"status": "complete"},
    )
    state = graph.get_state(on("t"))
    assert (state.values["log"], state.next) == (["greet", "ask:yes", "end"], ())
    assert is_in_order(graph)


@pytest.mark.req("W-70")
def test_a_finished_thread_gets_its_next_turn_and_the_one_after(saver, clock):
    clock(AHEAD)
    greeter().compile(saver).invoke(hello(), on("t"))
    for turn in (2, 3, 4):
        clock(timedelta())
        graph = greeter().compile(saver)
        graph.invoke(hello(), on("t"))
        assert graph.get_state(on("t")).values["log"] == ["greet", "end"] * turn
    assert is_in_order(graph)


@pytest.mark.req("W-70")
def test_a_fork_of_an_old_checkpoint_is_the_newest(saver, clock):
    greeter().compile(saver).invoke(hello(), on("t"))
    old = greeter().compile(saver).get_state(on("t")).config
    clock(AHEAD)
    greeter().compile(saver).invoke(hello(), on("t"))
    clock(timedelta())
    graph = greeter().compile(saver)
    graph.invoke({"messages": [("user", "fork")]}, old)
    assert [m.text for m in graph.get_state(on("t")).values["messages"]][-2] == "fork"
    clock(timedelta())
    graph.update_state(old, {"log": ["written"]}, as_node="greet")
    assert graph.get_state(on("t")).values["log"] == ["greet", "end", "written"]
    clock(timedelta())
    graph.update_state(on("t"), {"log": ["again"]}, as_node="greet")
    assert graph.get_state(on("t")).values["log"] == ["greet", "end", "written", "again"]


def nesting(inner):
    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    return builder


@pytest.mark.odd_types  # the state of a toy graph
@pytest.mark.req("W-70")
def test_a_graph_inside_goes_on_too(saver, clock):
    """Inside it stands later than the thread around it, whose head was saved before."""
    clock(timedelta())
    inner = asker("first")
    inner.add_node("second", inner.nodes["first"].runnable)
    inner.add_node("third", inner.nodes["first"].runnable)
    inner.edges -= {("first", "end")}
    for step in (("first", "second"), ("second", "third"), ("third", "end")):
        inner.add_edge(*step)
    graph = nesting(inner.compile()).compile(saver)
    graph.invoke(hello(), on("t"))
    clock(AHEAD)
    graph.invoke(Command(resume="one"), on("t"))
    clock(timedelta())
    graph.invoke(Command(resume="two"), on("t"))
    clock(timedelta())
    result = graph.invoke(Command(resume="three"), on("t"))
    assert result["log"] == ["greet", "ask:one", "ask:two", "ask:three", "end"]
    assert graph.get_state(on("t")).next == ()


@pytest.mark.req("W-70")
def test_a_thread_of_a_clock_that_is_far_ahead_is_busy_and_others_are_not(clock):
    saver = InMemorySaver()
    clock(timedelta(hours=1))
    greeter().compile(saver).invoke(hello(), on("t"))
    clock(timedelta())
    graph = greeter().compile(saver)
    graph.invoke(hello(), on("u"))
    said = r"Thread 't' was saved by a clock that is 1:00:00 ahead of this one"
    with pytest.raises(ThreadBusy, match=said):
        graph.invoke(hello(), on("t"))
    with pytest.raises(ThreadBusy, match=said):
        graph.update_state(on("t"), {"log": ["written"]}, as_node="greet")
    clock(timedelta(hours=1))
    greeter().compile(saver).invoke(hello(), on("t"))
    assert is_in_order(graph)


PROCESS = """
import json, sys, time
ahead = float(sys.argv[2]) * 1e9
right = time.time_ns
time.time_ns = lambda: right() + int(ahead)
from langgraph.types import Command
from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
def pay(amount: int) -> str:
    "Pay."
    with open(sys.argv[3], "a") as book:
        book.write(f"{amount};")
    return "paid"
pay_it = [{"name": "pay", "args": {"amount": 3}, "id": "a"}]
script = {
    "planner": [{"summary": "p", "todos": [{"id": "1", "description": "pay"}]}],
    "executor": [pay_it, {"taskCompleted": True, "summary": "It is paid now."}],
    "verifier": [{"allCompleted": True, "userNeedsSatisfied": True, "summary": "It is paid.",
        "tasks": [{"id": "1", "completed": True, "evidence": ["1.1.0"]}]}],
}
given = json.loads(sys.argv[4])
if given != "go":
    script["planner"], script["executor"] = [], script["executor"][1:]
with open_durability(sys.argv[1]) as kept:
    graph = build_plan_execute_verify(
        model=ScriptedModel(script), tools=[pay], policy="ask", durability=kept)
    config = {"configurable": {"thread_id": "t"}}
    talk = {"messages": [("user", "Pay 3")]} if given == "go" else Command(resume=given)
    graph.invoke(talk, config)
    state = graph.get_state(config)
    outcome = state.values.get("outcome") or {}
    print(json.dumps([outcome.get("status"), list(state.next), len(state.interrupts)]))
"""


@pytest.mark.req("W-70")
def test_an_approval_in_a_task_is_taken_by_another_process(tmp_path):
    """The real graph: the question stands inside the executor's own checkpoints."""
    url, book = f"sqlite:///{tmp_path}/t.db", tmp_path / "book"

    def process(ahead: float, given: Any) -> Any:
        command = [sys.executable, "-c", PROCESS, url, str(ahead), str(book), json.dumps(given)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, env=os.environ, check=True
        )
        return json.loads(done.stdout)

    assert process(AHEAD.total_seconds(), "go") == [None, ["work"], 1]
    assert process(0, "approve") == ["complete", [], 0]
    assert book.read_text() == "3;"
