"""What Ctrl-C means in a conversation: one handler, from its first prompt to its end."""

import atexit
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from .terminal import interrupted

_LOOKS: Final = 0.2


class Back(KeyboardInterrupt):
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

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Take a signal."""
        if self._halt is not None:
            self._halt(number)
        elif number != signal.SIGINT:
            interrupted()
        elif self._reads:
            self._reads = False
            raise Back
        else:
            self._kept = True

    def read(self, typed: Callable[[], str]) -> str:
        """What is typed at a prompt or a question.

        Raises:
            Back: Ctrl-C, now or since the last prompt.
        """
        self._reads = True
        try:
            if self._taken():
                raise Back
            _look_every(_LOOKS)
            return typed()
        finally:
            self._reads = False
            _look_every(0)

    @contextmanager
    def turn(self, halt: Callable[[int], None]) -> Iterator[None]:
        """Hand signals to `halt` for the length of a block.

        Raises:
            Back: Ctrl-C since the last prompt: the block is not begun.
        """
        self._halt = halt
        try:
            if self._taken():
                raise Back
            yield
        finally:
            self._halt = None

    def _taken(self) -> bool:
        kept, self._kept = self._kept, False
        return kept


def _look_every(seconds: float) -> None:
    """Look for signals now and then; 0 ends it.

    One that comes after `input` has begun and before it waits would be seen with the next key. Not
    as a block: where Back comes as it is entered, its end would come when it is garbage, in the
    middle of the next one.
    """
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, _nothing)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """To wake up is all."""


# By default such a signal ends the process, also one that is about to end.
atexit.register(_look_every, 0)
