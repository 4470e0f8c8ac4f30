"""The states a tool call goes through, and which may follow which. Pure."""

from collections.abc import Mapping
from typing import Final, Literal

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
    "executing": _ENDS,
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
