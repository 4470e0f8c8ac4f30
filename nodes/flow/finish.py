"""Finish: write the honest outcome of a turn of prompt_flow, and its final answer."""

from dataclasses import replace

from langchain_core.messages import AIMessage, RemoveMessage
from langgraph.runtime import Runtime

from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.flow import FlowState, FlowUpdate
from ...state.loop import changes
from ...state.outcome import Outcome
from ...turn.begin import how_to_resume
from ...turn.hooks import ANSWER_REJECTED, end_turn
from ...turn.scope import RunScope, scope_of
from ..conversation import answer_id, signature
from ..parts import Parts
from .outcome import outcome_of


async def flow_finish(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Say how the turn ended and what came of it, unless a hook wants another answer."""
    scope = await scope_of(state, runtime, parts)
    outcome, again = _outcome(scope, state), state.stop_hook_active
    verdict = await end_turn(scope, state.request, outcome["answer"], again=again)
    update = FlowUpdate(warnings=verdict.warnings)
    if verdict.blocked and _may_go_on(state, verdict):
        return changes(state, update | _another_answer(state, verdict))
    if verdict.blocked:
        denied = _rejected(state, verdict)
        outcome = _outcome(scope, denied) | {"answer": denied.unmet[-1]}
        update |= FlowUpdate(task_completed=False, halt=denied.halt, unmet=denied.unmet)
    if verdict.blocked or not own_answer(state):
        about = signature("loopwright")
        update["messages"] = [
            AIMessage(outcome["answer"], id=answer_id(state), additional_kwargs=about)
        ]
    scope.emit({"type": "outcome", "status": outcome["status"], "reason": outcome["reason"]})
    return changes(state, update | FlowUpdate(outcome=outcome, should_continue=False))


def own_answer(state: FlowState) -> str:
    """The words that a model wrote as this turn's answer; '' where none did."""
    newest = state.messages[-1] if state.messages else None
    return newest.text if newest is not None and newest.id == answer_id(state) else ""


def _outcome(scope: RunScope, state: FlowState) -> Outcome:
    resume = how_to_resume(scope, state.request_id, "finished steps are kept")
    return outcome_of(state, resume, answer=own_answer(state))


def _may_go_on(state: FlowState, verdict: Verdict) -> bool:
    """Whether a rejected answer can be mended: once a turn, and where no limit ended it."""
    return not state.stop_hook_active and state.halt is None and verdict.stop is None


def _another_answer(state: FlowState, verdict: Verdict) -> FlowUpdate:
    """Go back for another answer from the same results, with the hook's reason as what to mend."""
    return FlowUpdate(
        stop_hook_active=True,
        task_completed=False,
        improvements=[ANSWER_REJECTED.format(reason=verdict.reason)],
        hook_context=[*state.hook_context, *filter(None, [verdict.context])],
        messages=[RemoveMessage(id=answer_id(state))],
    )


def _rejected(state: FlowState, verdict: Verdict) -> FlowState:
    """The state of a turn whose answer may not be given and cannot be mended."""
    why = ANSWER_REJECTED.format(reason=verdict.reason)
    halt = state.halt or "DENIED"
    return replace(state, task_completed=False, halt=halt, unmet=[*state.unmet, why])
