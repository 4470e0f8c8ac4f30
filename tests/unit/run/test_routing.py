"""Routers read what LangGraph would have them read, and no more is copied for it."""

import asyncio
from dataclasses import asdict
from typing import Any, Literal

from hypothesis import given, settings, strategies as st
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Overwrite

from loopwright.run.graph import LoopBuilder
from support.toy_graphs import Everything

texts = st.lists(st.sampled_from("ab"), max_size=2)
updates = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(st.sampled_from("ab").map(lambda name: HumanMessage("x", id=name))),
        "evidence": st.lists(st.fixed_dictionaries({"id": st.sampled_from("ab")})),
        "log": texts | st.builds(Overwrite, texts),
        "given": st.sampled_from("ab"),
        "plain": st.sampled_from("ab"),
    },
)


def seen_by_routers(kind: Any, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    left = [*steps]

    async def node(state: Everything) -> dict[str, Any]:
        return left.pop(0)

    def route(state: Everything) -> Literal["node", "__end__"]:
        seen.append(asdict(state))
        return "node" if left else "__end__"

    builder = kind(Everything)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", route)
    asyncio.run(builder.compile().ainvoke({"messages": [], "given": "a"}))
    return seen


@settings(max_examples=50)
@given(st.lists(updates, min_size=1, max_size=4))
def test_a_router_sees_the_state_as_langgraph_would_show_it(steps):
    assert seen_by_routers(LoopBuilder, steps) == seen_by_routers(StateGraph, steps)
