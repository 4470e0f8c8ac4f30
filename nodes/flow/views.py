"""How the steps of a plan are shown: to who plans, mends or answers, and to who reviews it."""

from collections.abc import Sequence
from typing import Any, Final

from ...state.flow import FlowStep, step_of
from ...state.flow_contracts import PlanStep
from ...state.shortened import shortened

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
