"""Run flow: every step of the plan is called as soon as what it waits for is done."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...calls.gate import decision_key, undecided
from ...state.context import Context
from ...state.flow import FlowState, FlowUpdate
from ...state.loop import changes
from ...state.spend import Spend, add_spend
from ...turn.budget import limit_reason
from ...turn.schedule import run_ready
from ...turn.scope import RunScope, around, scope_of
from ..parts import Parts
from ..plan.task_ends import seconds_before, spent_by
from .crew import crew_of
from .step_ends import StepEnd, folded, order_of_pass


async def run_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Take every step as far as it goes; failures are data, questions are left to `approve`."""
    scope = await scope_of(state, runtime, parts)
    open_ = undecided(state.calls, state.decisions)
    crew = await crew_of(scope, state, parts, open_=open_)
    order, waits = order_of_pass(
        state.todos, writes=crew.writes, waiting={call["task"] for call in open_}
    )
    scope.budget.span = partial(seconds_before, waits)
    with around(scope):
        ends = await run_ready(
            order, waits, crew.start, slots=scope.context.max_parallel_tasks,
            drained=lambda: bool(runtime.drain_requested), ended=crew.hear,
        )  # fmt: skip
    ended = list(ends.values())
    update = folded(ended) | _calls(state, [*open_, *(c for end in ended for c in end["waiting"])])
    update["warnings"] = [*update["warnings"], *scope.notes]  # type: ignore[misc]  # written as a list by `folded`
    before = Spend(seconds=scope.budget.recalled_seconds)
    update["spend"] = scope.used(add_spend(before, spent_by(ended)))
    return changes(state, update | _halted(scope, state, ended))


def _halted(scope: RunScope, state: FlowState, ended: Sequence[StepEnd]) -> FlowUpdate:
    """End the run where a hook wants it to end, or a limit keeps steps from running."""
    stops = dict.fromkeys(end["stopped"] for end in ended if end.get("stopped"))
    if stops:
        return FlowUpdate(halt="DENIED", unmet=[*state.unmet, *stops])
    spent = scope.budget.exhausted
    if spent is None or all(end["step"]["status"] == "completed" for end in ended):
        return FlowUpdate()
    return FlowUpdate(halt=limit_reason(spent))


def _calls(state: FlowState, waiting: Sequence[Any]) -> FlowUpdate:
    """The questions that are open now; an answer is good for one call only."""
    keys = {decision_key(call) for call in waiting}
    places = {step["id"]: place for place, step in enumerate(state.todos)}
    update = FlowUpdate(calls=sorted(waiting, key=lambda call: places[call["task"]]))
    if state.decisions or state.objections:
        update["decisions"] = Overwrite({k: v for k, v in state.decisions.items() if k in keys})
        update["objections"] = Overwrite({k: v for k, v in state.objections.items() if k in keys})
    return update
