"""Threads that an earlier version, another graph or another provider left behind."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START
from langgraph.types import Command, interrupt

from loopwright import (
    ScriptedModel,
    ThreadIncompatible,
    build_plan_execute_verify,
    open_durability,
)
from loopwright.doors.graph import LoopBuilder
from loopwright.doors.threads import list_threads
from loopwright.prompts.sections import read_json
from loopwright.state.messages import Messages
from support import killed
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = {"messages": [{"role": "user", "content": "Who owns it, and what does it cost?"}]}
TODOS = [
    {"id": "1", "description": "Find the owner", "status": "done", "result": "Ada"},
    {"id": "2", "description": "Find the price", "status": "executing"},
]


@dataclass(kw_only=True)
class OldState:
    """What version 0 kept: fewer fields, other words, plain channels."""

    messages: Messages = field(default_factory=list)
    request: str = ""
    todos: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    planning: str = ""
    missing: list[str] = field(default_factory=list)


def old_graph(durability, waits_at, **values):
    """A graph of version 0 that stops with a question at one node."""

    async def intake(state: OldState) -> dict[str, Any]:
        return {"request": state.messages[-1].text}

    async def planner(state: OldState) -> dict[str, Any]:
        return values

    async def waiting(state: OldState) -> dict[str, Any]:
        interrupt({"question": "go on?"})
        return {}

    builder = LoopBuilder(OldState)
    builder.add_node("intake", intake)
    builder.add_node("planner", planner)
    builder.add_node(waits_at, waiting)
    builder.add_edge(START, "intake")
    builder.add_edge("intake", "planner")
    builder.add_edge("planner", waits_at)
    builder.add_edge(waits_at, END)
    return builder.compile(durability.checkpointer, store=durability.store)


def look(name: str) -> str:
    """Look up a fact."""
    return {"owner": "Ada", "price": "7 euro"}[name]


def executor(messages, offered):
    if messages[-1].type == "tool":
        return report(f"It is {messages[-1].text}.")
    wanted = read_json(messages[1].text, "task")["description"].removeprefix("Find the ")
    return [call("look", name=wanted)]


def verifier(messages, offered):
    shown = messages[1].text
    proof = {f"t{i}": [f"{i}.1.0" if f'"{i}.1.0"' in shown else f"{i}.report"] for i in "12"}
    return passed("Ada owns it, 7 euro.", **proof)


def model():
    planned = plan(todo("1", "Find the owner"), todo("2", "Find the price"))
    return ScriptedModel({"planner": [planned] * 2, "executor": executor, "verifier": verifier})


def new_graph(durability):
    return build_plan_execute_verify(model=model(), tools=[look], durability=durability)


def left_behind(tmp_path, waits_at, **values):
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        old_graph(durability, waits_at, **values).invoke(GOAL, THREAD)
    return open_durability(f"sqlite:///{tmp_path / 'threads.db'}")


@pytest.mark.req("P-07")
def test_a_question_of_version_0_is_answered_and_the_run_ends_right(tmp_path):
    with left_behind(tmp_path, "ask_user", planning="ask", missing=["Which one?"]) as durability:
        graph = new_graph(durability)
        assert len(graph.get_state(THREAD).interrupts) == 1
        outcome = graph.invoke(Command(resume="respond: the red one"), THREAD)["outcome"]
        assert graph.get_state(THREAD).values["schema_version"] == 1
    assert outcome["status"] == "complete"
    assert [t["attempts"] for t in outcome["tasks"]] == [1, 1]


@pytest.mark.req("P-07")
def test_a_database_of_version_0_is_answered_and_the_run_ends_right(tmp_path):
    """A file that was written without this package; `make_version_0.py` beside it tells how."""
    old, path = Path(__file__).parents[1] / "fixtures" / "version_0.db", tmp_path / "threads.db"
    shutil.copy(old, path)
    thread = {"configurable": {"thread_id": "old"}}
    with open_durability(f"sqlite:///{path}") as durability:
        (listed,) = list_threads(durability)
        assert (listed.thread_id, listed.waiting, listed.next) == ("old", True, ("ask_user",))
        graph = new_graph(durability)
        saved = graph.get_state(thread)
        assert "schema_version" not in saved.values
        assert [t["status"] for t in saved.values["todos"]] == ["done", "executing"]
        (question,) = saved.interrupts
        assert question.value == {"question": "Which lamp do you mean?"}
        outcome = graph.invoke(Command(resume="respond: the red one"), thread)["outcome"]
        after = graph.get_state(thread)
    assert (outcome["status"], outcome["answer"]) == ("complete", "Ada owns it, 7 euro.")
    assert [(t["id"], t["status"], t["attempts"]) for t in outcome["tasks"]] == [
        ("1", "completed", 0),
        ("2", "completed", 1),
    ]
    assert after.values["schema_version"] == 1
    assert after.values["answers"][0]["answer"] == "the red one"
    assert (after.next, after.interrupts) == ((), ())
    assert after.values["messages"][0].id == "message-1"


@pytest.mark.req("P-07")
@pytest.mark.parametrize("waits_at", ["review_plan", "work"])
def test_tasks_of_version_0_go_on_under_todays_words(tmp_path, waits_at):
    """What was done stays done, what was under way runs."""
    found = {
        "id": "1.1.0", "task": "1", "call_id": "c", "tool": "look",
        "arguments": {"name": "owner"}, "status": "success", "result": "Ada",
    }  # fmt: skip
    with left_behind(
        tmp_path, waits_at, planning="review", todos=TODOS, evidence=[found]
    ) as durability:
        graph = new_graph(durability)
        given = Command(resume="approve") if waits_at == "review_plan" else None
        outcome = graph.invoke(given, THREAD)["outcome"]
        asked = graph.get_state(THREAD).values
    assert outcome["status"] == "complete"
    assert [(t["id"], t["status"], t["attempts"]) for t in outcome["tasks"]] == [
        ("1", "completed", 0),
        ("2", "completed", 1),
    ]
    assert outcome["tasks"][0]["result"] == "Ada"
    assert asked["cycles"] == 1


@pytest.mark.req("P-07")
@pytest.mark.parametrize(
    "given", [None, Command(resume="approve"), GOAL], ids=["go on", "answer", "message"]
)
def test_a_thread_that_waits_at_an_unknown_node_is_refused_by_name(tmp_path, given):
    with left_behind(tmp_path, "ponder", todos=TODOS) as durability:
        graph = new_graph(durability)
        with pytest.raises(ThreadIncompatible, match=r"'ponder'.*plan_execute_verify"):
            graph.invoke(given, THREAD)
        with pytest.raises(ThreadIncompatible):
            list(graph.stream(given, THREAD))
        assert old_graph(durability, "ponder").get_state(THREAD).next == ("ponder",)


def test_the_same_call_id_in_every_turn_is_only_data(tmp_path):
    calls = []

    def work(name: str) -> str:
        """Work."""
        calls.append(name)
        return f"{name} done"

    def executor(messages, offered):
        done = [m.text for m in messages if m.type == "tool"]
        return [call("work", "call_0", name=f"step {len(done)}")] if len(done) < 4 else report(
            "; ".join(done)
        )  # fmt: skip

    scripted = ScriptedModel(
        {
            "planner": [plan(todo("1", "Do four steps", []), todo("2", "Do four more", []))],
            "executor": executor,
            "verifier": [
                passed("Cited by the provider's id.", t1=["call_0"], t2=["call_0"]),
                passed("All steps are done.", t1=["1.4.0"], t2=["2.4.0"]),
            ],
        }
    )
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        graph = build_plan_execute_verify(model=scripted, tools=[work], durability=durability)
        outcome = graph.invoke(GOAL, THREAD)["outcome"]
        evidence = graph.get_state(THREAD).values["evidence"]
    assert outcome["status"] == "complete"
    assert len(evidence) == len(calls) == 8
    assert sorted(e["id"] for e in evidence) == [f"{t}.{n}.0" for t in "12" for n in "1234"]
    last = [a.messages for a in scripted.asked if a.role == "executor"][-1]
    assert [m.text for m in last if m.type == "tool"] == [f"step {n} done" for n in range(4)]
    assert outcome["answer"] == "All steps are done.", "an id that means many calls proves nothing"


@pytest.mark.req("P-46")
def test_state_is_json_and_messages_also_where_nothing_else_may_be_read_back(tmp_path):
    """A whole run with questions, saved and read under strict rules, says nothing of odd types."""
    assert killed.run_strictly("killed", tmp_path) == []
