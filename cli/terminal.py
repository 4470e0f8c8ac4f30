"""The terminal under a run: its signals, its echo, and the line that is typed at a question."""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

if sys.platform != "win32":
    import termios


@contextmanager
def signals_to(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Send Ctrl-C and SIGTERM to a handler. Only the main thread can; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


@contextmanager
def without_echo() -> Iterator[None]:
    """Stop echoing what is typed: a `^C` at the end of a full line would shift the whole view.

    What was typed meanwhile is dropped: it must not answer a question.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    before: list[Any] | None = None
    with suppress(termios.error, OSError):
        before, quiet = termios.tcgetattr(sys.stdin), termios.tcgetattr(sys.stdin)
        quiet[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        with suppress(termios.error, OSError):
            if before is not None:
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)


def typed_line() -> str:
    """A line typed by the user; the end of the input counts as wanting to quit.

    Ctrl-C ends the wait whenever it comes. `input` alone loses one that comes after the prompt
    and before it reads: Python notes the signal, and then waits for a line all the same.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    shown = sys.stdout if sys.stdout.isatty() else sys.stderr
    shown.write("> ")
    shown.flush()
    main = threading.current_thread() is threading.main_thread()
    if main and os.name == "posix" and sys.stdin.isatty():
        _wait_for_input()
    line = sys.stdin.readline()
    return line.strip() if line else "q"


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
