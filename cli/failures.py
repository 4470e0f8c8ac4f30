"""From an exception to one sentence and an exit code; the details go to the log file."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from ..state.errors import (
    AnswerRejected,
    ModelCallFailed,
    SettingsError,
    ThreadBusy,
    ThreadError,
)
from .terminal import Output, short, signals_to

LOG_FILE: Final = Path(".loopwright") / "loopwright.log"
_LONGEST: Final = 1_000

log = logging.getLogger("loopwright")


class Code(IntEnum):
    """How the command ended: what a script learns without reading."""

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


_UNFINISHED: Final = ("partial", "blocked", "exhausted", "stuck", "cancelled")


def code_of(status: str) -> Code:
    """The exit code that goes with an outcome's status."""
    codes = {"complete": Code.COMPLETE} | dict.fromkeys(_UNFINISHED, Code.UNFINISHED)
    return codes.get(status, Code.FAILED)


def guarded(output: Output, action: Callable[[], int]) -> int:
    """Run a command's action; whatever it raises becomes a sentence and an exit code."""
    _log_to_file()
    try:
        with signals_to(signal.default_int_handler):
            return action()
    except KeyboardInterrupt:
        return _ended(output, Code.PAUSED)
    except ThreadBusy as error:
        # No word on how to go on: the thread goes on as it is, in the run that holds it.
        output.resume = ""
        return _ended(output, Code.USAGE, str(error))
    except (SettingsError, ThreadError, AnswerRejected) as error:
        return _ended(output, Code.USAGE, str(error))
    except ModelCallFailed as error:
        _record(error)
        return _ended(output, Code.FAILED, str(error))
    except Exception as error:  # noqa: BLE001 - the last line of defence of a process
        _record(error)
        told = f"{type(error).__name__}: {error}".rstrip(": .")
        told += f". The details are in {LOG_FILE}; LOOPWRIGHT_DEBUG=1 shows them here."
        return _ended(output, Code.FAILED, told)


def _ended(output: Output, code: Code, error: str = "") -> Code:
    """Say why the command ends before its end, and how the thread goes on if there is one."""
    error = short(error, _LONGEST)
    if output.json:
        status = {Code.PAUSED: "paused", Code.USAGE: "error"}.get(code, "failed")
        why = {"error": error} if error else {}
        where = {"thread": output.thread, "resume": output.resume}
        output.result({"status": status} | why | (where if output.thread or not error else {}))
    elif error:
        output.error(error)
        if output.resume:
            output.error(f"the thread is saved; go on with: {output.resume}")
    elif output.resume:
        output.line(f"Paused. Nothing is lost; go on with: {output.resume}")
    else:
        output.error("stopped before anything was started.")
    return code


def _record(error: Exception) -> None:
    log.error("the command failed", exc_info=error)
    if os.environ.get("LOOPWRIGHT_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)


class _LogFile(logging.FileHandler):
    """A log file that comes into being with its first line, and never costs the run."""

    def _open(self) -> Any:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Stay silent: a full disk must not write over the view."""


def _log_to_file() -> None:
    """Send what libraries log and warn about to the file instead of the terminal."""
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
