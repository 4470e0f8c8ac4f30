"""What a turn had done when a new message ended it before its time, often after a crash."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ..state.calls import UNCERTAIN, Evidence, merge_records
from ..state.journal import Row
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
    """What a new turn goes on with: the turn before's tasks with how they ended, and its calls."""

    tasks: list[Task]
    evidence: list[Evidence]


async def taken_up(
    scope: RunScope, state: _Worked, ended: Mapping[str, Any], *, same_request: bool
) -> TakenUp | None:
    """What a new turn goes on with; None where it begins from nothing.

    Where the same request goes on that is all there is. Of another request it is what was done
    for it, if it never came to its outcome. Tasks that ended inside the step under way count as
    ended. Of the others the journal tells which calls changed the world: they are evidence, the
    task says so to whoever goes on, and whoever would make one again takes its result. What a turn
    that ended has written matches nothing any more.

    Args:
        scope: The run, and the turn before.
        state: As the turn before left it.
        ended: What ended inside the step that was under way, as `todos` and `evidence`.
        same_request: The new turn takes up the request of the one before.
    """
    if not state.turn:
        return None
    goes_on = same_request or state.outcome is None
    tasks = merge_tasks(list(state.todos), [ended["todos"]])
    done = {task["id"] for task in tasks if goes_on and task["status"] == "completed"}
    rows = await scope.journal.release(
        scope.journaled, turn=scope.turn, place=scope.place, ended=not goes_on, told=not goes_on,
        keeps=lambda row: row.task in done, fence=scope.fence,
    )  # fmt: skip
    if not goes_on:
        return None
    evidence = merge_records(state.evidence, [ended["evidence"]])
    known = {record["id"] for record in evidence}
    news = [row for row in rows if row.turn == scope.turn and row.call not in known]
    told = [_told(task, news) for task in tasks]
    before = TakenUp(told, [*evidence, *map(evidence_of, news)])
    return before if same_request or before.evidence or done else None


def evidence_of(row: Row) -> Evidence:
    """A write as evidence, from its row: it has ended, or nobody knows."""
    record = Evidence(
        id=row.call, task=row.task, call_id="", tool=row.tool, arguments=dict(row.arguments),
        status="success", result=str((row.result or {}).get("text", "")), seconds=0.0,
    )  # fmt: skip
    if not row.in_doubt:
        return record
    in_doubt = Evidence(status="cancelled", reason=UNCERTAIN, result=say("cut_off_before_result"))
    return record | in_doubt | (Evidence(server=row.server) if row.server else Evidence())


def _told(task: Task, rows: Sequence[Row]) -> Task:
    """An unfinished task says which calls were made for it already."""
    made = [_sentence(row) for row in rows if row.task == task["id"]]
    if not made or task["status"] == "completed":
        return task
    return {**task, "feedback": say("before_the_cut", calls="; ".join(made))}


def _sentence(row: Row) -> str:
    call = f"{row.tool}({json.dumps(dict(row.arguments), ensure_ascii=False)[:_SHOWN]})"
    if row.in_doubt:
        return say("began_call", call=call)
    return say("called_before", call=call, result=str((row.result or {}).get("text", ""))[:_SHOWN])
