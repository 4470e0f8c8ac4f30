"""Locks of threads, in the database and in this process.

A run of a held thread is refused, or waits if its caller wants to. A lock ends soon after its
process: it is an operating system's lock on a file beside a SQLite database, a lease in Postgres
that is renewed, and for every other saver an entry in memory.
"""

import asyncio
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from math import isfinite
from typing import Final, Protocol

from ...state.errors import LeaseLost, SettingsError, ThreadBusy, read_variable
from ...stream.meters import LOST, REFUSED, measure
from ...text.canonical import make_storable
from ..base.worker_threads import WorkerThreads, find_executor, run_in_worker
from .control import Control, Kind

_CLEAN_UP: Final = 5.0
"""Seconds a run of this process gets that is over but still cleans up after itself."""

_LOOKS: Final = (0.05, 0.4)
"""Seconds between two looks whether another process has let go: at first, and at most."""

_BRIEFLY: Final = 10.0
"""Seconds for which somebody is waited for who has a thread for a moment only."""

PRUNES: Final = ", which prunes it"
"""How the words end for who has a thread for a moment, and runs nothing."""

Key = tuple[Hashable, str]
"""What excludes others, and the name that is locked, see `build_lock_name`."""
Release = Callable[[], None]


def build_lock_name(thread: str, part: str = "") -> str:
    """Under which name a thread is locked, or a part of it: its id, or what no other thread has."""
    thread = make_storable(thread)
    plain = not part and not thread.startswith("\n")
    return thread if plain else f"\n{len(thread)}\n{thread}\n{part}"


def parse_lock_thread(name: str) -> str:
    """Which thread is locked under a name, as a whole or in part."""
    length, _, rest = name.removeprefix("\n").partition("\n")
    return rest[: int(length)] if name.startswith("\n") else name


class Locks(Protocol):
    """Where a database's threads are locked against other processes; used in worker threads."""

    @property
    def domain(self) -> Hashable:
        """The same for all locks that exclude each other in this process."""

    def take(self, name: str, doing: str = "", *, waits: bool = False) -> Release | str | None:
        """Lock a name; others can read what its holder does.

        A caller that `waits` calls it again and again: no process that came later goes before it.

        Returns:
            What unlocks it, None if no other process can have it, or its holder in words ("" if
            unknown).

        Raises:
            DatabaseError: The database cannot lock.
        """

    def stop_waiting(self, name: str) -> None:
        """Whoever has waited for a name waits no more."""


LockedBy = Callable[[], Locks]


class LockEntry:
    """What other runs of this process see of the one that holds a thread."""

    def __init__(self, key: Key, doing: str = "") -> None:
        """Nothing is locked yet."""
        self.key, self.doing = key, doing
        self.unlock: Release | None = None
        self.hands: WorkerThreads | None = None
        """In which it is unlocked."""
        self.control: Control | None = None
        """Of the run, if others may wish something of it."""
        self.over = False
        self.lost: LeaseLost | None = None
        """Why it holds the thread no more, where it has not let go of it."""
        self.gone = threading.Event()
        self._process = os.getpid()

    def covers(self, thread: str) -> bool:
        """Whether a graph inside the run needs no lock of its own: the run still holds this."""
        mine = self._process == os.getpid() and not self.gone.is_set()
        return mine and parse_lock_thread(self.key[1]) == make_storable(thread)

    def unlock_once(self) -> None:
        """Let go, once."""
        if os.getpid() != self._process:  # a forked child's copy: the lock is its parent's
            return
        try:
            if self.unlock is not None:
                self.unlock()
        finally:
            self.forget()
            wake(self.key)

    def mark_lost(self, why: LeaseLost) -> None:
        """Tell its run that somebody else has the thread; counted once, whoever notices first."""
        if self.lost is None:
            self.lost = why
            measure(LOST)
            if self.control is not None:
                self.control.lost = why

    def forget(self) -> None:
        """Leave it to others of this process, without having held it."""
        _here.pop(self.key, None)
        self.gone.set()


