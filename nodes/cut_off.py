"""What a turn had done when a new message ended it before its time, often after a crash."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ..doors.journal import CallRow, Journal
from ..state.evidence import UNCERTAIN, Evidence, merge_records
from ..state.loop import LoopState
from ..state.plan import Task, merge_tasks
from ..tools.call_journal import paused

_BEFORE: Final = "Before the last run was cut off, it"
_SHOWN: Final = 300


class _Worked(Protocol):
    """A state whose turn worked on a plan."""

    @property
    def todos(self) -> Sequence[Task]: ...
    @property
    def evidence(self) -> list[Evidence]: ...
    @property
    def turn_id(self) -> str: ...


def was_cut_off(state: LoopState) -> bool:
    """Whether the last turn never came to its outcome."""
    return bool(state.turn) and state.outcome is None


async def taken_up(
    state: _Worked, ended: Mapping[str, Any], journal: Journal, thread: str, *, same_request: bool
) -> tuple[list[Task], list[Evidence]] | None:
    """The tasks and the evidence that a new turn goes on with; None where it begins from nothing.

    Those of the same request always, those of another one where anything was done for it.

    Args:
        state: As the turn before left it.
        ended: What ended inside the step that was under way, as `todos` and `evidence`.
        journal: Knows the calls of that turn.
        thread: The thread's id.
        same_request: The new turn takes up the request of the one before.
    """
    tasks, evidence = await _done_before(state, ended, journal, thread)
    if same_request or evidence or any(task["status"] == "completed" for task in tasks):
        return tasks, evidence
    return None


async def _done_before(
    state: _Worked, ended: Mapping[str, Any], journal: Journal, thread: str
) -> tuple[list[Task], list[Evidence]]:
    """Tasks and evidence of a turn that was cut off, with what its state does not know yet.

    Tasks that ended inside the step under way count as ended. Of the others the journal tells
    which calls changed the world: they are evidence, and the task says so to whoever goes on.
    """
    tasks = merge_tasks(list(state.todos), [ended["todos"]])
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
