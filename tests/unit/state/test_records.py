"""Records: what nodes write by field is kept as if each field were a channel of its own."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Overwrite, interrupt

from loopwright import open_durability
from loopwright.run.graph import LoopBuilder
from loopwright.state.agent import TaskAgentState
from loopwright.state.channels import channels_of, pack_fields, schema_of, unpack_fields
from loopwright.state.desk import DeskState
from loopwright.state.flow import FlowState
from loopwright.state.loop import PlanState, TaskState
from loopwright.state.react import ReactState
from loopwright.state.route import RouterState
from support.toy_graphs import on

STATES = (PlanState, TaskState, ReactState, FlowState, TaskAgentState, DeskState, RouterState)

names = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
words = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=2)
spends = st.dictionaries(st.sampled_from(["model_calls", "tool_calls"]), st.integers(0, 3))
folded = {"found": names, "warnings": names, "objections": words, "spend": spends}
plain = {"status": st.sampled_from("abc"), "held": names, "results_so_far": names}
either = {name: one | st.builds(Overwrite, one) for name, one in folded.items()}
updates = st.fixed_dictionaries({}, optional=either | plain)


@pytest.mark.parametrize("state", STATES)
@given(data=st.data())
def test_an_update_of_fields_is_one_of_channels_and_back(state, data):
    update = data.draw(st.dictionaries(st.sampled_from(sorted(channels_of(state))), st.integers()))
    assert pack_fields(state, update).keys() <= StateGraph(schema_of(state)).channels.keys()
    assert unpack_fields(pack_fields(state, update)) == update


def writing(update: dict[str, Any]) -> Any:
    async def node(state: TaskState) -> dict[str, Any]:
        return update

    return node


def kept(kind: Any, steps: list[dict[str, Any]]) -> TaskState:
    builder = kind(TaskState).add_sequence([(str(i), writing(u)) for i, u in enumerate(steps)])
    builder.add_edge(START, "0")
    return TaskState(**unpack_fields(asyncio.run(builder.compile().ainvoke({"request": "x"}))))


@settings(max_examples=50, deadline=None)
@given(st.lists(updates, min_size=1, max_size=4))
def test_fields_are_kept_as_channels_of_their_own_would_be(steps):
    assert kept(LoopBuilder, steps) == kept(StateGraph, steps)


def test_what_was_written_after_a_node_read_the_record_outlives_its_update(tmp_path):
    async def ask(state: TaskState) -> dict[str, Any]:
        return {"status": interrupt("?"), "warnings": ["later"]}

    async def fails(state: TaskState) -> dict[str, Any]:
        (tmp_path / "mended").read_text()
        return {"feedback": "mended"}

    def build(durability: Any) -> Any:
        builder, anew = LoopBuilder(TaskState), {"warnings": Overwrite(["anew"]), "held": ["h"]}
        for name, node in (("ask", ask), ("fails", fails), ("writes", writing(anew))):
            builder.add_node(name, node)
            builder.add_edge("ask" if name != "ask" else START, name)
        return builder.compile(durability.checkpointer)

    url = f"sqlite:///{tmp_path}/t.db"
    with open_durability(url) as durability:
        build(durability).invoke({"request": "x"}, on("t"))
        by_hand = Command(resume="done", update={"result": "by hand", "warnings": ["first"]})
        with pytest.raises(FileNotFoundError):
            build(durability).invoke(by_hand, on("t"))
    (tmp_path / "mended").touch()
    with open_durability(url) as durability:  # what one node wrote was saved, and no checkpoint
        state = TaskState(**unpack_fields(build(durability).invoke(None, on("t"))))
        build(durability).update_state(on("t"), {"result": "again"}, as_node="fails")
        assert build(durability).get_state(on("t")).values["turn_state"]["result"] == "again"
    found = (state.status, state.result, state.feedback, state.held, state.warnings)
    assert found == ("done", "by hand", "mended", ["h"], ["anew"])