_here: dict[Key, LockEntry] = {}
"""The threads that are held by runs of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_here.clear)


class HeldLock:
    """A thread that is held; it is let go at the latest when nobody refers to this any more."""

    def __init__(self, entry: LockEntry) -> None:
        """Take over what the entry locks."""
        self.entry = entry
        self._lost = weakref.finalize(self, _unlock_abandoned, entry)
        self._lost.atexit = False  # the end of a process lets go by itself

    def mark_over(self) -> None:
        """The run is over, although it may still have to clean up."""
        self.entry.over = True

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._lost.detach() is not None:
            self.entry.unlock_once()


def _unlock_abandoned(entry: LockEntry) -> None:
    """Let go of what a generator held that nobody will ever close.

    In a thread of its own: the garbage collector calls from anywhere, also from within `leave`.
    """
    with suppress(RuntimeError):  # the process is ending
        threading.Thread(target=entry.unlock_once, name="loopwright-unlock", daemon=True).start()


@asynccontextmanager
async def lock_thread(locked_by: LockedBy, name: str, wait: float = 0) -> AsyncIterator[HeldLock]:
    """Hold a thread (`build_lock_name`) for a block; raises ThreadBusy, or DatabaseError.

    For `wait` seconds it waits for whoever holds it, first come first served.
    """
    locks = await asyncio.to_thread(locked_by)
    held = await run_in_worker(locks, _try_lock, locks, name)
    if isinstance(held, str) and (wait or PRUNES in held):
        held = await _wait_for_lock(locks, name, wait or _BRIEFLY, held)
    # Of this process it may be one that was left (`break` in `async for`): Python closes its
    # generator by a task of the loop, which has begun by now.
    elif isinstance(held, str) and await asyncio.to_thread(_is_gone_soon, locks, name):
        held = await run_in_worker(locks, _try_lock, locks, name)
    if isinstance(held, str):
        raise _make_busy_error(name, held, wait)
    try:
        yield held
    except LeaseLost as why:  # a write was refused before its heartbeat came to know
        held.entry.mark_lost(why)
        raise
    finally:
        await _release_lock(held)


@contextmanager
def lock_thread_blocking(locked_by: LockedBy, name: str, doing: str = "") -> Iterator[None]:
    """Hold a thread for a block, in a thread that may block; see `lock_thread`."""
    held = _try_lock(locked_by(), name := build_lock_name(name), doing)
    if isinstance(held, str):
        raise _make_busy_error(name, held)
    try:
        yield
    finally:
        held.release()


def notify_holder(locked_by: LockedBy, name: str, kind: Kind) -> None:
    """Tell the run of this process that holds a thread, if there is one, of a wish."""
    entry = _here.get((locked_by().domain, name))
    if entry is not None and entry.control is not None:
        entry.control.notify(kind)


def report_lost_lease(domain: Hashable, name: str, holder: str) -> None:
    """Tell the run of this process that holds a thread that somebody else has taken it."""
    entry = _here.get((domain, name))
    if entry is not None:
        entry.mark_lost(make_lost_error(name, holder))


def make_lost_error(name: str, holder: str) -> LeaseLost:
    """What a run is told that has lost its thread, and to whom if that is known."""
    thread, who = parse_lock_thread(name), f" ({holder})" if holder else ""
    return LeaseLost(
        f"Another run{who} has taken the thread {thread!r}, which this one had not renewed in time:"
        " this one stops, and writes nothing more. Resume the thread when the other has ended."
    )


async def _release_lock(held: HeldLock) -> None:
    try:
        # Not a task: a loop that shuts down cancels those.
        hands = find_executor(held.entry)
        releasing = asyncio.get_running_loop().run_in_executor(hands, held.release)
    except RuntimeError:  # the loop is closed, so this blocks nobody
        held.release()
    else:
        await asyncio.shield(releasing)


def _try_lock(locks: Locks, name: str, doing: str = "", *, waits: bool = False) -> HeldLock | str:
    """The held lock, or its holder."""
    me, entry = f"process {os.getpid()}", LockEntry((locks.domain, name), doing)
    if not waits and is_waited_for(entry.key):
        return me
    if (there := _here.setdefault(entry.key, entry)) is not entry:
        return me + there.doing
    taken: Release | str | None = ""
    try:
        taken = locks.take(name, doing, waits=waits)
    finally:
        if isinstance(taken, str):
            entry.forget()
    if isinstance(taken, str):
        return taken
    entry.unlock, entry.hands = taken, getattr(locks, "hands", None)
    return HeldLock(entry)


async def _wait_for_lock(locks: Locks, name: str, seconds: float, holder: str) -> HeldLock | str:
    """Stand in line; whoever is not let in before the time is over is told who holds it."""
    until, looks = time.monotonic() + seconds, yield_delays(*_LOOKS)
    take = partial(_try_lock, waits=True)
    with join_wait_queue((locks.domain, name)) as place:
        try:
            while (left := until - time.monotonic()) > 0:
                if place.is_first:
                    held = await run_in_worker(locks, take, locks, name)
                    if not isinstance(held, str):
                        return held
                    holder, left = held, min(left, next(looks))
                await place.wait_for_wake(left)
            return holder
        finally:
            await asyncio.shield(run_in_worker(locks, locks.stop_waiting, name))


def _is_gone_soon(locks: Locks, name: str) -> bool:
    """Whether the holder was a run of this process that is over, and has cleaned up in time."""
    entry = _here.get((locks.domain, name))
    return entry is None or (entry.over and entry.gone.wait(_CLEAN_UP))


def _make_busy_error(name: str, holder: str, waited: float = 0) -> ThreadBusy:
    measure(REFUSED)
    thread, who = parse_lock_thread(name), f" ({holder})" if holder else ""
    still = f" after {waited:g} seconds" if waited else ""
    return ThreadBusy(
        f"Another run holds the thread {thread!r}{still}{who}: wait until it has ended, or stop it"
        " (graph.stop), then try again; graph.steer hands a message to it."
    )


_lines: dict[Hashable, list["Waiter"]] = {}
_lock = threading.Lock()


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
        self._line, self._loop, self._event = line, asyncio.get_running_loop(), asyncio.Event()

    @property
    def is_first(self) -> bool:
        """Whether nobody in this process is to go before."""
        with _lock:
            return self._line[0] is self

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
        first = next(iter(_lines.get(key, ())), None)
    if first is not None:
        first.wake()


def yield_delays(first: float, most: float) -> Iterator[float]:
    """Seconds between two looks at what tells nobody: doubled each time, up to the most."""
    while True:
        yield first
        first = min(first * 2, most)


def parse_wait(given: object, environ: Mapping[str, str], what: str = "wait") -> float:
    """Seconds to wait: as given, else LOOPWRIGHT_WAIT, else 0; raises SettingsError."""
    if given is None:
        given, what = read_variable(environ, "LOOPWRIGHT_WAIT") or 0, "LOOPWRIGHT_WAIT"
        with suppress(ValueError):
            given = float(given)
    seconds = given if isinstance(given, int | float) and not isinstance(given, bool) else -1
    if seconds < 0 or not isfinite(seconds):
        msg = f"{what}={given} is no time to wait: give seconds, or 0 not to wait at all."
        raise SettingsError(msg)
    return float(seconds)
