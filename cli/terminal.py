"""The terminal under a run: its words made safe, its signals, its echo, the line that is typed."""

import json
import os
import select
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TextIO

if sys.platform != "win32":
    import termios

_SPARE: Final = 20
_KEPT: Final = frozenset("\n\t")
# Joiners belong to emoji and scripts; the other format characters can disguise what is shown.
_JOINERS: Final = frozenset("\u200c\u200d")


@dataclass
class Output:
    """The command's voice: a terminal, a pipe, or one JSON object on standard output.

    Attributes:
        json: Standard output carries exactly one JSON object; progress goes to standard error.
        thread: The id of the thread, once there is one to go on with.
        resume: The command that goes on with it.
    """

    json: bool = False
    thread: str = ""
    resume: str = ""

    def __post_init__(self) -> None:
        """Make sure that no character of an answer can end the command."""
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="replace")

    @property
    def live(self) -> bool:
        """Whether somebody watches standard output on a terminal that can redraw."""
        return not self.json and _is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"

    @property
    def reads(self) -> bool:
        """Whether standard input is a terminal: a human started this."""
        return _is_terminal(sys.stdin)

    def line(self, text: str) -> None:
        """Write a line of progress or of the report."""
        _write(sys.stderr if self.json else sys.stdout, text)

    def error(self, sentence: str) -> None:
        """Write what went wrong."""
        _write(sys.stderr, f"loopwright: {sentence}")

    def result(self, content: Mapping[str, Any]) -> None:
        """Write the one JSON object."""
        _write(sys.stdout, as_json(content, indent=2))


def _write(stream: TextIO | None, text: str) -> None:
    """Write a line; a reader that has gone away (`| head`) or a full disk does not end the run."""
    if stream is None:  # closed before the process began
        return
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def clean(text: object) -> str:
    """Replace what could steer a terminal (escape codes, text direction) by a visible mark."""
    return "".join(c if _is_harmless(c) else "\ufffd" for c in str(text).replace("\r\n", "\n"))


def _is_harmless(character: str) -> bool:
    if character in _KEPT or character in _JOINERS:
        return True
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs"}


def short(text: object, limit: int = 100) -> str:
    """One line of at most `limit` characters."""
    # Cut before cleaning: a goal may have a million characters, and every event shows it.
    line = " ".join(clean(str(text)[: limit * _SPARE]).split())
    whole = len(line) <= limit and len(str(text)) <= limit * _SPARE
    return line if whole else f"{line[: limit - 1].rstrip()}…"


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON in which foreign scripts stay readable."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def call_text(tool: object, arguments: object, limit: int = 100) -> str:
    """A tool call as one short line."""
    shown = as_json(arguments) if arguments else ""
    return short(f"{tool} {shown}", limit)


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
