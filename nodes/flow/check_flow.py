"""Check flow: proves the newest draft sound and takes it, or says all that is wrong with it."""

from collections.abc import Sequence
from typing import Final

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...state.context import Context
from ...state.flow import Draft, ExecutionPlan, FlowState, FlowUpdate, failed_steps
from ...state.loop import changes
from ...tools.catalog import Catalog
from ...turn.scope import RunScope, scope_of
from ..parts import Parts
from .finish import told
from .plans import adopted, flaws_of, repeats_a_plan, unfinished

MOST_DRAFTS: Final = 3
"""The first plan and two repairs of it."""

_MOST_TOLD: Final = 10
_UNSOUND: Final = (
    f"No plan that can run was made in {MOST_DRAFTS} attempts, and nothing of them was run; say "
    "the goal in other words, or check that there are tools for it. The last one was wrong in this:"
)
_SAME_PLAN: Final = (
    "The planner came back to a plan that had failed or was rejected in this turn, so it was not "
    "run again; say what should be done differently."
)
_NOBODY: Final = (
    "The plan waits for a review, and nobody can be asked: run with a checkpointer and somebody "
    "who answers, or without review_plan."
)


async def check_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Take a sound plan, send an unsound one back with its findings, end after three of them.

    Nothing of an unsound plan is run. The round in its events numbers the drafts of one plan
    where they are unsound, and the plans of this turn where one is taken, from 1.
    """
    scope = await scope_of(state, runtime, parts)
    catalog = await parts.toolbox.catalog(scope.user)
    plan, findings = None, state.drafts[-1]["findings"]
    if (written := state.drafts[-1]["plan"]) is not None:
        plan = ExecutionPlan.model_validate(written)
        findings = flaws_of(plan, state, catalog, scope.context)
    if plan is None or findings:
        scope.emit({"type": "flaws", "findings": findings, "round": len(state.drafts)})
        update = _sent_back(state, findings)
    else:
        update = _taken(scope, plan, state, catalog)
    await _noticed(scope, update)
    told = [*catalog.warnings, *scope.notes]
    update["warnings"] = [text for text in told if text not in state.warnings]
    return changes(state, update)


def _sent_back(state: FlowState, findings: Sequence[str]) -> FlowUpdate:
    """Have the plan mended, unless that was tried often enough."""
    checked: Draft = {**state.drafts[-1], "findings": list(findings)}
    drafts = [*state.drafts[:-1], checked]
    if len(drafts) < MOST_DRAFTS:
        return FlowUpdate(planning="again", drafts=drafts)
    more = len(findings) - _MOST_TOLD
    told = [*findings[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else [])]
    return FlowUpdate(planning="blocked", drafts=drafts, halt="ERROR", unmet=[_UNSOUND, *told])


def _taken(scope: RunScope, plan: ExecutionPlan, state: FlowState, catalog: Catalog) -> FlowUpdate:
    """Follow the plan, unless it was followed before; a human sees it first if one wants to."""
    steps, update = adopted(plan, state, catalog)
    if not unfinished(steps):  # the planner gave up what failed, without a word
        dropped = [told(step) for step in failed_steps(state.todos)]
        update["plan"] |= {"left_out": [*plan.left_out, *dropped]}
    if repeats_a_plan(update):
        return FlowUpdate(planning="blocked", drafts=[], halt="SAME_PLAN", unmet=[_SAME_PLAN])
    scope.emit({"type": "plan", "round": len(update["prints"]), "todos": steps})
    if not (scope.context.review_plan and unfinished(steps)):
        return update | FlowUpdate(planning="ready")
    if not scope.can_ask:
        return update | FlowUpdate(planning="blocked", halt="NOT_INTERACTIVE", unmet=[_NOBODY])
    return update | FlowUpdate(planning="review", objection=[])


async def _noticed(scope: RunScope, update: FlowUpdate) -> None:
    """Let hooks know of a review before the plan is shown."""
    plan = update.get("todos")
    if update.get("planning") == "review" and isinstance(plan, Overwrite):
        await scope.notify("PlanReview", "The plan waits for a review.", {"todos": plan.value})
