"""How the steps of a plan are shown: to who plans, mends or answers, and to who reviews it."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from langgraph.types import Overwrite

from ...flow.carry import adopt
from ...flow.checks import plan_flaws
from ...flow.order import fingerprint, steps_of
from ...state.calls import rounds_named
from ...state.canonical import beginning_of, canonical, hash_of, shortened, storable_json
from ...state.context import Context
from ...state.flow import ExecutionPlan, FlowState, FlowStep, FlowUpdate, PlanStep, step_of
from ...state.told import say
from ...tools.catalog import Catalog

RESULT_SHOWN: Final = 500
"""Characters of a result: enough to see what a reference would read."""

_ALL_SHOWN: Final = 60_000
_LEAST_SHOWN: Final = 80
_MOST_IN_FULL: Final = 60

_PLANNED: Final = ("id", "description", "tool", "arguments", "depends_on", "optional", "status")


def steps_view(steps: Sequence[FlowStep], *, longest: int = RESULT_SHOWN) -> list[dict[str, Any]]:
    """Steps as a model is shown them: the call as planned, and what came of it.

    A finished step has its result, any other the reason why it is not done; empty fields are left
    out. The more steps, the less is shown of each result; of a long plan's finished steps no
    arguments, and where nothing unfinished waits for them only id, tool and status.

    Args:
        steps: The plan.
        longest: Characters of a result or a reason.
    """
    share = max(_LEAST_SHOWN, min(longest, _ALL_SHOWN // max(1, len(steps))))
    needed = {name for step in unfinished(steps) for name in step.get("depends_on") or []}
    brief = len(steps) > _MOST_IN_FULL
    return [
        step_of(step, "id", "tool", "status")
        if brief and _is_done(step) and step["id"] not in needed
        else _view(step, share, brief=brief)
        for step in steps
    ]


def _view(step: FlowStep, share: int, *, brief: bool) -> dict[str, Any]:
    """One step; a model that saw half of a call would plan another one: its arguments are whole."""
    fields = step_of(step, *_PLANNED, *(() if _is_done(step) else ("failure",)))
    if brief and _is_done(step):
        fields.pop("arguments", None)
    return fields | _came_of(step, share)


def _came_of(step: FlowStep, longest: int) -> dict[str, str]:
    key = "result" if _is_done(step) else "feedback"
    text = str(step.get(key) or "")
    return {key: shortened(text, longest)} if text else {}


def _is_done(step: FlowStep) -> bool:
    return step["status"] == "completed"


def finished(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps that are done."""
    return [step for step in steps if _is_done(step)]


def unfinished(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps that are still to be done."""
    return [step for step in steps if not _is_done(step)]


def without_results(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps as planned: what came of them can be long, and is kept elsewhere."""
    return [{**s, "result": "", "value": None, "stored": "", "evidence": []} for s in steps]


def as_planned(steps: Sequence[FlowStep]) -> list[dict[str, Any]]:
    """Steps in the spelling of ExecutionPlan, so that they can be sent back changed."""
    return [_as_contract(step).model_dump(by_alias=True, exclude_defaults=True) for step in steps]


def _as_contract(step: FlowStep) -> PlanStep:
    return PlanStep(
        id=step["id"],
        description=step["description"],
        tool=step["tool"],
        arguments=step["arguments"],
        dependencies=list(step["depends_on"] or []),
        expected_output=step["expected_output"],
        expect=step["expect"],
        retry_count=step["retries"],
        optional=step["optional"],
        timeout=step["timeout"],
    )


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
