"""A plan that a model or a human gives: whether it can run, and the state that follows it."""

from collections.abc import Collection
from typing import Final

from langgraph.types import Overwrite

from ...flow.carry import adopt
from ...flow.checks import plan_flaws
from ...flow.order import fingerprint, steps_of
from ...state.canonical import canonical, hash_of, storable_json
from ...state.context import Context
from ...state.evidence import rounds_named
from ...state.flow import FlowState, FlowStep, FlowUpdate
from ...state.flow_contracts import ExecutionPlan
from ...state.shortened import beginning_of
from ...state.told import say
from ...tools.catalog import Catalog
from .views import finished

_MOST_FINDINGS: Final = 200
_LONGEST_FINDING: Final = 600


def flaws_of(
    plan: ExecutionPlan, state: FlowState, catalog: Catalog, context: Context
) -> list[str]:
    """What keeps a plan from running on what this turn has done, a sentence each.

    That is everything, within the bounds of what a model or a human can read.
    """
    found = plan_flaws(plan, catalog, kept=finished(state.todos), limit=context.max_steps)
    told = [beginning_of(text, _LONGEST_FINDING) for text in found[:_MOST_FINDINGS]]
    more = len(found) - len(told)
    return [*told, say("and_more", count=more)] if more else told


def adopted(
    plan: ExecutionPlan, state: FlowState, catalog: Catalog
) -> tuple[list[FlowStep], FlowUpdate]:
    """The steps of a sound plan with what is done already, and the state that holds them."""
    variables = plan.global_variables
    reads = {name for name, tool in catalog.tools.items() if tool.read_only}
    planned = [_known(step, reads) for step in steps_of(plan)]
    steps = adopt(
        planned, state.todos, variables=variables,
        old_variables=state.plan.get("global_variables", {}), rounds=rounds_named(state.evidence),
        reads=reads, revision=state.plan.get("revision", ""),
    )  # fmt: skip
    return steps, FlowUpdate(
        todos=Overwrite(steps),
        plan=storable_json(plan.model_dump(exclude={"steps"}))
        | {"revision": _revision(plan, state)},
        prints=[*state.prints, _plan_print(steps, variables)],
        drafts=[],
    )


def _known(step: FlowStep, reads: Collection[str]) -> FlowStep:
    return {**step, "changes": step["tool"] not in reads}


def _revision(plan: ExecutionPlan, state: FlowState) -> str:
    """Names this plan and no other: calls of its steps have this in their names."""
    return hash_of([state.turn_id, state.prints, plan.model_dump(mode="json")])[:16]


def _plan_print(steps: list[FlowStep], variables: dict[str, object]) -> str:
    """What makes two plans of a turn the same: their calls, and how these may fail.

    A plan that only gives a step more time, or calls it optional, is another one: that may be
    what was missing.
    """
    ways = sorted(
        canonical([s["tool"], s["optional"], s["expect"], s["retries"], s["timeout"]])
        for s in steps
    )
    return hash_of([fingerprint(steps, variables), ways])


def repeats_a_plan(update: FlowUpdate) -> bool:
    """Whether the plan taken last is one that this turn has followed before."""
    return update["prints"][-1] in update["prints"][:-1]
