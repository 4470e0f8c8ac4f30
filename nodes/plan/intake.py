"""Intake: begins a turn, with what goes on of the turn before."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.history import make_earlier_records
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import Task
from ...turn.begin import (
    TurnWork,
    answer_asked_calls,
    begin_turn,
    is_same_request,
    resume_work,
)
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .work import fold_ends


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
