"""Writes of a graph that is a node of another one: it knows nothing of the turns before."""

import asyncio
import threading

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph

from loopwright import (
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    open_durability,
)
from support import killed
from support.flows import THREAD, declared, flow, planning, said, step
from support.patience import PATIENCE
from support.scripts import call, passed, plan, report, thought, todo


def _react():
    more = thought("Put it there.", more=True, reason="it was asked for")
    return build_react, ScriptedModel({
        "thought": [more, thought("It is there.")] * 2,
        "action": [[call("put", what="x")]] * 2,
        "observation": ["It is there now."] * 2,
    })  # fmt: skip


def _plan():
    return build_plan_execute_verify, ScriptedModel({
        "planner": [plan(todo("1", "put x", []))] * 2,
        "executor": [[call("put", what="x")], report("x is there")] * 2,
        "verifier": [passed("x was put where it belongs", t1=["1.1.0"])] * 2,
    })  # fmt: skip


def _flow():
    made = flow(step("w", "put", arguments={"what": "x"}))
    return build_prompt_flow, planning(made, made)


def _inside(kind, durability, put):
    """The graph as the one node of another, on one thread."""
    build, model = kind()
    graph = build(model=model, tools=[declared(put)], policy="allow", durability=durability)
    outer = StateGraph(MessagesState)
    outer.add_node("inner", graph)
    outer.add_edge(START, "inner")
    outer.add_edge("inner", END)
    return outer.compile(checkpointer=durability.checkpointer, store=durability.store)


KINDS = pytest.mark.parametrize("kind", [_react, _plan, _flow], ids=lambda kind: kind.__name__)


@pytest.mark.req("P-06")
@KINDS
async def test_a_write_cut_off_inside_a_graph_is_asked_about_after_a_new_message(kind, tmp_path):
    book, reached = [], threading.Event()

    async def put(what: str) -> str:
        """Put something where it belongs; the first time no answer comes."""
        book.append(what)
        if len(book) == 1:
            reached.set()
            await asyncio.sleep(PATIENCE)
        return "put"

    with open_durability(killed.World(tmp_path).url) as durability:
        await killed.cut_off(_inside(kind, durability, put), said("Put x."), reached)
        result = await _inside(kind, durability, put).ainvoke(said("Now put x, please."), THREAD)
    assert result["__interrupt__"][0].value["type"] == "uncertain_call"
    assert book == ["x"]
