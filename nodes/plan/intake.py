"""Intake: the start of every user turn; begins a new request or takes the last one up again."""

from typing import cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.loop import PlanState, PlanUpdate, changes
from ...state.plan import Task
from ...turn.begin import NOTHING_NEW, fresh_turn, nothing_new, same_request, with_request
from ...turn.hooks import Beginning, begin_turn, begun
from ...turn.scope import RunScope, scope_of
from ..cut_off import taken_up
from ..parts import Parts
from .task_ends import gathered


async def intake(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Reset the guards; keep plan and evidence only where the same request goes on."""
    update = _fresh_guards(state)
    if nothing_new(state):
        return changes(state, update | _halted(NOTHING_NEW))
    scope = await scope_of(state, runtime, parts)
    update |= await _kept(scope, state)
    scope.journal.own_turn(scope.thread, update["turn_id"])
    beginning = await begin_turn(scope, with_request(state).request)
    return changes(state, update | _begun(state, beginning))


async def _kept(scope: RunScope, state: PlanState) -> PlanUpdate:
    """Plan and evidence, where the same request goes on or the last one was cut off at work."""
    ended = gathered(state.todos, state.cut_off)
    again = same_request(state)
    before = await taken_up(scope, state, ended, same_request=again)
    if before is None:
        return PlanUpdate(todos=Overwrite([]), evidence=Overwrite([]), answers=[])
    return PlanUpdate(
        todos=Overwrite([_reopened(task) for task in before.tasks]),
        evidence=Overwrite(before.evidence),
        improvements=state.improvements if again else [],
    )


def _begun(state: PlanState, beginning: Beginning) -> PlanUpdate:
    """What hooks make of the turn; a dropped prompt takes along the plan that was made for it."""
    update = cast("PlanUpdate", begun(beginning, state))
    if not beginning.refused:
        return update
    update |= _halted(beginning.refused)
    none = PlanUpdate(todos=Overwrite([]), evidence=Overwrite([]))
    return update | none if beginning.dropped else update


def _halted(why: str) -> PlanUpdate:
    return PlanUpdate(halt="DENIED", missing=[why], should_continue=False)


def _fresh_guards(state: PlanState) -> PlanUpdate:
    update = cast("PlanUpdate", fresh_turn(state))
    return update | PlanUpdate(planning_rounds=0, cycles=0, missing=[], blockers=[], cut_off=[])


def _reopened(task: Task) -> Task:
    """Fresh limits for every task; what did not finish may be planned again."""
    afresh: Task = {**task, "rounds_this_turn": 0}
    if task["status"] == "completed":
        return afresh
    return {**afresh, "status": "pending", "denied": ""}
