"""What a turn costs late in a thread, in calls of functions: no load of the machine changes it."""

import sys
from dataclasses import dataclass, field

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from loopwright import ScriptedModel, build_plan_execute_verify, build_react, build_task_agent
from loopwright.state.messages import Messages
from support.reacting import THREAD
from support.scripts import call, passed, plan, report, thought, todo

TURNS = 60


@dataclass(kw_only=True)
class Bare:
    """One delta channel."""

    messages: Messages = field(default_factory=list)


def build_bare(saver):
    """Three nodes, each of which says one word."""
    builder = StateGraph(Bare)
    names = ("one", "two", "three")
    for name in names:
        builder.add_node(name, lambda state: {"messages": [AIMessage("word")]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", "three")
    builder.add_edge("three", END)
    return builder.compile(checkpointer=saver)


BUILT = {
    "react": lambda saver: build_react(
        model=ScriptedModel({"thought": lambda *_: thought("It is seven.")}), checkpointer=saver
    ),
    "task_agent": lambda saver: build_task_agent(
        model=ScriptedModel(lambda *_: [call("complete_task", summary="It is seven.")]),
        checkpointer=saver,
    ),
    "plan_execute_verify": lambda saver: build_plan_execute_verify(
        model=ScriptedModel(
            {
                "planner": lambda *_: plan(todo("1", "Say it")),
                "executor": lambda *_: report("It is seven."),
                "verifier": lambda *_: passed("It is seven.", t1=["1.report"]),
            }
        ),
        checkpointer=saver,
    ),
}


async def count_calls(graph):
    """The calls of functions in a turn, early and late; those of C are not counted."""
    counts = []
    for turn in range(TURNS):
        calls = 0

        def note(frame, event, arg):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(note if turn < 6 or turn >= TURNS - 5 else None)  # it takes its time
        try:
            await graph.ainvoke({"messages": [("user", f"Turn {turn}.")]}, THREAD)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    return sorted(counts[1:6])[2], sorted(counts[-5:])[2]


@pytest.mark.req("W-112")
@pytest.mark.parametrize("name", BUILT)
async def test_a_turn_grows_with_its_thread_as_that_of_a_bare_graph(name):
    (early, late), (first, last) = [
        await count_calls(build(InMemorySaver())) for build in (build_bare, BUILT[name])
    ]
    assert last / first <= 1.5 * late / early
