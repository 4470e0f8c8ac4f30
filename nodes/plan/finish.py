"""Finish: write the honest outcome and the final answer."""

from dataclasses import replace

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.evidence import uncertain_calls
from ...state.loop import PlanState, PlanUpdate
from ...state.outcome import (
    Outcome,
    Reason,
    judge,
    partial_answer,
    spend_outcome,
    task_outcomes,
    unmet_of,
)
from ...turn.begin import how_to_resume
from ...turn.hooks import ANSWER_REJECTED, end_turn
from ...turn.scope import RunScope, scope_of
from ..conversation import answer_id, signature
from ..parts import Parts


async def finish(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Say how the run ended, what is proven and what is not, unless a hook wants another answer."""
    scope = await scope_of(state, runtime, parts)
    outcome = outcome_of(scope, state)
    again = state.stop_hook_active
    verdict = await end_turn(scope, state.request, outcome["answer"], again=again)
    update = PlanUpdate(warnings=verdict.warnings) if verdict.warnings else PlanUpdate()
    if verdict.blocked and _may_go_on(state, verdict):
        return update | _another_answer(state, verdict)
    if verdict.blocked:
        state = _rejected(state, verdict)
        outcome = outcome_of(scope, state)
        outcome["answer"] = state.improvements[-1]
        update |= PlanUpdate(task_completed=False, halt=state.halt, should_continue=False)
    scope.emit({"type": "outcome", "status": outcome["status"], "reason": outcome["reason"]})
    update["outcome"] = outcome
    if not state.task_completed:
        about = signature("loopwright")
        answer = AIMessage(outcome["answer"], id=answer_id(state), additional_kwargs=about)
        update["messages"] = [answer]
    return update


def _may_go_on(state: PlanState, verdict: Verdict) -> bool:
    """Whether a rejected answer can be mended: once a turn, and where no limit ended it."""
    return not state.stop_hook_active and state.halt is None and verdict.stop is None


def _another_answer(state: PlanState, verdict: Verdict) -> PlanUpdate:
    """Go on with the hook's reason as what the next plan must mend."""
    update = PlanUpdate(
        stop_hook_active=True,
        task_completed=False,
        should_continue=True,
        improvements=[ANSWER_REJECTED.format(reason=verdict.reason)],
        blockers=[],
        hook_context=[*state.hook_context, *filter(None, [verdict.context])],
    )
    if verdict.clear_context:
        update |= PlanUpdate(todos=Overwrite([]), evidence=Overwrite([]), answers=[])
    return update


def _rejected(state: PlanState, verdict: Verdict) -> PlanState:
    """The state of a turn whose answer may not be given and cannot be mended."""
    why = ANSWER_REJECTED.format(reason=verdict.reason)
    improvements = [*state.improvements, why]
    return replace(
        state, task_completed=False, halt=state.halt or "DENIED", improvements=improvements
    )


def outcome_of(scope: RunScope, state: PlanState) -> Outcome:
    """Build the outcome from what state holds; the verdict's words only where it passed."""
    reason: Reason = state.halt or ("GOAL" if state.task_completed else "MAX_ROUNDS")
    status = judge(reason, state.todos)
    unmet = (
        [] if status == "complete" else unmet_of(state.todos, [*state.missing, *state.improvements])
    )
    answer = state.messages[-1].text if state.task_completed else ""
    return Outcome(
        status=status,
        reason=reason,
        answer=answer or partial_answer(state.todos, unmet) or _nothing(reason),
        tasks=task_outcomes(state.todos),
        unmet=unmet,
        uncertain_calls=uncertain_calls(state.evidence),
        spend=spend_outcome(state.spend, state.allowance),
        models=state.spend.get("models", {}),
        resume=None
        if status == "complete"
        else how_to_resume(scope, state.request_id, "finished tasks are kept"),
    )


def _nothing(reason: Reason) -> str:
    return f"Nothing could be done ({reason})."
