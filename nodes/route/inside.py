"""inside: runs the chosen graph for this turn, within its share of what the turn has left."""

from collections.abc import Mapping
from typing import Any, Final

from langgraph.runtime import Runtime

from ...doors.graph import LoopGraph
from ...state.calls import Evidence
from ...state.context import Context
from ...state.outcome import spent_by
from ...state.past import remembered
from ...state.route import (
    STRONGER,
    RouterState,
    RouterUpdate,
    handed_to,
    left_by,
    rewritten,
)
from ...turn.scope import around, scope_of
from ..parts import Parts

_REMEMBERS: Final = "earlier"
"""The field of a graph that keeps what calls before it brought."""


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

    remembers = _REMEMBERS in graph.channels
    with around(scope.for_part(state, part, told)):
        given = handed_to(state, remembers=remembers)
        final = await graph.ainvoke(given, scope.inner_config(way))
    outcome = final["outcome"]
    earlier = final[_REMEMBERS] if remembers else _remembered(state, final)
    return RouterUpdate(
        messages=rewritten(state.messages, final["messages"]),
        inner=outcome,
        kept={**state.kept, way: left_by(final)},
        earlier=earlier,
        spend=spent_by(outcome),
        warnings=[*scope.notes, *outcome["warnings"]],
    )


def _remembered(state: RouterState, final: Mapping[str, Any]) -> list[Evidence]:
    """What the calls brought; steps of one graph and tasks of another may have equal ids."""
    found: list[Evidence] = final.get("evidence") or []
    return remembered(state.turn, [one | Evidence(id=f"{state.way}.{one['id']}") for one in found])
