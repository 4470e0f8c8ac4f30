"""Finish: write the honest outcome and the final answer."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ..state.context import Context
from ..state.loop import PlanState, PlanUpdate
from ..state.outcome import (
    Outcome,
    Reason,
    judge,
    partial_answer,
    spend_outcome,
    task_outcomes,
    unmet_of,
)
from .conversation import answer_id, signature
from .events import emitter
from .run_facts import has_saver, thread_id


async def finish(state: PlanState, runtime: Runtime[Context]) -> PlanUpdate:
    """Say how the run ended, what is proven and what is not."""
    outcome = outcome_of(state, thread_id())
    emitter(runtime)({"type": "outcome", "status": outcome["status"], "reason": outcome["reason"]})
    update = PlanUpdate(outcome=outcome)
    if not state.task_completed:
        about = signature("loopwright")
        answer = AIMessage(outcome["answer"], id=answer_id(state), additional_kwargs=about)
        update["messages"] = [answer]
    return update


def outcome_of(state: PlanState, thread: str) -> Outcome:
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
        uncertain_calls=[],
        spend=spend_outcome(state.spend, state.allowance),
        models=state.spend.get("models", {}),
        resume=None if status == "complete" else _how_to_resume(thread),
    )


def _nothing(reason: Reason) -> str:
    return f"Nothing could be done ({reason})."


def _how_to_resume(thread: str) -> dict[str, Any]:
    if not has_saver():
        how = "This run was not saved; give the graph a checkpointer to be able to resume."
        return {"thread_id": thread, "how": how}
    return {
        "thread_id": thread,
        "how": "Invoke the graph with input None on this thread, or run `loopwright resume`: "
        "finished tasks are kept, the allowance starts afresh.",
    }
