"""Saved threads of earlier versions, brought up to date."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from .errors import ThreadIncompatible
from .evidence import Evidence, report_of
from .statuses import STATUSES, read_status

SCHEMA_VERSION: Final = 1


def _from_0(values: Mapping[str, Any]) -> dict[str, Any]:
    """Version 0 wrote the status `executing` and tasks without counters, feedback or evidence."""
    blank = {
        "priority": 1, "acceptance_criteria": [], "inputs": "", "depends_on": None, "result": "",
        "feedback": "", "evidence": [], "attempts": 0, "rounds": 0, "rounds_this_turn": 0,
        "seconds": 0.0, "denied": "",
    }  # fmt: skip
    saved = [task for task in values.get("todos") or [] if isinstance(task, dict)]
    todos = [
        blank
        | {key: value for key, value in task.items() if value is not None}
        | _named(task, place)
        for place, task in enumerate(saved, 1)
    ]
    return {"todos": todos, "evidence": _reports(todos, values.get("evidence") or [])}


def _named(task: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The keys every task needs, in today's words."""
    return {
        "id": str(task.get("id") or place),
        "description": str(task.get("description") or "Go on with the request."),
        "status": _to_go_on(task.get("status")),
    }


def _reports(todos: list[dict[str, Any]], evidence: list[Evidence]) -> list[Evidence]:
    """Finished tasks without evidence get their report, so that a verdict can cite something."""
    covered = {record.get("task") for record in evidence}
    return [
        report_of(task["id"], task["result"], completed=True)
        for task in todos
        if task["status"] == "completed" and task["result"] and task["id"] not in covered
    ]


def _to_go_on(status: object) -> object:
    """Today's word; what was under way is pending, because only pending tasks are started."""
    word = read_status(status)
    return word if word in STATUSES - {"in_progress"} else "pending"


MIGRATIONS: Final[dict[int, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {0: _from_0}


def migrate(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The update that brings saved values to `SCHEMA_VERSION`; None where they are there.

    Raises:
        ThreadIncompatible: The thread was written by a newer version than this one.
    """
    version = int(values.get("schema_version") or 0)
    if version > SCHEMA_VERSION:
        msg = (
            f"The thread was saved with schema version {version}, this package knows "
            f"{SCHEMA_VERSION}: upgrade loopwright to continue it."
        )
        raise ThreadIncompatible(msg)
    if version == SCHEMA_VERSION:
        return None
    update: dict[str, Any] = {}
    for step in range(version, SCHEMA_VERSION):
        update |= MIGRATIONS[step]({**values, **update})
    return update | {"schema_version": SCHEMA_VERSION}
