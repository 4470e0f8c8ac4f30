"""Intake: begins a turn, with the steps that go on from the turn before."""

from typing import cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate
from ...state.loop import changes
from ...turn.begin import Work, begin_turn, same_request, taken_up, with_request
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .run_flow import by_tools, folded


async def flow_intake(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Begin the turn."""
    scope = await scope_of(state, runtime, parts)
    asks = bool(with_request(state).request.strip())
    update: FlowUpdate = await begin_turn(scope, state, _adopted, parts.toolbox.missing, asks=asks)
    return changes(state, update)


async def _adopted(scope: RunScope, state: FlowState) -> FlowUpdate:
    """The steps, where the same request goes on or the last one was cut off at work."""
    done, again = Work(state.todos, state.evidence), same_request(state)
    before = await taken_up(scope, state, done, folded(state.cut_off))
    if before is None:
        return FlowUpdate()
    steps = [cast("FlowStep", task) for task in before.tasks]
    changed = by_tools(state, state.cut_off)
    improvements = changed.get("improvements", state.improvements)
    # What the plan left out was a part of its own request.
    gone = () if again else ("left_out",)
    return changed | FlowUpdate(
        plan={key: value for key, value in state.plan.items() if key not in gone},
        todos=Overwrite([_reopened(step) for step in steps]),
        evidence=Overwrite(before.evidence),
        improvements=improvements if again else [],
    )


def _reopened(step: FlowStep) -> FlowStep:
    """A step that is not finished may be planned again; why it is not stays with it."""
    if step["status"] == "completed":
        return step
    return {**step, "status": "pending", "denied": "", "failure": ""}
