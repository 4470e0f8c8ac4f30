"""kill -9 in every node, a drain in mid-plan, models that stay away: the thread goes on."""

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command

from loopwright import (
    AnswerRejected,
    Context,
    ModelCallFailed,
    ScriptedModel,
    build_plan_execute_verify,
    open_durability,
)
from loopwright.models.scripted import Slow
from support import killed
from support.scripts import call, passed, plan, report, todo

THREAD = killed.THREAD
DO_ALL = {"messages": [{"role": "user", "content": "Do all of it."}]}
NODES: list[dict[str, Any]] = [
    {"node": "intake"}, {"node": "planner"}, {"node": "ask_user"}, {"node": "review_plan"},
    {"node": "work", "nth": 2}, {"node": "executor", "nth": 3}, {"node": "approve"},
    {"node": "call_tools", "nth": 3}, {"node": "verifier"}, {"node": "finish"},
]  # fmt: skip
# A question ends its node with an interrupt, so such a node ends only once it is answered.
PLACES = [
    *NODES,
    {"node": "ask_user", "at": "end"}, {"node": "verifier", "at": "end"},
    {"tool": "price", "recorded": 1}, {"tool": "save", "recorded": 2}, {"model": "executor save"},
]  # fmt: skip


def name_of(place):
    return "-".join(str(value) for value in place.values())


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unkilled") / "run"
    return told(killed.finish(killed.start(folder), folder)), killed.World(folder)


def told(result):
    """A result without what a clock or a repeated ask may change."""
    outcome = dict(result["outcome"])
    spend = dict(outcome.pop("spend"))
    spend.pop("seconds", None)
    timeless = [{k: v for k, v in t.items() if k != "seconds"} for t in outcome.pop("tasks")]
    values = result["values"]
    todos = [{k: v for k, v in t.items() if k != "seconds"} for t in values.pop("todos")]
    evidence = [{k: v for k, v in e.items() if k != "seconds"} for e in values.pop("evidence")]
    return {**outcome, **values, "spend": spend, "tasks": timeless, "todos": todos} | {
        "evidence": sorted(evidence, key=lambda e: e["id"])
    }


def lines(world, book):
    return [line for _, line in world.lines(book)]


def counted(told_lines):
    return {line: told_lines.count(line) for line in told_lines}


@pytest.mark.req("P-04", "S0-36")
@pytest.mark.parametrize("place", PLACES, ids=name_of)
def test_a_killed_run_goes_on_in_a_new_process_and_ends_as_if_nothing_had_happened(
    place, unkilled, tmp_path
):
    expected, calm = unkilled
    folder = tmp_path / "run"
    assert killed.finish(killed.start(folder, place), folder) is None, "it was to be killed"
    world = killed.World(folder)
    finished = ends_recorded(world)
    before = lines(world, "asks")
    result = killed.finish(killed.start(folder), folder)
    assert told(result) == expected
    after = lines(world, "asks")[len(before) :]
    assert not [ask for ask in after if ask.removeprefix("executor ") in finished]
    calls, once = counted(lines(world, "calls")), counted(lines(calm, "calls"))
    assert set(calls) == set(once)
    assert all(calls[name] == 1 for name in calls if name.split()[0] in finished)
    # What was under way when the process died is asked about, then done again, once.
    assert all(number <= 2 for number in calls.values())
    assert {name for name in calls if calls[name] == 2} <= asked_about(world)
    asks, asked_once = counted(lines(world, "asks")), counted(lines(calm, "asks"))
    assert all(asks[ask] <= asked_once[ask] + 1 for ask in asks)


def asked_about(world):
    """The calls that a human was asked about because they might have run."""
    questions = lines(world, "questions")
    return {q.removeprefix("uncertain ") for q in questions if q.startswith("uncertain ")}


def ends_recorded(world):
    """Descriptions of the tasks whose end is in the database."""
    if not (world.folder / "threads.db").exists():
        return []
    with open_durability(world.url) as durability:
        saved = durability.checkpointer.get_tuple(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        )
        if saved is None:
            return []
        graph = build_plan_execute_verify(model="offline", durability=durability)
        todos = graph.get_state(THREAD).values.get("todos", [])
    names = {todo["id"]: todo["description"] for todo in todos}
    now = [names[v["task"]["id"]] for _, c, v in saved.pending_writes if c == "__return__"]
    return [*now, *(t["description"] for t in todos if t["status"] == "completed")]


@pytest.mark.parametrize(
    "places",
    [
        [{"tool": "price", "recorded": 1}, {"tool": "price"}, {"node": "finish", "at": "end"}],
        [{"node": "executor", "nth": 3}, {"node": "executor", "nth": 1}, {"node": "approve"}],
    ],
    ids=["price-price-finish", "executor-executor-approve"],
)
def test_killed_again_and_again(places, unkilled, tmp_path):
    folder = tmp_path / "run"
    for place in places:
        assert killed.finish(killed.start(folder, place), folder) is None, place
    expected, calm = unkilled
    assert told(killed.finish(killed.start(folder), folder)) == expected
    world = killed.World(folder)
    calls = lines(world, "calls")
    assert set(calls) == set(lines(calm, "calls"))
    assert {name for name in calls if calls.count(name) > 1} <= asked_about(world)
    assert calls.count("owner") <= 2
    assert len(calls) <= len(lines(calm, "calls")) + len(places)


