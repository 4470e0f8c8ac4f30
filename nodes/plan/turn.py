"""Intake and finish: how a turn of plan_execute_verify begins, and its honest outcome."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.loop import PlanState, PlanUpdate, changes
from ...state.plan import Task, requested
from ...turn.begin import begin_turn, same_request, taken_up
from ...turn.end import Facts, answer_id, denial, end_turn
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .work import gathered


async def intake(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Begin the turn; an empty request is for the planner to ask about."""
    scope = await scope_of(state, runtime, parts)
    update: PlanUpdate = await begin_turn(scope, state, _adopted, asks=True)
    return changes(state, update)


async def _adopted(scope: RunScope, state: PlanState) -> PlanUpdate:
    """Plan and evidence, where the same request goes on or the last one was cut off at work."""
    before = await taken_up(scope, state, gathered(state.todos, state.cut_off))
    if before is None:
        return PlanUpdate()
    return PlanUpdate(
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


async def finish(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """End the turn, or plan again with what a hook wants mended."""
    scope = await scope_of(state, runtime, parts)
    update: PlanUpdate = await end_turn(scope, state, _facts(state), _another)
    return changes(state, update)


def _another(verdict: Verdict) -> PlanUpdate:
    update = PlanUpdate(blockers=[])
    if verdict.clear_context:
        update |= PlanUpdate(todos=Overwrite([]), evidence=Overwrite([]), answers=[])
    return update


def _facts(state: PlanState) -> Facts:
    """The facts; the verdict's words are the answer only where it passed."""
    asked, done = requested(state.todos), [t for t in state.todos if t["status"] == "completed"]
    # Unfinished tasks with the reason, then questions and what the verifier asked for.
    unfinished = [
        f"{t['description']} ({t['status']}{': ' + t['feedback'] if t.get('feedback') else ''})"
        for t in asked
        if t not in done
    ]
    return Facts(
        halt=state.halt,
        done=state.task_completed and bool(asked) and not unfinished,
        refused=denial(state.todos),
        unmet=[*unfinished, *state.unmet, *state.missing, *state.improvements],
        answer=state.messages[-1].text if state.task_completed else "",
        results=[f"**{t['description']}**\n\n{t['result']}" for t in done if t.get("result")],
        tasks=state.todos,
        evidence=state.evidence,
        message=answer_id(state),
        kept="finished tasks are kept",
    )
