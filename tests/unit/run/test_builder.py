"""What the builder refuses, and how it routes."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pytest
from langgraph.graph import END, START
from langgraph.types import Command

from loopwright.run.graph import LoopBuilder
from loopwright.state.errors import StateKeyError


@dataclass(kw_only=True)
class State:
    result: int = 0


def built(node: Any, route: Any = None) -> Any:
    builder = LoopBuilder(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    if route is None:
        builder.add_edge("node", END)
    else:
        builder.add_conditional_edges("node", route)
    return builder.compile()


async def misspelt(state: State) -> Any:
    return {"resutl": 1}


async def commanded(state: State) -> Any:
    return Command(update={"resutl": 1})


async def counted(state: State, *, by: int = 1) -> dict[str, int]:
    return {"result": state.result + by}


@pytest.mark.req("P-49")
@pytest.mark.parametrize("node", [misspelt, commanded, partial(misspelt)])
def test_a_misspelt_key_is_no_silent_loss(node):
    with pytest.raises(StateKeyError, match=r"'node'.*'resutl'.*Did it mean 'result'\?"):
        built(node).invoke({})


def test_a_router_is_called_on_the_run_s_own_thread_and_drawn_by_its_words():
    def again(state: State) -> Literal["node", "__end__"]:
        return "__end__" if state.result > 2 else "node"

    graph = built(counted, again)
    assert graph.invoke({})["result"] == 3
    assert {edge.target for edge in graph.get_graph().edges if edge.conditional} == {
        "node",
        "__end__",
    }
