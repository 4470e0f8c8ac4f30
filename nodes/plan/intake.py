"""Intake: begins a turn, with what goes on of the turn before."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.loop import PlanState, PlanUpdate
from ...state.past import remembered
from ...state.plan import Task
from ...turn.begin import (
    Work,
    asked_and_answered,
    begin_turn,
    same_request,
    taken_up,
)
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .work import gathered


async def intake(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Begin the turn; the calls of the one before are remembered, where they do not go on."""
    scope = await scope_of(state, runtime, parts)
    update: PlanUpdate = await begin_turn(scope, state, _adopted, parts.missing)
    kept = update.get("evidence")
    going_on = kept.value if isinstance(kept, Overwrite) else state.evidence
    ids = {record["id"] for record in going_on}
    ended = [record for record in state.evidence if record["id"] not in ids]
    answers = [] if update.get("answers", state.answers) else state.answers
    update["earlier"] = remembered(state.turn, ended, answers)
    return update


async def _adopted(scope: RunScope, state: PlanState) -> PlanUpdate:
    """Plan and evidence, where the same request goes on or the last one was cut off at work."""
    done, ended = Work(state.todos, state.evidence), gathered(state.todos, state.cut_off)
    before = await taken_up(scope, state, done, ended)
    evidence = state.evidence if before is None else before.evidence
    messages = asked_and_answered(state, evidence)
    if before is None:
        return PlanUpdate(messages=messages)
    return PlanUpdate(
        messages=messages,
        todos=Overwrite([_reopened(task) for task in before.tasks]),
        evidence=Overwrite(before.evidence),
        answers=state.answers,
        improvements=state.improvements if same_request(state) else [],
    )


def _reopened(task: Task) -> Task:
    """Fresh limits for every task; what did not finish may be planned again."""
    afresh: Task = {**task, "rounds_this_turn": 0}
    if task["status"] == "completed":
        return afresh
    return {**afresh, "status": "pending", "denied": ""}
