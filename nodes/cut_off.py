"""What a turn had done when a new message ended it before its time, often after a crash."""

import json
from collections.abc import Sequence
from typing import Any, Final

from ..doors.journal import CallRow, Journal
from ..state.evidence import UNCERTAIN, Evidence, merge_records
from ..state.loop import PlanState
from ..state.plan import Task, merge_tasks
from ..tools.call_journal import paused
from .task_ends import gathered

_BEFORE: Final = "Before the last run was cut off, this task"
_SHOWN: Final = 300


def was_cut_off(state: PlanState) -> bool:
    """Whether the last turn never came to its outcome."""
    return bool(state.turn) and state.outcome is None


async def done_before(
    state: PlanState, journal: Journal, thread: str
) -> tuple[list[Task], list[Evidence]]:
    """Tasks and evidence of a turn that was cut off, with what its state does not know yet.

    Tasks that ended inside the step under way count as ended. Of the others the journal tells
    which calls changed the world: they are evidence, and the task says so to whoever goes on.
    """
    ended: dict[str, Any] = {**gathered(state.todos, state.cut_off)}
    tasks = merge_tasks(state.todos, [ended["todos"]])
    evidence = merge_records(state.evidence, [ended["evidence"]])
    known = {record["id"] for record in evidence}
    found = await journal.rows(thread, turn=state.turn_id)
    rows = [row for row in found if row.key.call not in known and not paused(row)]
    return [_told(task, rows) for task in tasks], [*evidence, *map(_as_evidence, rows)]


def _as_evidence(row: CallRow) -> Evidence:
    result = row.result or {}
    record = Evidence(
        id=row.key.call,
        task=_task_of(row),
        call_id="",
        tool=row.tool,
        arguments=row.arguments,
        status={"finished": "success", "failed": "error"}.get(row.state, "cancelled"),
        result=str(result.get("text", "")),
        seconds=0.0,
    )
    if row.state in ("finished", "failed"):
        return record
    in_doubt = Evidence(reason=UNCERTAIN, result="the run was cut off before its result was known")
    return record | in_doubt | (Evidence(server=row.server) if row.server else Evidence())


def _told(task: Task, rows: Sequence[CallRow]) -> Task:
    """An unfinished task says which calls were made for it already."""
    made = [_sentence(row) for row in rows if _task_of(row) == task["id"]]
    if not made or task["status"] == "completed":
        return task
    return {**task, "feedback": f"{_BEFORE} {'; '.join(made)}."}


def _sentence(row: CallRow) -> str:
    call = f"{row.tool}({json.dumps(row.arguments, ensure_ascii=False)[:_SHOWN]})"
    if row.state not in ("finished", "failed"):
        return f"began {call}, which may have taken effect: check before you repeat it"
    return f"called {call}, which gave: {str((row.result or {}).get('text', ''))[:_SHOWN]}"


def _task_of(row: CallRow) -> str:
    return row.key.call.rsplit(".", 2)[0]
