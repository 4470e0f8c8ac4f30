"""The keyboard while a view is redrawn in place: nothing typed may move the cursor."""

import importlib
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any


class Keyboard:
    """Turns the terminal's echo off and on; does nothing where there is none to turn off."""

    def __init__(self) -> None:
        """Nothing is changed yet."""
        self._terminal = _termios()
        self._before: list[Any] | None = None

    def hush(self) -> None:
        """Stop echoing: a `^C` at the end of a full line would shift the whole view."""
        if self._terminal is None or not sys.stdin.isatty():
            return
        with suppress(self._terminal.error, OSError):
            self._before = self._terminal.tcgetattr(sys.stdin)
            quiet = self._terminal.tcgetattr(sys.stdin)
            quiet[3] &= ~self._terminal.ECHO
            self._terminal.tcsetattr(sys.stdin, self._terminal.TCSADRAIN, quiet)

    def wake(self) -> None:
        """Echo again. What was typed blindly is dropped: it must not answer a question."""
        if self._terminal is None or self._before is None:
            return
        with suppress(self._terminal.error, OSError):
            self._terminal.tcsetattr(sys.stdin, self._terminal.TCSAFLUSH, self._before)
        self._before = None


def _termios() -> ModuleType | None:
    """The module that only Unix has."""
    try:
        return importlib.import_module("termios")
    except ImportError:
        return None
