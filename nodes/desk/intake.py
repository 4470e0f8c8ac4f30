"""Intake: begins a turn; calls that were cut off are answered."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate
from ...turn.begin import answer_open_calls, begin_turn
from ...turn.scope import RunScope, make_scope
from .shared.desk import Desk


async def desk_intake(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Begin the turn; what is known of the customer stays."""
    scope = await make_scope(state, runtime, desk.parts)

    async def adopt_state(scope: RunScope, state: DeskState) -> DeskUpdate:
        return DeskUpdate(
            messages=await answer_open_calls(scope, state, [*state.calls, *state.delegations])
        )

    update: DeskUpdate = await begin_turn(scope, state, adopt_state, desk.parts.find_missing)
    update["found"] = await desk.parts.find_likely_tools(scope, state, update)
    return update
