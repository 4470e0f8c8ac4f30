"""The command and its process: safe output, signals, exit codes, the log."""

import atexit
import logging
import os
import re
import signal
import sys
import threading
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, TextIO

from ..state.errors import (
    AnswerRejected,
    DatabaseError,
    LeaseLost,
    ModelCallFailed,
    SettingsError,
    ThreadBusy,
    ThreadError,
)
from ..store.sqlite.file import OWN_FOLDER, make_folder, restrict_access
from ..text.display import show_json
from ..text.secrets import read_own_secrets

LOG_FILE: Final = Path(".loopwright") / "loopwright.log"
_SPARE: Final = 20
_LONGEST_ERROR: Final = 1_000
# Joiners belong to emoji and scripts; the other format characters can disguise what is shown.
_HARMLESS: Final = frozenset("\n\t\u200c\u200d")

log = logging.getLogger("loopwright")


class Code(IntEnum):
    """How the command ended: what a script learns without reading."""

    COMPLETE = 0
    DIFFERENT = 1
    """A replay went another way than what is on record."""
    USAGE = 2
    """A wrong argument, setting, file or thread, or a thread in use; nothing was run."""
    UNFINISHED = 3
    """The run ended honestly without reaching the goal."""
    FAILED = 4
    WAITING = 5
    """A human must answer first."""
    PAUSED = 130
    """Stopped by a signal; 128 + SIGINT, as shells have it."""


def choose_exit_code(status: str) -> Code:
    """The exit code that goes with an outcome's status."""
    if status in ("partial", "blocked", "exhausted", "stuck", "cancelled"):
        return Code.UNFINISHED
    return Code.COMPLETE if status == "complete" else Code.FAILED


@dataclass
class Output:
    """Where the command writes: a terminal, a pipe, or one JSON object on standard output.

    Attributes:
        json: Standard output gets exactly one JSON object; progress goes to standard error.
        thread: The id of the thread, once it can be resumed.
        resume: The command that resumes it.
        doubts: Calls that ran when the run was stopped; whether they took effect is unknown.
    """

    json: bool = False
    thread: str = ""
    resume: str = ""
    doubts: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Let no character of an answer end the command."""
        for stream in (sys.stdout, sys.stderr):
            if reconfigure := getattr(stream, "reconfigure", None):
                reconfigure(errors="replace")

    @property
    def is_live(self) -> bool:
        """Whether somebody watches standard output on a terminal that can redraw."""
        return not self.json and _is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"

    @property
    def is_interactive(self) -> bool:
        """Whether standard input is a terminal: a human started this."""
        return _is_terminal(sys.stdin)

    def write_line(self, text: str, *, whole: bool = False) -> None:
        """Write a line of progress or of the report; `whole`: to be copied, so it is not broken."""
        self._write_wrapped(sys.stderr if self.json else sys.stdout, text, whole)

    def write_error(self, sentence: str) -> None:
        """Write what went wrong."""
        self._write_wrapped(sys.stderr, f"loopwright: {sentence}")

    def _write_wrapped(self, stream: TextIO | None, text: str, whole: bool = False) -> None:
        whole = whole or bool(self.resume and self.resume in text)
        _write(stream, text if whole or not _is_terminal(stream) else wrap_words(clean(text)))

    def write_result(self, content: Mapping[str, Any]) -> None:
        """Write the one JSON object; what could steer a terminal is escaped, so nothing is lost."""
        _write(sys.stdout, show_json(content, indent=2))

    def report(self, content: Mapping[str, Any], *lines: str) -> Code:
        """Write what a command came to: with `json` the object, else the lines; its exit code."""
        if self.json:
            self.write_result(content)
        else:
            for line in lines:
                self.write_line(line)
        return Code.COMPLETE

    def write_event(self, content: Mapping[str, Any]) -> None:
        """Write one JSON object a line, for a command that goes on."""
        _write(sys.stdout, show_json(content))


def _write(stream: TextIO | None, text: str) -> None:
    """Write a cleaned line; a closed pipe (`| head`) or a full disk does not end the run."""
    if stream is None:  # closed before the process began
        return
    try:
        stream.write(f"{clean(text)}\n")
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def wrap_words(text: str) -> str:
    """Break lines between words where the terminal ends; indents, and marks before a text, stay."""
    from rich.console import Console  # noqa: PLC0415 - pipes do without it
    from rich.text import Text  # noqa: PLC0415 - see above

    console, rows = Console(), list[str]()
    for line in text.split("\n"):
        mark, words = re.fullmatch(r"(\s*(?:[^\w\s] )?)(.*)", line).groups()  # type: ignore[union-attr]  # it fits all
        parts = Text(words).wrap(console, max(20, console.width - len(mark)))
        rows.append(mark + f"\n{' ' * len(mark)}".join(part.plain.rstrip() for part in parts))
    return "\n".join(rows)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def clean(text: object) -> str:
    """Replace characters that could steer a terminal (escape codes, text direction) by a mark."""
    lines = read_own_secrets().mask_text(str(text).replace("\r\n", "\n"))
    steers = {c for c in set(lines) - _HARMLESS if unicodedata.category(c) in {"Cc", "Cf", "Cs"}}
    return lines.translate(dict.fromkeys(map(ord, steers), "\ufffd"))


def shorten_line(text: object, limit: int = 100) -> str:
    """One line of at most `limit` characters."""
    # Cut before cleaning: a goal may have a million characters, and every event shows it.
    line = " ".join(clean(str(text)[: limit * _SPARE]).split())
    whole = len(line) <= limit and len(str(text)) <= limit * _SPARE
    if whole:
        return line
    cut = line[: limit - 1]
    if line[limit - 1 : limit] not in {"", " "}:  # in a word, which may be most of the line
        kept, _, part = cut.rpartition(" ")
        cut = kept if len(kept) > len(part) else cut
    return f"{cut.rstrip()}…"


def shorten_middle(text: str, limit: int) -> str:
    """Cut the middle out of a long text, and say how much was left out."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    left_out = len(text) - limit
    return f"{text[: limit - tail]} … [{left_out:,} characters left out] … {text[-tail:]}"


