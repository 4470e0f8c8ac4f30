"""Intake: the start of a turn of the ReAct loop; its earlier turns stay in the history."""

from functools import partial

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.loop import changes
from ...state.react import Observe, ReactState, ReactUpdate
from ...turn.begin import begin_turn, newest_prompt, same_request
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .left_behind import answered


async def react_intake(
    state: ReactState, runtime: Runtime[Context], *, parts: Parts, observe: Observe = "model"
) -> ReactUpdate:
    """Begin the turn; `observe` is what the graph was built with, a run's own setting wins."""
    scope = await scope_of(state, runtime, parts)
    adopt = partial(_adopted, observe)
    update: ReactUpdate = await begin_turn(scope, state, adopt, asks=_asks(state))
    return changes(state, update)


async def _adopted(observe: Observe, scope: RunScope, state: ReactState) -> ReactUpdate:
    """Answers to the calls that an earlier turn left without one."""
    messages = await answered(
        scope, state.messages, state.calls,
        told=state.outcome is not None and not same_request(state),
    )  # fmt: skip

    return ReactUpdate(messages=messages, observe=scope.context.observe or observe)


def _asks(state: ReactState) -> bool:
    """Whether the newest human message holds anything, be it a picture."""
    newest = newest_prompt(state.messages, state.request_message)
    if newest is None:
        return False
    return bool(newest.text.strip()) or any(
        isinstance(block, dict) and block.get("type") != "text" for block in newest.content
    )
