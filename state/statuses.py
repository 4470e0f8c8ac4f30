"""The one vocabulary for the status of a task, and which change is allowed."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

TaskStatus = Literal[
    "pending", "in_progress", "completed", "failed", "skipped", "cancelled", "blocked"
]

STATUSES: Final[frozenset[str]] = frozenset(get_args(TaskStatus))

ALIASES: Final[dict[str, TaskStatus]] = {
    "executing": "in_progress",
    "inprogress": "in_progress",
    "running": "in_progress",
    "todo": "pending",
    "open": "pending",
    "done": "completed",
    "complete": "completed",
    "success": "completed",
    "error": "failed",
    "canceled": "cancelled",
}

# A completed task stays completed: only a verdict (not a wish of a model) may reopen it.
ALLOWED: Final[dict[TaskStatus, frozenset[TaskStatus]]] = {
    "pending": frozenset({"in_progress", "skipped", "cancelled", "blocked"}),
    "in_progress": frozenset({"completed", "failed", "skipped", "cancelled", "blocked"}),
    "blocked": frozenset({"pending", "in_progress", "skipped", "cancelled"}),
    "failed": frozenset({"pending", "in_progress"}),
    "completed": frozenset(),
    "skipped": frozenset({"pending"}),
    "cancelled": frozenset({"pending"}),
}


def read_status(value: object) -> object:
    """Map a status as models write it to the vocabulary; anything else comes back as it is."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower().replace("-", "_").replace(" ", "_")
    if word in STATUSES:
        return word
    return ALIASES.get(word.replace("_", ""), ALIASES.get(word, value))


def may_change(old: TaskStatus, new: TaskStatus) -> bool:
    """Say whether a task may go from one status to the other."""
    return old == new or new in ALLOWED[old]


ToolStatus = Literal[
    "validating", "scheduled", "awaiting_approval", "executing", "success", "error", "cancelled"
]

_ENDS: Final[frozenset[ToolStatus]] = frozenset({"success", "error", "cancelled"})

# A call may succeed without running: a human's words, a recorded result or an earlier one answer
# it. A scheduled one waits again where it turns out that it may have run before a crash.
TRANSITIONS: Final[Mapping[ToolStatus, frozenset[ToolStatus]]] = {
    "validating": _ENDS | {"scheduled", "awaiting_approval"},
    "awaiting_approval": _ENDS | {"scheduled", "awaiting_approval"},
    "scheduled": _ENDS | {"executing", "awaiting_approval"},
    "executing": _ENDS | {"awaiting_approval"},  # its server asks before it goes on
    "success": frozenset(),
    "error": frozenset(),
    "cancelled": frozenset(),
}


def advance(before: ToolStatus, after: ToolStatus) -> ToolStatus:
    """The state after a step.

    Raises:
        ValueError: No call may go from one state to the other.
    """
    if after not in TRANSITIONS[before]:
        msg = f"A tool call cannot go from {before} to {after}."
        raise ValueError(msg)
    return after
