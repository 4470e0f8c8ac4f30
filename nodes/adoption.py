"""A plan that a model or a human gives: whether it can run, and the state that follows it."""

from langgraph.types import Overwrite

from ..state.canonical import canonical, hash_of
from ..state.context import Context
from ..state.evidence import rounds_named
from ..state.flow import FlowState, FlowStep, FlowUpdate
from ..state.flow_carry import adopt
from ..state.flow_contracts import ExecutionPlan
from ..state.flow_plan import fingerprint, steps_of
from ..state.storable import storable_json
from ..tools.catalog import Catalog
from ..tools.plan_check import plan_flaws
from .flow_views import finished


def flaws_of(
    plan: ExecutionPlan, state: FlowState, catalog: Catalog, context: Context
) -> list[str]:
    """Everything that keeps a plan from running on what this turn has done, a sentence each."""
    return plan_flaws(plan, catalog, kept=finished(state.todos), limit=context.max_steps)


def adopted(plan: ExecutionPlan, state: FlowState) -> tuple[list[FlowStep], FlowUpdate]:
    """The steps of a sound plan with what is done already, and the state that holds them."""
    variables = plan.global_variables
    steps = adopt(
        steps_of(plan), state.todos, variables=variables,
        old_variables=state.plan.get("global_variables", {}), rounds=rounds_named(state.evidence),
    )  # fmt: skip
    return steps, FlowUpdate(
        todos=Overwrite(steps),
        plan=storable_json(plan.model_dump(exclude={"steps"})),
        prints=[*state.prints, _print_of(steps, variables)],
        drafts=[],
    )


def _print_of(steps: list[FlowStep], variables: dict[str, object]) -> str:
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
