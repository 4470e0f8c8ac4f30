"""What Ctrl-C means in a conversation: one handler, from its first prompt to its end."""

import atexit
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from .terminal import interrupt_run

_LOOKS: Final = 0.2


class PromptLeft(KeyboardInterrupt):
    """Ctrl-C at a prompt or a question: away from it."""


class CtrlC:
    """Where the conversation is says what a signal does, so none comes at a wrong moment.

    A prompt or a question is left by it, and a turn is handed it. Between them it is kept for
    whichever comes next.
    """

    def __init__(self) -> None:
        """Begin between them."""
        self._halt: Callable[[int], None] | None = None
        self._reads = self._kept = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        if self._halt is not None:
            self._halt(number)
        elif number != signal.SIGINT:
            interrupt_run()
        elif self._reads and not _is_in_readline(frame):
            self._reads = self._kept = False
            raise PromptLeft
        else:
            self._kept = True

    def run_for_readline(self, work: Callable[[], None]) -> None:
        """Do what readline calls while it reads: it drops what is raised there."""
        work()

    def read_input(self, typed: Callable[[], str]) -> str:
        """What is typed at a prompt or a question.

        Raises:
            Back: Ctrl-C, now or since the last prompt.
        """
        self._reads = True
        try:
            if self._take_kept_signal():
                raise PromptLeft
            _poll_signals(_LOOKS, self._raise_kept_signal)
            return typed()
        finally:
            self._reads = False
            _poll_signals(0)

    @contextmanager
    def forward_signals(self, halt: Callable[[int], None]) -> Iterator[None]:
        """Hand signals to `halt` for the length of a block.

        Raises:
            Back: Ctrl-C since the last prompt: the block is not begun.
        """
        self._halt = halt
        try:
            if self._take_kept_signal():
                raise PromptLeft
            yield
        finally:
            self._halt = None

    def _raise_kept_signal(self, _number: int, frame: FrameType | None) -> None:
        if self._reads and self._kept:
            self(signal.SIGINT, frame)

    def _take_kept_signal(self) -> bool:
        kept, self._kept = self._kept, False
        return kept


def _is_in_readline(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not CtrlC.run_for_readline.__code__:
        frame = frame.f_back
    return frame is not None


def _poll_signals(
    seconds: float, looks: Callable[[int, FrameType | None], None] = lambda _number, _frame: None
) -> None:
    """Look for signals now and then; 0 ends it.

    One that comes after `input` has begun and before it waits would be seen with the next key. Not
    as a block: where Back comes as it is entered, its end would come when it is garbage, in the
    middle of the next one.
    """
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, looks)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)


# By default such a signal ends the process, also one that is about to end.
atexit.register(_poll_signals, 0)
