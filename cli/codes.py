"""Exit codes: what a script learns without reading."""

from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """How the command ended."""

    COMPLETE = 0
    USAGE = 2
    """A wrong argument, setting, file or thread, or a thread in use; nothing was run."""
    UNFINISHED = 3
    """The run ended honestly without reaching the goal."""
    FAILED = 4
    WAITING = 5
    """A human must answer first."""
    PAUSED = 130
    """Stopped by a signal; 128 + SIGINT, as shells have it."""


_BY_STATUS: Final = {
    "complete": Code.COMPLETE,
    "partial": Code.UNFINISHED,
    "blocked": Code.UNFINISHED,
    "exhausted": Code.UNFINISHED,
    "stuck": Code.UNFINISHED,
    "cancelled": Code.UNFINISHED,
}


def code_of(status: str) -> Code:
    """The exit code that goes with an outcome's status."""
    return _BY_STATUS.get(status, Code.FAILED)
