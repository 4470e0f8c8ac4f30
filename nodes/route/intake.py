"""Intake: begins a turn of the router."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.route import RouterState, RouterUpdate
from ...turn.begin import begin_turn, same_request
from ...turn.scope import RunScope, scope_of
from ..parts import Parts


async def route_intake(
    state: RouterState, runtime: Runtime[Context], *, parts: Parts
) -> RouterUpdate:
    """Begin the turn; what the graph had done that the last one was cut off in, is taken in."""
    scope = await scope_of(state, runtime, parts)
    update: RouterUpdate = await begin_turn(scope, state, _adopted, parts.missing)
    return update


async def _adopted(scope: RunScope, state: RouterState) -> RouterUpdate:
    """The calls of the turn before: a request that goes on finds them, any other begins anew."""
    if state.turn:
        over = state.outcome is not None and not same_request(state)
        await scope.release(lambda _: False, ended=over, told=over, anywhere=not over)
    return RouterUpdate()
