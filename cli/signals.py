"""Ctrl-C and SIGTERM: first a pause that keeps everything, then a stop at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt, too, so that it ends with the same words."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - signal's
    raise KeyboardInterrupt


class Stopping:
    """Turns the first signal into a call of `pause` and every later one into KeyboardInterrupt.

    Only the main thread can take signals; elsewhere this does nothing.
    """

    def __init__(self, pause: Callable[[], None]) -> None:
        """`pause` runs inside the signal handler: it may set flags, not wait."""
        self._pause = pause
        self._before: dict[signal.Signals, Any] = {}
        self.asked = False

    def __enter__(self) -> Self:
        """Take over the signals."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._pause()
