"""Intake: the start of every user turn of the ReAct loop."""

from typing import cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.loop import changes
from ...state.react import Observe, ReactState, ReactUpdate
from ...turn.begin import (
    EMPTY_REQUEST,
    NOTHING_NEW,
    fresh_turn,
    newest_prompt,
    nothing_new,
    with_request,
)
from ...turn.hooks import Beginning, begin_turn, begun
from ...turn.scope import scope_of
from ..parts import Parts
from .left_behind import answered


async def react_intake(
    state: ReactState, runtime: Runtime[Context], *, parts: Parts, observe: Observe = "model"
) -> ReactUpdate:
    """Reset the guards, and answer the calls that an earlier turn left without an answer.

    Args:
        state: The thread; its earlier turns stay in the history.
        runtime: Holds the run's settings.
        parts: Hooks, and the journal that knows what became of those calls.
        observe: What the graph was built with; a run's own setting wins.
    """
    update = _fresh_guards(state)
    if nothing_new(state):
        return changes(state, update | _halted(NOTHING_NEW))
    scope = await scope_of(state, runtime, parts)
    update["observe"] = scope.context.observe or observe
    update["messages"] = await answered(scope, state.messages, state.calls)
    if not _asks(state):
        update |= ReactUpdate(halt="MISSING_INFORMATION", unmet=[EMPTY_REQUEST])
        return changes(state, update)
    scope.journal.own_turn(scope.thread, update["turn_id"])
    beginning = await begin_turn(scope, with_request(state).request)
    return changes(state, update | _begun(state, update, beginning))


def _begun(state: ReactState, update: ReactUpdate, beginning: Beginning) -> ReactUpdate:
    """What hooks make of the turn: texts for its prompts, or its end."""
    made = cast("ReactUpdate", begun(beginning, state))
    if beginning.refused:
        made |= _halted(beginning.refused)
    made["messages"] = [*update["messages"], *made.get("messages", [])]
    return made


def _halted(why: str) -> ReactUpdate:
    return ReactUpdate(halt="DENIED", unmet=[why])


def _asks(state: ReactState) -> bool:
    """Whether the newest human message holds anything, be it a picture."""
    newest = newest_prompt(state.messages, state.request_message)
    if newest is None:
        return False
    return bool(newest.text.strip()) or any(
        isinstance(block, dict) and block.get("type") != "text" for block in newest.content
    )


def _fresh_guards(state: ReactState) -> ReactUpdate:
    update = cast("ReactUpdate", fresh_turn(state))
    return update | ReactUpdate(
        calls=[],
        # Call ids begin anew in every turn: an old answer must not count for a new call.
        decisions=Overwrite({}),
        objections=Overwrite({}),
        evidence=Overwrite([]),
        denied="",
        strikes=0,
        phase="idle",
        iteration=0,
        demanded=False,
        unmet=[],
    )
