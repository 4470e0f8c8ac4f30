"""How a step of a plan ended in one pass, as JSON that survives a crash. Pure."""

from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from ..state.events import Emit
from ..state.evidence import Evidence
from ..state.flow import FlowStep, FlowUpdate
from ..state.spend import Spend


class StepEnd(TypedDict):
    """What one pass did for a step.

    `step` holds its id, its status and what changed; it stays `pending` where a question waits for
    a human (`waiting`), or where it could not begin (`held`). `stopped` says why a hook wants the
    run to end here, where one does; `took` names the spare write whose result the step has.
    """

    step: FlowStep
    evidence: list[Evidence]
    waiting: list[Any]
    held: bool
    spend: Spend
    warnings: list[str]
    stopped: NotRequired[str]
    took: NotRequired[str]


def held(step_id: str) -> StepEnd:
    """The end of a step that could not begin in this pass."""
    return StepEnd(
        step=FlowStep(id=step_id, status="pending"), evidence=[], waiting=[], held=True,
        spend=Spend(), warnings=[],
    )  # fmt: skip


def folded(ends: Sequence[StepEnd]) -> FlowUpdate:
    """What the ends of a pass change in the run: steps, evidence and warnings."""
    return FlowUpdate(
        todos=[
            *(end["step"] for end in ends if not end["held"]),
            # The call is told by the step that has its result now: two would make it two writes.
            *(
                FlowStep(id=end["took"], spare=False, evidence=[])
                for end in ends
                if end.get("took")
            ),
        ],
        evidence=[record for end in ends for record in end["evidence"]],
        warnings=[text for end in ends for text in end["warnings"]],
    )


def left_out(step: FlowStep, why: str, emit: Emit) -> StepEnd:
    """The end of a step that can no longer run, though the plan goes on."""
    emit(
        {"type": "prompt_flow_step_result", "step_id": step["id"], "success": False,
         "status": "skipped", "output": why, "seconds": 0.0, "attempts": step["attempts"]}
    )  # fmt: skip
    end = held(step["id"])
    return {**end, "step": FlowStep(id=step["id"], status="skipped", feedback=why), "held": False}
