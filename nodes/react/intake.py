"""Intake: begins a turn; calls that were cut off are answered."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.react import Observe, ReactState, ReactUpdate
from ...turn.begin import answered, begin_turn
from ...turn.scope import RunScope, scope_of
from ..parts import Parts


async def react_intake(
    state: ReactState, runtime: Runtime[Context], *, parts: Parts, observe: Observe = "model"
) -> ReactUpdate:
    """Begin the turn; `observe` is what the graph was built with, a run's own setting wins."""
    scope = await scope_of(state, runtime, parts)

    async def adopted(scope: RunScope, state: ReactState) -> ReactUpdate:
        messages = await answered(scope, state, state.calls)
        return ReactUpdate(messages=messages, observe=scope.context.observe or observe)

    update: ReactUpdate = await begin_turn(scope, state, adopted, parts.missing)
    update["found"] = await parts.likely(scope, state, update)
    return update
