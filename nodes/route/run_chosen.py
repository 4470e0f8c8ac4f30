"""inside: runs the chosen graph for this turn, within its share of what the turn has left."""

from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from ...run.graph import LoopGraph
from ...run.run import read_saved_values
from ...state.context import Context
from ...state.messages import make_rewrite
from ...state.outcome import read_spend
from ...state.route import (
    STRONGER,
    RouterState,
    RouterUpdate,
    collect_earlier,
    make_inner_input,
    select_kept,
)
from ...store.base.langgraph_keys import SAVER
from ...store.checkpoints.thread_head import write_node_update
from ...turn.scope import make_scope, share_scope
from ..parts import Parts


async def run_chosen_graph(
    state: RouterState,
    runtime: Runtime[Context],
    *,
    parts: Parts,
    graph: LoopGraph[Any, Any, Any, Any],
) -> RouterUpdate:
    """Hand it the conversation and what it had left; its outcome is what judge reads."""
    scope, way = await make_scope(state, runtime, parts), str(state.way)
    part = scope.context.route_share if way in STRONGER else 1.0

    def forward_event(event: dict[str, Any]) -> None:
        if event["type"] != "outcome":  # the turn has one end, which finish tells
            scope.emit(event)

    with share_scope(scope.for_part(state, part, forward_event)):
        given = make_inner_input(state, remembers="earlier" in graph.channels)
        try:
            # By the node's own name LangGraph would tell each message a second time.
            final = await graph.run_part(given, scope.build_inner_config(f"{way} inside"))
        except GraphBubbleUp:  # front ends draw a question under the messages before it
            await _show(graph, state)
            raise
    outcome = final["outcome"]
    return RouterUpdate(
        messages=make_rewrite(state.messages, final["messages"]),
        inner=outcome,
        kept={**state.kept, way: select_kept(final)},
        earlier=collect_earlier(way, state.turn, final),
        spend=read_spend(outcome),
        warnings=[*scope.notes, *outcome["warnings"]],
    )


async def _show(graph: LoopGraph[Any, Any, Any, Any], state: RouterState) -> None:
    """Write what the graph has said so far beside the step, whose update is lost."""
    configurable = get_config()["configurable"]
    if configurable.get(SAVER) is not None:
        said = (await read_saved_values(graph, configurable)).get("messages") or state.messages
        if news := make_rewrite(state.messages, said):
            await write_node_update(configurable, {"messages": news})
