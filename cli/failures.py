"""From an exception to one sentence and an exit code; the details go to the log file."""

import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..state.errors import (
    AnswerRejected,
    ModelCallFailed,
    SettingsError,
    ThreadBusy,
    ThreadError,
)
from .codes import Code
from .output import Output
from .signals import terminated_like_ctrl_c
from .text import short

LOG_FILE: Final = Path(".loopwright") / "loopwright.log"
_LONGEST: Final = 1_000

log = logging.getLogger("loopwright")


def guarded(output: Output, action: Callable[[], int]) -> int:
    """Run a command's action; whatever it raises becomes a sentence and an exit code."""
    _log_to_file()
    try:
        with terminated_like_ctrl_c():
            return action()
    except KeyboardInterrupt:
        return paused(output)
    except ThreadBusy as error:
        # No word on how to go on: the thread goes on as it is, in the run that holds it.
        return _told(output, Code.USAGE, "error", str(error), hint=False)
    except (SettingsError, ThreadError, AnswerRejected) as error:
        return _told(output, Code.USAGE, "error", str(error))
    except ModelCallFailed as error:
        _record(error)
        return _told(output, Code.FAILED, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - the last line of defence of a process
        _record(error)
        return _told(output, Code.FAILED, "failed", _unexpected(error))


def paused(output: Output) -> int:
    """Say that the user stopped the run, and how it goes on."""
    if output.json:
        output.result({"status": "paused", "thread": output.thread, "resume": output.resume})
    elif output.resume:
        output.line(f"Paused. Nothing is lost; go on with: {output.resume}")
    else:
        output.error("stopped before anything was started.")
    return Code.PAUSED


def _told(output: Output, code: Code, status: str, sentence: str, *, hint: bool = True) -> int:
    sentence = short(sentence, _LONGEST)
    where = {"thread": output.thread, "resume": output.resume} if output.thread else {}
    if output.json:
        output.result({"status": status, "error": sentence} | where)
        return code
    output.error(sentence)
    if output.resume and hint:
        output.error(f"the thread is saved; go on with: {output.resume}")
    return code


def _unexpected(error: Exception) -> str:
    told = f"{type(error).__name__}: {error}".rstrip(": .")
    return f"{told}. The details are in {LOG_FILE}; LOOPWRIGHT_DEBUG=1 shows them here."


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
        try:
            super().emit(record)
        except OSError:
            logging.getLogger().removeHandler(self)

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
