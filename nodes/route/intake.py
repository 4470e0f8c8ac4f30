"""Intake: begins a turn of the router."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.route import RouterState, RouterUpdate
from ...turn.begin import begin_turn
from ...turn.scope import RunScope, scope_of
from ..parts import Parts


async def route_intake(
    state: RouterState, runtime: Runtime[Context], *, parts: Parts
) -> RouterUpdate:
    """Begin the turn; the graphs inside have no work of turns before."""
    scope = await scope_of(state, runtime, parts)

    async def adopted(scope: RunScope, state: RouterState) -> RouterUpdate:  # noqa: ARG001 - as begin_turn calls it
        return RouterUpdate()

    update: RouterUpdate = await begin_turn(scope, state, adopted, parts.missing)
    return update
