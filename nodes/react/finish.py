"""Finish: write the honest outcome of a turn of the ReAct loop, and its final answer."""

from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.runtime import Runtime

from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.loop import changes
from ...state.messages import request_place
from ...state.outcome import Outcome
from ...state.react import ReactState, ReactUpdate
from ...turn.begin import how_to_resume
from ...turn.hooks import ANSWER_REJECTED, end_turn
from ...turn.scope import RunScope, scope_of
from ..conversation import signature
from ..parts import Parts
from .outcome import outcome_of, own_answer, reason_of
from .phases import REJECTED, message_id


async def react_finish(
    state: ReactState, runtime: Runtime[Context], *, parts: Parts
) -> ReactUpdate:
    """Say how the turn ended and what came of it, unless a hook wants another answer."""
    scope = await scope_of(state, runtime, parts)
    outcome, again = outcome_of(state, _resume(scope, state)), state.stop_hook_active
    verdict = await end_turn(scope, state.request, outcome["answer"], again=again)
    update = ReactUpdate(phase="idle", warnings=verdict.warnings)
    if verdict.blocked and _may_go_on(state, verdict):
        return changes(state, update | _another_answer(state, verdict))
    if verdict.blocked:
        ended = _rejected(state, verdict)
        outcome = outcome_of(ended, _resume(scope, ended)) | {"answer": ended.unmet[-1]}
        update |= ReactUpdate(task_completed=False, halt=ended.halt, unmet=ended.unmet)
        update["messages"] = [_written(outcome, ended, instead=state.messages[-1])]
    elif not own_answer(state):
        update["messages"] = [_written(outcome, state)]
    scope.emit({"type": "outcome", "status": outcome["status"], "reason": outcome["reason"]})
    return changes(state, update | ReactUpdate(outcome=outcome))


def _written(
    outcome: Outcome, state: ReactState, *, instead: AnyMessage | None = None
) -> AIMessage:
    """The outcome's answer as the last message; in place of an answer that may not be given."""
    replaces = instead is not None and bool(own_answer(state))
    id_ = instead.id if instead is not None and replaces else message_id(state)
    return AIMessage(outcome["answer"], id=id_, additional_kwargs=signature("loopwright"))


def _resume(scope: RunScope, state: ReactState) -> dict[str, Any] | None:
    return how_to_resume(scope, state.request_id, "the messages are kept")


def _may_go_on(state: ReactState, verdict: Verdict) -> bool:
    """Whether a rejected answer can be mended: once a turn, and where no limit ended it."""
    ended_well = reason_of(state) == "GOAL" and bool(own_answer(state))
    return ended_well and not state.stop_hook_active and verdict.stop is None


def _another_answer(state: ReactState, verdict: Verdict) -> ReactUpdate:
    """Go back to the thought, which is shown why its answer was rejected."""
    newest = state.messages[-1]
    about = newest.additional_kwargs | {REJECTED: verdict.reason}
    notes = [*state.hook_context, *filter(None, [verdict.context])]
    messages: list[Any] = [newest.model_copy(update={"additional_kwargs": about})]
    if verdict.clear_context:
        notes.append(ANSWER_REJECTED.format(reason=verdict.reason))
        messages = [RemoveMessage(id=str(message.id)) for message in _of_this_turn(state)]
    return ReactUpdate(
        stop_hook_active=True,
        task_completed=False,
        should_continue=True,
        unmet=[],
        hook_context=notes,
        messages=messages,
    )


def _of_this_turn(state: ReactState) -> list[AnyMessage]:
    """What came after the request."""
    place = request_place(state.messages, state.request_message)
    return state.messages[place + 1 :] if place >= 0 else []


def _rejected(state: ReactState, verdict: Verdict) -> ReactState:
    """The state of a turn whose answer may not be given and cannot be mended."""
    why = ANSWER_REJECTED.format(reason=verdict.reason)
    halt = state.halt or "DENIED"
    return replace(state, task_completed=False, halt=halt, unmet=[*state.unmet, why])
