"""Who waits in this process for what another has, first come first served, on any event loop."""

import asyncio
import itertools
import os
import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite
from typing import Final

from ...state.errors import SettingsError, read_variable

_lines: dict[Hashable, list["Waiter"]] = {}
_lock = threading.Lock()
_arrivals: Final = itertools.count()


def _clear_waiters() -> None:
    _lines.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):  # nobody waits in a child, and nobody there would let go of it
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_clear_waiters
    )


class Waiter:
    """The place of one who waits."""

    def __init__(self, line: list["Waiter"]) -> None:
        """Behind those who are there."""
        self.rank = next(_arrivals)
        """Whoever has the smallest goes first; those who come of one line may be told another."""
        self._line, self._loop, self._event = line, asyncio.get_running_loop(), asyncio.Event()

    @property
    def is_first(self) -> bool:
        """Whether nobody in this process is to go before."""
        with _lock:
            return min(self._line, key=_get_rank) is self

    async def wait_for_wake(self, seconds: float) -> None:
        """Wait until something has happened that may let somebody go on, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    def wake(self) -> None:
        """Have it look again."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._event.set)


@contextmanager
def join_wait_queue(key: Hashable) -> Iterator[Waiter]:
    """A place in the line for something, for the length of a block."""
    with _lock:
        line = _lines.setdefault(key, [])
        place = Waiter(line)
        line.append(place)
    try:
        yield place
    finally:
        with _lock:
            line.remove(place)
            if not line:
                _lines.pop(key, None)
        wake(key)


def is_waited_for(key: Hashable) -> bool:
    """Whether somebody stands in line for it."""
    return key in _lines


def wake(key: Hashable) -> None:
    """Tell whoever is first that it may be free."""
    with _lock:
        first = min(_lines.get(key, ()), key=_get_rank, default=None)
    if first is not None:
        first.wake()


def _get_rank(place: Waiter) -> int:
    return place.rank


def yield_delays(first: float, most: float) -> Iterator[float]:
    """Seconds between two looks at what tells nobody: doubled each time, up to the most."""
    while True:
        yield first
        first = min(first * 2, most)


def parse_wait(given: object, environ: Mapping[str, str], what: str = "wait") -> float:
    """How long somebody is ready to wait: as is said, else by LOOPWRIGHT_WAIT, else not at all.

    Raises:
        SettingsError: It is no number of seconds.
    """
    if given is None:
        given, what = read_variable(environ, "LOOPWRIGHT_WAIT") or 0, "LOOPWRIGHT_WAIT"
        with suppress(ValueError):
            given = float(given)
    seconds = given if isinstance(given, int | float) and not isinstance(given, bool) else -1
    if seconds < 0 or not isfinite(seconds):
        msg = f"{what}={given} is no time to wait: give seconds, or 0 not to wait at all."
        raise SettingsError(msg)
    return float(seconds)
