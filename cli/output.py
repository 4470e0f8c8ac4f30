"""Where the command's words go: a terminal, a pipe, or one JSON object on standard output."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from .text import as_json


@dataclass
class Output:
    """The command's voice.

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

    @property
    def asks(self) -> bool:
        """Whether questions can be put here and now."""
        return self.reads and not self.json

    @property
    def progress(self) -> TextIO:
        """The stream that progress is written to."""
        return sys.stderr if self.json else sys.stdout

    def line(self, text: str) -> None:
        """Write a line of progress or of the report."""
        write(self.progress, text)

    def error(self, sentence: str) -> None:
        """Write what went wrong."""
        write(sys.stderr, f"loopwright: {sentence}")

    def result(self, content: Mapping[str, Any]) -> None:
        """Write the one JSON object."""
        write(sys.stdout, as_json(content, indent=2))


def write(stream: TextIO | None, text: str) -> None:
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
