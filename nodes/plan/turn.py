"""How a turn of plan_execute_verify begins and ends."""

from typing import Final

from langgraph.types import Overwrite

from ...hooks.contract import Verdict
from ...state.calls import round_of
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import Task, list_required
from ...state.undone import describe_undone_calls
from ...turn.begin import TurnWork, answer_asked_calls, is_same_request, resume_work
from ...turn.end import Facts, build_answer_id, find_answer, get_denial_reason
from ...turn.scope import RunScope
from ..turns import TurnEnd
from .work import fold_ends


async def adopt_state(scope: RunScope, state: PlanState) -> PlanUpdate:
    """Plan and evidence to keep if the request goes on or the last turn was cut off at work."""
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


def retry(_: PlanState, verdict: Verdict) -> PlanUpdate:
    """Plan again, with what the hook found missing."""
    update = PlanUpdate(blockers=[])
    if verdict.clear_context:
        update |= PlanUpdate(todos=Overwrite([]), evidence=Overwrite([]), answers=[])
    return update


def facts_of(state: PlanState) -> Facts:
    """The facts; the verdict's words are the answer only where it passed."""
    asked, done = list_required(state.todos), [t for t in state.todos if t["status"] == "completed"]
    # Unfinished tasks with the reason, then questions and what the verifier asked for.
    unfinished = [
        f"{t['description']} ({t['status']}{': ' + t['feedback'] if t.get('feedback') else ''})"
        for t in asked
        if t not in done
    ]
    told = [t["feedback"] for t in asked if t not in done and t.get("feedback")]
    return Facts(
        halt=state.halt,
        done=state.task_completed and bool(state.todos) and not unfinished,
        refused=get_denial_reason(state.todos)
        or ("MISSING_INFORMATION" if state.missing else None),
        unmet=[
            *unfinished,
            *state.unmet,
            *state.missing,
            *(text for text in state.improvements if not any(why in text for why in told)),
            *_list_refused(state),
        ],
        answer=find_answer(state) if state.task_completed else "",
        results=[f"**{t['description']}**\n\n{t['result']}" for t in done if t.get("result")],
        tasks=state.todos,
        evidence=state.evidence,
        message=build_answer_id(state),
        kept="finished tasks are kept",
    )


def _list_refused(state: PlanState) -> list[str]:
    """The refused or cut off calls of the last attempts that no verdict cites.

    The verifier has seen the failed ones and judged them.
    """
    begun = {t["id"]: t.get("before", 0) for t in state.todos if t["status"] == "completed"}
    cited = {name for task in state.todos for name in task.get("evidence", [])}
    return describe_undone_calls(
        state.evidence,
        lambda r: (
            r["status"] == "cancelled"
            and r["id"] not in cited
            and round_of(r) > begun.get(r["task"], round_of(r))
        ),
    )


END: Final = TurnEnd("verifier", facts_of, retry)
