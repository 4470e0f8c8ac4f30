"""Threads that an earlier version, another graph or another provider left behind."""

from typing import Any

import pytest
from langgraph.graph import START
from langgraph.types import Command, interrupt

from loopwright import (
    Context,
    ScriptedModel,
    ThreadIncompatible,
    build_plan_execute_verify,
    open_durability,
)
from loopwright.prompts.prompt import read_json
from loopwright.run.graph import LoopBuilder
from loopwright.state.loop import SCHEMA_VERSION, PlanState
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = {"messages": [{"role": "user", "content": "Who owns it, and what does it cost?"}]}


def other_graph(durability, waits_at):
    """A graph with other nodes, which stops with a question at one of them."""

    async def waiting(state: PlanState) -> dict[str, Any]:
        interrupt({"question": "go on?"})
        return {}

    builder = LoopBuilder(PlanState)
    builder.add_node(waits_at, waiting)
    builder.add_edge(START, waits_at)
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


@pytest.fixture
def durability(tmp_path):
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as opened:
        yield opened


GIVEN = pytest.mark.parametrize(
    "given", [None, Command(resume="approve"), GOAL], ids=["go on", "answer", "message"]
)


@pytest.mark.req("P-07")
@GIVEN
def test_a_thread_of_an_earlier_version_is_refused_and_stays_as_it_is(
    durability, monkeypatch, given
):
    review, graph = Context(review_plan=True), new_graph(durability)
    with monkeypatch.context() as earlier:
        earlier.setattr("loopwright.turn.begin.SCHEMA_VERSION", SCHEMA_VERSION - 1)
        assert graph.invoke(GOAL, THREAD, context=review)["__interrupt__"]
    before = graph.get_state(THREAD)
    with pytest.raises(ThreadIncompatible, match=r"'t' was saved by an earlier .* new thread\.$"):
        graph.invoke(given, THREAD, context=review)
    after = graph.get_state(THREAD)
    assert (after.config, after.interrupts) == (before.config, before.interrupts)
    (listed,) = durability.threads()
    assert (listed.thread_id, listed.waiting, listed.next) == ("t", True, ("review_plan",))


@pytest.mark.req("P-07")
@GIVEN
def test_a_thread_that_waits_at_an_unknown_node_is_refused_by_name(durability, given):
    other_graph(durability, "ponder").invoke(GOAL, THREAD)
    graph = new_graph(durability)
    with pytest.raises(ThreadIncompatible, match=r"'ponder'.*plan_execute_verify"):
        graph.invoke(given, THREAD)
    with pytest.raises(ThreadIncompatible):
        list(graph.stream(given, THREAD))
    assert other_graph(durability, "ponder").get_state(THREAD).next == ("ponder",)
