"""How a turn of plan_execute_verify begins and ends."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from ...state.context import Context
from ...state.history import make_earlier_records
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import Task
from ...turn.begin import TurnWork, answer_asked_calls, begin_turn, is_same_request, resume_work
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .work import fold_ends
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import list_required
from ...turn.end import Facts, build_answer_id, end_turn, find_answer, get_denial_reason
from ...turn.scope import make_scope
from ..parts import Parts


async def intake(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Begin the turn; the calls of the one before are remembered, where they do not go on."""
    scope = await make_scope(state, runtime, parts)
    update: PlanUpdate = await begin_turn(scope, state, _adopt_state, parts.find_missing)
    kept = update.get("evidence")
    going_on = kept.value if isinstance(kept, Overwrite) else state.evidence
    ids = {record["id"] for record in going_on}
    ended = [record for record in state.evidence if record["id"] not in ids]
    answers = [] if update.get("answers", state.answers) else state.answers
    update["earlier"] = make_earlier_records(state.turn, ended, answers)
    return update


async def _adopt_state(scope: RunScope, state: PlanState) -> PlanUpdate:
    """Plan and evidence, where the same request goes on or the last one was cut off at work."""
    done, ended = TurnWork(state.todos, state.evidence), fold_ends(state.todos, state.cut_off)
    before = await resume_work(scope, state, done, ended)
    evidence = state.evidence if before is None else before.evidence
    messages = answer_asked_calls(state, evidence)
    if before is None:
        return PlanUpdate(messages=messages)
    return PlanUpdate(
        messages=messages,
        todos=Overwrite([_reopen(task) for task in before.tasks]),
        evidence=Overwrite(before.evidence),
        answers=state.answers,
        improvements=state.improvements if is_same_request(state) else [],
    )


def _reopen(task: Task) -> Task:
    """Fresh limits for every task; what did not finish may be planned again."""
    afresh: Task = {**task, "rounds_this_turn": 0}
    if task["status"] == "completed":
        return afresh
    return {**afresh, "status": "pending", "denied": ""}


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
