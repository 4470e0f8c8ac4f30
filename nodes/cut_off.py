"""What a turn had done when a new message ended it before its time, often after a crash."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..calls.call_journal import paused
from ..doors.journal import CallRow
from ..state.evidence import UNCERTAIN, Evidence, merge_records
from ..state.outcome import Outcome
from ..state.plan import Task, merge_tasks
from ..state.told import say
from ..turn.scope import RunScope

_SHOWN: Final = 300


class _Worked(Protocol):
    """A state whose turn worked on a plan."""

    @property
    def turn(self) -> int: ...
    @property
    def outcome(self) -> Outcome | None: ...
    @property
    def todos(self) -> Sequence[Task]: ...
    @property
    def evidence(self) -> list[Evidence]: ...


class TakenUp(NamedTuple):
    """What a new turn goes on with.

    Attributes:
        tasks: Of the turn before, with how they ended.
        evidence: Its calls, with those that only the journal tells of.
        known: Ids of the calls whose ends the state told.
        rows: All its calls in the journal, oldest first.
    """

    tasks: list[Task]
    evidence: list[Evidence]
    known: frozenset[str]
    rows: list[CallRow]


async def taken_up(
    scope: RunScope, state: _Worked, ended: Mapping[str, Any], *, same_request: bool
) -> TakenUp | None:
    """What a new turn goes on with; None where it begins from nothing.

    Where the same request goes on that is all there is. Of another request it is what was done
    for it, if it never came to its outcome.

    Args:
        scope: The run, and the turn before.
        state: As the turn before left it.
        ended: What ended inside the step that was under way, as `todos` and `evidence`.
        same_request: The new turn takes up the request of the one before.
    """
    cut_off = bool(state.turn) and state.outcome is None
    if not (same_request or cut_off):
        return None
    before = await _done_before(scope, state, ended)
    completed = any(task["status"] == "completed" for task in before.tasks)
    return before if same_request or before.evidence or completed else None


async def _done_before(scope: RunScope, state: _Worked, ended: Mapping[str, Any]) -> TakenUp:
    """Tasks and evidence of a turn that was cut off, with what its state does not know yet.

    Tasks that ended inside the step under way count as ended. Of the others the journal tells
    which calls changed the world: they are evidence, and the task says so to whoever goes on.
    """
    tasks = merge_tasks(list(state.todos), [ended["todos"]])
    evidence = merge_records(state.evidence, [ended["evidence"]])
    known = frozenset(record["id"] for record in evidence)
    await scope.journal.at_rest(scope.thread, scope.turn)
    rows = await scope.journal.rows(scope.thread, turn=scope.turn)
    news = [row for row in rows if row.key.call not in known and not paused(row)]
    told = [_told(task, news) for task in tasks]
    return TakenUp(told, [*evidence, *map(_as_evidence, news)], known, rows)


def _as_evidence(row: CallRow) -> Evidence:
    result = row.result or {}
    record = Evidence(
        id=row.key.call,
        task=task_of(row),
        call_id="",
        tool=row.tool,
        arguments=row.arguments,
        status={"finished": "success", "failed": "error"}.get(row.state, "cancelled"),
        result=str(result.get("text", "")),
        seconds=0.0,
    )
    if row.state in ("finished", "failed"):
        return record
    in_doubt = Evidence(reason=UNCERTAIN, result=say("cut_off_before_result"))
    return record | in_doubt | (Evidence(server=row.server) if row.server else Evidence())


def _told(task: Task, rows: Sequence[CallRow]) -> Task:
    """An unfinished task says which calls were made for it already."""
    made = [_sentence(row) for row in rows if task_of(row) == task["id"]]
    if not made or task["status"] == "completed":
        return task
    return {**task, "feedback": say("before_the_cut", calls="; ".join(made))}


def _sentence(row: CallRow) -> str:
    call = f"{row.tool}({json.dumps(row.arguments, ensure_ascii=False)[:_SHOWN]})"
    if row.state not in ("finished", "failed"):
        return say("began_call", call=call)
    return say("called_before", call=call, result=str((row.result or {}).get("text", ""))[:_SHOWN])


def task_of(row: CallRow) -> str:
    """The task, or the step of a plan, that a call was made for."""
    return row.key.call.rsplit(".", 2)[0]
