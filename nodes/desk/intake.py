"""Intake: begins a turn; calls that were cut off are answered."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk.conversation import DeskState, DeskUpdate
from ...turn.begin import answered, begin_turn
from ...turn.scope import RunScope, scope_of
from .shared.desk import Desk


async def desk_intake(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Begin the turn; what is known of the customer stays."""
    scope = await scope_of(state, runtime, desk.parts)

    async def adopted(scope: RunScope, state: DeskState) -> DeskUpdate:
        return DeskUpdate(messages=await answered(scope, state, [*state.calls, *state.delegations]))

    update: DeskUpdate = await begin_turn(scope, state, adopted, desk.parts.missing)
    update["found"] = await desk.parts.likely(scope, state, update)
    return update
