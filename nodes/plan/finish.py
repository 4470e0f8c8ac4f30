"""Finish: ends a turn with its honest outcome, or plans again for a hook."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import list_required
from ...turn.end import Facts, build_answer_id, end_turn, find_answer, get_denial_reason
from ...turn.scope import make_scope
from ..parts import Parts


async def finish(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """End the turn, or plan again with what a hook wants mended."""
    scope = await make_scope(state, runtime, parts)
    typed = parts.bind_typed_result(scope, "verifier", state.request)
    update: PlanUpdate = await end_turn(scope, state, _facts(state), _try_again, typed)
    return update


def _try_again(verdict: Verdict) -> PlanUpdate:
    update = PlanUpdate(blockers=[])
    if verdict.clear_context:
        update |= PlanUpdate(todos=Overwrite([]), evidence=Overwrite([]), answers=[])
    return update


def _facts(state: PlanState) -> Facts:
    """The facts; the verdict's words are the answer only where it passed."""
    asked, done = list_required(state.todos), [t for t in state.todos if t["status"] == "completed"]
    # Unfinished tasks with the reason, then questions and what the verifier asked for.
    unfinished = [
        f"{t['description']} ({t['status']}{': ' + t['feedback'] if t.get('feedback') else ''})"
        for t in asked
        if t not in done
    ]
    return Facts(
        halt=state.halt,
        done=state.task_completed and bool(state.todos) and not unfinished,
        refused=get_denial_reason(state.todos)
        or ("MISSING_INFORMATION" if state.missing else None),
        unmet=[*unfinished, *state.unmet, *state.missing, *state.improvements],
        answer=find_answer(state) if state.task_completed else "",
        results=[f"**{t['description']}**\n\n{t['result']}" for t in done if t.get("result")],
        tasks=state.todos,
        evidence=state.evidence,
        message=build_answer_id(state),
        kept="finished tasks are kept",
    )
