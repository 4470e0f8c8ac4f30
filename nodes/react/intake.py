"""Intake: begins a turn; calls that were cut off are answered."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.react import Observe, ReactState, ReactUpdate
from ...turn.begin import answer_open_calls, begin_turn
from ...turn.scope import RunScope, make_scope
from ..parts import Parts


async def react_intake(
    state: ReactState, runtime: Runtime[Context], *, parts: Parts, observe: Observe = "model"
) -> ReactUpdate:
    """Begin the turn; `observe` is what the graph was built with, a run's own setting wins."""
    scope = await make_scope(state, runtime, parts)

    async def adopt_state(scope: RunScope, state: ReactState) -> ReactUpdate:
        messages = await answer_open_calls(scope, state, state.calls)
        return ReactUpdate(messages=messages, observe=scope.context.observe or observe)

    update: ReactUpdate = await begin_turn(scope, state, adopt_state, parts.find_missing)
    update["found"] = await parts.find_likely_tools(scope, state, update)
    return update
