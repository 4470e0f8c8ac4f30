"""Intake of prompt_flow: the start of every user turn; what is finished need not be done again."""

from typing import Any, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate
from ...state.loop import changes
from ...turn.begin import (
    EMPTY_REQUEST,
    NOTHING_NEW,
    fresh_turn,
    nothing_new,
    same_request,
    with_request,
)
from ...turn.hooks import Beginning, begin_turn, begun
from ...turn.scope import RunScope, scope_of
from ..cut_off import taken_up
from ..parts import Parts
from .cut_off_writes import with_made_writes
from .step_ends import folded
from .step_values import results_of


async def flow_intake(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Reset the guards; keep steps only where the same request goes on, or was cut off at work."""
    update = _fresh_guards(state)
    if nothing_new(state):
        return changes(state, update | _halted(NOTHING_NEW))
    scope = await scope_of(state, runtime, parts)
    update |= await _kept(scope, state, parts)
    request = with_request(state).request
    if not request.strip():
        update |= FlowUpdate(halt="MISSING_INFORMATION", unmet=[EMPTY_REQUEST])
        return changes(state, update)
    scope.journal.own_turn(scope.thread, update["turn_id"])
    beginning = await begin_turn(scope, request)
    return changes(state, update | _begun(state, beginning))


async def _kept(scope: RunScope, state: FlowState, parts: Parts) -> FlowUpdate:
    """The steps, where the same request goes on or the last one was cut off at work."""
    ended: Any = folded(state.cut_off)
    again = same_request(state)
    before = await taken_up(scope, state, ended, same_request=again)
    if before is None:
        return FlowUpdate(todos=Overwrite([]), evidence=Overwrite([]), plan={})
    steps = await with_made_writes(before, results_of(scope, parts.toolbox))
    # What the plan left out was a part of its own request.
    gone = () if again else ("left_out",)
    return FlowUpdate(
        plan={key: value for key, value in state.plan.items() if key not in gone},
        todos=Overwrite([_reopened(step) for step in steps]),
        evidence=Overwrite(before.evidence),
        improvements=state.improvements if again else [],
    )


def _reopened(step: FlowStep) -> FlowStep:
    """A step that is not finished may be planned again; why it is not stays with it."""
    if step["status"] == "completed":
        return step
    return {**step, "status": "pending", "denied": "", "failure": ""}


def _begun(state: FlowState, beginning: Beginning) -> FlowUpdate:
    """What hooks make of the turn; a dropped prompt takes along the plan that was made for it."""
    update = cast("FlowUpdate", begun(beginning, state))
    if not beginning.refused:
        return update
    update |= _halted(beginning.refused)
    none = FlowUpdate(todos=Overwrite([]), evidence=Overwrite([]), plan={})
    return update | none if beginning.dropped else update


def _halted(why: str) -> FlowUpdate:
    return FlowUpdate(halt="DENIED", unmet=[why])


def _fresh_guards(state: FlowState) -> FlowUpdate:
    update = cast("FlowUpdate", fresh_turn(state))
    return update | FlowUpdate(
        # Call ids begin anew in every turn: an old answer must not count for a new call.
        calls=[],
        decisions=Overwrite({}),
        objections=Overwrite({}),
        denied="",
        planning="check",
        drafts=[],
        prints=[],
        strategy="",
        recoveries={},
        failures_seen=[],
        causes=[],
        reviewed=[],
        objection=[],
        unmet=[],
        cut_off=[],
    )