@pytest.mark.req("P-02")
def test_an_answer_that_was_taken_is_not_asked_for_again(tmp_path):
    """A second answer would be ignored: a rejection would look as if it counted."""
    folder = tmp_path / "run"
    assert killed.finish(killed.start(folder, {"tool": "save"}), folder) is None
    world = killed.World(folder)
    with open_durability(world.url) as durability:
        graph = killed.graph_of(world, {}, durability)
        assert not graph.get_state(THREAD).interrupts
        assert not asyncio.run(graph.aget_state(THREAD)).interrupts
        assert graph.get_state(THREAD).next == ("work",)
        with pytest.raises(AnswerRejected, match="input None"):
            graph.invoke(Command(resume="reject"), THREAD)
    killed.finish(killed.start(folder), folder)
    assert lines(world, "questions").count("save") == 1


@pytest.mark.req("S0-103")
def test_a_resume_does_not_refill_the_allowance(tmp_path):
    """Plans, finished tasks and half done ones of the dead process count on."""
    folder = tmp_path / "run"
    place, limit = {"tool": "save", "recorded": 2}, 7
    settings = {"max_model_calls": limit}
    assert killed.finish(killed.start(folder, place, **settings), folder) is None
    world = killed.World(folder)
    outcome = killed.finish(killed.start(folder, **settings), folder)["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", "BUDGET")
    # The limit, the one ask of the last turn, and what the crash cut off.
    assert outcome["spend"]["model_calls"] <= limit + 1
    assert len(lines(world, "asks")) <= limit + 1 + 1


def independent(number=3):
    return plan(*(todo(str(n), f"task {n}", []) for n in range(1, number + 1)))


def described(messages):
    human = next(m.text for m in messages if m.type == "human")
    return killed.read_json(human, "task")["description"]


def workers(work):
    """A model whose tasks each call the tool `work` once, then report what it said."""

    def executor(messages, offered):
        found = [m.text for m in messages if m.type == "tool"]
        name = described(messages)
        return report(f"{name}: {found[-1]}") if found else [call("work", name=name)]

    return ScriptedModel(
        {
            "planner": [independent()],
            "executor": executor,
            "verifier": [passed("All three are done.", t1=["1.1.0"], t2=["2.1.0"], t3=["3.1.0"])],
        }
    )


@pytest.mark.req("S0-22", "S0-104", "P-13")
def test_a_drain_in_mid_plan_fails_nothing_and_repeats_nothing(tmp_path, caplog):
    slots, control = 3, RunControl()
    done, events = [], []

    def work(name: str) -> str:
        """Work."""
        control.request_drain("signal")
        time.sleep(0.05)
        done.append(name)
        return "done"

    with (
        caplog.at_level(logging.ERROR),
        open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability,
    ):
        graph = build_plan_execute_verify(model=workers(work), tools=[work], durability=durability)
        context = Context(max_parallel_tasks=slots)
        run = graph.stream(DO_ALL, THREAD, control=control, context=context, stream_mode="custom")
        with pytest.raises(GraphDrained):
            events.extend(run)
        assert [e["status"] for e in events if e["type"] == "task"] == ["in_progress"] * slots
        before = list(done)
        assert 1 <= len(before) <= slots
        state = graph.get_state(THREAD)
        assert {t["status"] for t in state.values["todos"]} == {"pending"}
        outcome = graph.invoke(None, THREAD, control=RunControl())["outcome"]
    assert outcome["status"] == "complete"
    assert [t["attempts"] for t in outcome["tasks"]] == [1, 1, 1]
    assert sorted(done) == ["task 1", "task 2", "task 3"]
    assert outcome["spend"]["model_calls"] == 8
    assert not caplog.records, [r.getMessage() for r in caplog.records]


@pytest.mark.req("P-13")
def test_a_model_that_stays_away_costs_its_own_task_only(tmp_path):
    """One of two parallel tasks finds no model: the other's result is kept for the resume."""
    away, done = threading.Event(), []
    away.set()

    def executor(messages, offered):
        name = described(messages)
        if name == "task 1" and away.is_set():
            return ConnectionError("no route to host")
        found = [m.text for m in messages if m.type == "tool"]
        turn = report(f"{name}: done") if found else [call("work", name=name)]
        return Slow(0.15, turn)

    def work(name: str) -> str:
        """Work."""
        done.append(name)
        return "done"

    model = ScriptedModel(
        {
            "planner": [independent(2)],
            "executor": executor,
            "verifier": [passed("Both are done.", t1=["1.1.0"], t2=["2.1.0"])],
        }
    )
    context = Context(model_retries=0)
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        graph = build_plan_execute_verify(model=model, tools=[work], durability=durability)
        with pytest.raises(ModelCallFailed, match="resume the thread"):
            graph.invoke(DO_ALL, THREAD, context=context)
        assert done == ["task 2"], "the slower sibling was not cancelled"
        away.clear()
        outcome = graph.invoke(None, THREAD, context=context)["outcome"]
    assert outcome["status"] == "complete"
    assert done == ["task 2", "task 1"]
    assert [described(a.messages) for a in model.asked if a.role == "executor"].count("task 2") == 2
