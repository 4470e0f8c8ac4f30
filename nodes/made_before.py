"""Writes that were made when a run was cut off, before the steps they belong to could end."""

from collections.abc import Collection, Sequence

from ..doors.journal import CallRow
from ..state.flow import FlowStep
from ..tools.expectations import unexpected
from .step_values import StepResults


async def with_made_writes(
    steps: Sequence[FlowStep],
    rows: Sequence[CallRow],
    results: StepResults,
    *,
    known: Collection[str],
) -> list[FlowStep]:
    """The steps, those completed whose write the journal knows to have succeeded.

    One whose result does not fit its check keeps the result, so that the write is not made again.

    The process died between the write and the record of its step; left open, the step would be
    planned again, and its write made twice.

    Args:
        steps: As the state knows them.
        rows: The calls of the turn that was cut off, oldest first.
        results: Makes data of the journal's results.
        known: Ids of the calls whose ends the state knows.
    """
    newest = {row.key.call.rsplit(".", 2)[0]: row for row in rows}
    return [await _made(step, newest.get(step["id"]), results, known) for step in steps]


async def _made(
    step: FlowStep, row: CallRow | None, results: StepResults, known: Collection[str]
) -> FlowStep:
    if row is None or row.state != "finished" or row.key.call in known:
        return step
    if step["status"] == "completed":
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
