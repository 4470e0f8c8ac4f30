"""Writes that were made when a run was cut off, before the steps they belong to could end."""

from typing import cast

from ...doors.journal import CallRow
from ...flow.expectations import unexpected
from ...state.flow import FlowStep
from ..cut_off import TakenUp, task_of
from .step_values import StepResults


async def with_made_writes(before: TakenUp, results: StepResults) -> list[FlowStep]:
    """The steps of a flow, those completed whose write the journal knows to have succeeded.

    The process died between the write and the record of its step; left open, the step would be
    planned again, and its write made twice. One whose result does not fit its check keeps the
    result, so that the write is not made again either.

    Args:
        before: What the new turn goes on with.
        results: Makes data of the journal's results.
    """
    newest = {task_of(row): row for row in before.rows}
    unheard = {name: row for name, row in newest.items() if row.key.call not in before.known}
    steps = [cast("FlowStep", task) for task in before.tasks]
    return [await _made(step, unheard.get(step["id"]), results) for step in steps]


async def _made(step: FlowStep, row: CallRow | None, results: StepResults) -> FlowStep:
    if row is None or row.state != "finished" or step["status"] == "completed":
        return step
    found = row.result or {}
    text = str(found.get("text", ""))
    kept = await results.kept(text, found.get("data"), str(found.get("stored", "")))
    made: FlowStep = {
        **step, "result": text, "shape": kept.shape, "value": kept.value, "stored": kept.stored,
        "evidence": [row.key.call],
        "attempts": step.get("attempts", 0) + 1,
        "rounds": max(step.get("rounds", 0), int(row.key.call.rsplit(".", 2)[1])),
    }  # fmt: skip
    if unexpected(kept.data, step.get("expect")):
        return made
    return {**made, "status": "completed", "feedback": ""}