def render_call(tool: object, arguments: object, limit: int = 100) -> str:
    """A tool call as one short line."""
    shown = show_json(arguments) if arguments else ""
    return shorten_line(f"{tool} {shown}", limit)


@contextmanager
def send_signals_to(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Send Ctrl-C and SIGTERM to a handler; outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, was in before.items():
            if signal.getsignal(number) is handler:  # unless signals are ignored by now
                signal.signal(number, was)


def interrupt_run(*_: object) -> NoReturn:
    """End the run; later signals are ignored while the command saves and cleans up."""
    ignore_signals()
    raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore signals from now on; outside the main thread nothing changes."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def run_guarded(output: Output, action: Callable[[], int]) -> int:
    """Run a command's action; whatever it raises becomes a sentence and an exit code."""
    _log_to_file()
    # Runs last: Python gives signals back to the system before the process is gone.
    atexit.register(ignore_signals)
    try:
        with send_signals_to(interrupt_run):
            return run_attempt(output, action)
    except KeyboardInterrupt:
        # What is cleaned up at the end of the process may take seconds; one more ends it at once.
        atexit.register(signal.signal, signal.SIGINT, lambda *_: os._exit(Code.PAUSED))
        return _report_error(output, Code.PAUSED)


def run_attempt(output: Output, action: Callable[[], int]) -> int:
    """Run an action; an error becomes a sentence and an exit code."""
    try:
        return action()
    except (SettingsError, ThreadError, AnswerRejected) as error:
        failed = isinstance(error, LeaseLost) or (
            isinstance(error, DatabaseError) and output.thread
        )
        if isinstance(error, ThreadBusy):  # it goes on as it is, in the run that holds it
            output.resume = ""
        # What failed in mid-run is no wrong use.
        return _report_error(output, Code.FAILED if failed else Code.USAGE, str(error))
    except ModelCallFailed as error:
        _log_error(error)
        return _report_error(output, Code.FAILED, str(error))
    except Exception as error:  # noqa: BLE001 - the last line of defence of a process
        _log_error(error)
        sentence = f"{type(error).__name__}: {error}".rstrip(": .")
        sentence += f". The details are in {LOG_FILE}; LOOPWRIGHT_DEBUG=1 shows them here."
        return _report_error(output, Code.FAILED, sentence)


def _report_error(output: Output, code: Code, error: str = "") -> Code:
    """Say why the command stops, and how to resume the thread if there is one."""
    error = shorten_line(error, _LONGEST_ERROR)
    if output.json:
        status = {Code.PAUSED: "paused", Code.USAGE: "error"}.get(code, "failed")
        why = {"error": error} if error else {}
        where: dict[str, Any] = {"thread": output.thread, "resume": output.resume}
        if output.doubts:
            where["uncertain_calls"] = list(output.doubts)
        output.write_result(
            {"status": status} | why | (where if output.thread or not error else {})
        )
        return code
    for call in output.doubts:
        named = render_call(call["tool"], call["arguments"], 400)
        output.write_error(
            f"it is not known whether this call took effect, look for yourself: {named}"
        )
    if error:
        output.write_error(error)
        if output.resume:
            output.write_error(f"the thread is saved; go on with: {output.resume}")
    elif output.resume:
        how = "A call is in doubt, which the thread will ask about" if output.doubts else ""
        output.write_line(f"Paused. {how or 'Nothing is lost'}; go on with: {output.resume}")
    else:
        output.write_error("stopped before anything was started.")
    return code


def _log_error(error: Exception) -> None:
    log.error("the command failed", exc_info=error)
    if os.environ.get("LOOPWRIGHT_DEBUG"):
        _write(sys.stderr, "".join(traceback.format_exception(error)))


def open_without_link(path: str, flags: int) -> int:
    """Open a file; in the package's own folder follow no link, as others may write there."""
    own = Path(path).parent.name == OWN_FOLDER
    return os.open(path, flags | (getattr(os, "O_NOFOLLOW", 0) if own else 0), 0o600)


class _LogFile(logging.FileHandler):
    """A log file that is created with its first line; its errors never end the run."""

    def _open(self) -> Any:
        make_folder(Path(self.baseFilename).parent)
        restrict_access(self.baseFilename, 0o600)
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=open_without_link)

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Stay silent: a full disk must not write over the view."""


def _log_to_file() -> None:
    """Write the logs and warnings of libraries to the file instead of the terminal."""
    root = logging.getLogger()
    if any(isinstance(handler, _LogFile) for handler in root.handlers):
        return
    try:
        handler = _LogFile(LOG_FILE, delay=True, encoding="utf-8")
    except OSError:  # the current folder is gone: there is nowhere to log to
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
