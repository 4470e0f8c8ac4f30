"""inside: runs the chosen graph for this turn, within its share of what the turn has left."""

from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from ...run.graph import LoopGraph
from ...run.run import saved_values
from ...state.context import Context
from ...state.outcome import spent_by
from ...state.route import (
    STRONGER,
    RouterState,
    RouterUpdate,
    found_by,
    handed_to,
    left_by,
    rewritten,
)
from ...store.base.langgraph_keys import SAVER
from ...store.checkpoints.head import add_around
from ...turn.scope import around, scope_of
from ..parts import Parts


async def inside(
    state: RouterState,
    runtime: Runtime[Context],
    *,
    parts: Parts,
    graph: LoopGraph[Any, Any, Any, Any],
) -> RouterUpdate:
    """Hand it the conversation and what it had left; its outcome is what judge reads."""
    scope, way = await scope_of(state, runtime, parts), str(state.way)
    part = scope.context.route_share if way in STRONGER else 1.0

    def told(event: dict[str, Any]) -> None:
        if event["type"] != "outcome":  # the turn has one end, which finish tells
            scope.emit(event)

    with around(scope.for_part(state, part, told)):
        given = handed_to(state, remembers="earlier" in graph.channels)
        try:
            # By the node's own name LangGraph would tell each message a second time.
            final = await graph.run_part(given, scope.inner_config(f"{way} inside"))
        except GraphBubbleUp:  # front ends draw a question under the messages before it
            await _show(graph, state)
            raise
    outcome = final["outcome"]
    return RouterUpdate(
        messages=rewritten(state.messages, final["messages"]),
        inner=outcome,
        kept={**state.kept, way: left_by(final)},
        earlier=found_by(way, state.turn, final),
        spend=spent_by(outcome),
        warnings=[*scope.notes, *outcome["warnings"]],
    )


async def _show(graph: LoopGraph[Any, Any, Any, Any], state: RouterState) -> None:
    """Write what the graph has said so far beside the step, whose update is lost."""
    configurable = get_config()["configurable"]
    if configurable.get(SAVER) is not None:
        said = (await saved_values(graph, configurable)).get("messages") or state.messages
        if news := rewritten(state.messages, said):
            await add_around(configurable, {"messages": news})
