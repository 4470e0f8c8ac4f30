"""The keyboard: what is typed at a question, and silence while a view is redrawn in place."""

import importlib
import os
import select
import signal
import sys
import threading
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


def typed_line(prompt: str) -> str:
    """A line from standard input, without its end.

    Ctrl-C ends the wait whenever it comes. `input` alone loses one that comes after the prompt
    and before it reads: Python notes the signal, and then waits for a line all the same.

    Raises:
        EOFError: The input has ended.
        KeyboardInterrupt: Ctrl-C.
    """
    if not _can_wait():
        return input(prompt)
    sys.stdout.write(prompt)
    sys.stdout.flush()
    _wait_for_input()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _can_wait() -> bool:
    """Whether standard input is a terminal that `select` takes, in the thread that gets signals."""
    main = threading.current_thread() is threading.main_thread()
    return main and os.name == "posix" and sys.stdin.isatty()


def _wait_for_input() -> None:
    """Return once something is typed; a signal writes to the pipe, so none can be missed."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    try:
        while sys.stdin not in select.select([sys.stdin, told], [], [])[0]:
            os.read(told, 1024)
    finally:
        signal.set_wakeup_fd(before)
        os.close(told)
        os.close(tell)


def _termios() -> ModuleType | None:
    """The module that only Unix has."""
    try:
        return importlib.import_module("termios")
    except ImportError:
        return None
