"""Locks of threads: what a database brings, and who in this process holds which.

A thread that is held is refused, not waited for, and no lock outlives its process for long: it is
an operating system's lock on a file beside a SQLite database, a lease that has to be renewed in
Postgres, and for every other saver an entry in memory.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, Protocol

from ..state.errors import LeaseLost, ThreadBusy
from .control import Control, Kind

_CLEAN_UP: Final = 5.0
"""Seconds a run of this process gets that is over but still cleans up after itself."""

Key = tuple[Hashable, str]
Release = Callable[[], None]


class Locks(Protocol):
    """Where a database's threads are locked against other processes; used in worker threads."""

    @property
    def place(self) -> Hashable:
        """The same for all locks that exclude each other in this process."""

    def take(self, name: str) -> Release | str | None:
        """Lock a name.

        No lock may outlive its process for long. Where one can be lost before, `lose` tells it.

        Returns:
            What unlocks it, None where no other process can have it, or who has it in words, ""
            where that cannot be told.

        Raises:
            DatabaseError: Locks cannot be had here.
        """


LockedBy = Callable[[], Locks]


class Holding:
    """What other runs of this process see of the one that holds a thread."""

    def __init__(self, key: Key) -> None:
        """Nothing is locked yet."""
        self.key = key
        self.unlock: Release | None = None
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
        return mine and self.key[1].partition("\n")[0] == thread

    def leave(self) -> None:
        """Let go, once."""
        if os.getpid() != self._process:  # a forked child's copy: the lock is its parent's
            return
        try:
            if self.unlock is not None:
                self.unlock()
        finally:
            _here.pop(self.key, None)
            self.gone.set()


_here: dict[Key, Holding] = {}
"""The threads that are held by runs of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_here.clear)


class Held:
    """A thread that is held; it is let go at the latest when nobody refers to this any more."""

    def __init__(self, entry: Holding) -> None:
        """Take over what the entry locks."""
        self.entry = entry
        self._lost = weakref.finalize(self, _leave_lost, entry)
        self._lost.atexit = False  # the end of a process lets go by itself

    def is_over(self) -> None:
        """The run is over, although it may still have to clean up."""
        self.entry.over = True

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._lost.detach() is not None:
            self.entry.leave()


def _leave_lost(entry: Holding) -> None:
    """Let go of what a generator held that nobody will ever close.

    In a thread of its own: the garbage collector calls from anywhere, also from within `leave`.
    """
    with suppress(RuntimeError):  # the process is ending
        threading.Thread(target=entry.leave, name="loopwright-unlock", daemon=True).start()


@asynccontextmanager
async def thread_lock(locked_by: LockedBy, name: str) -> AsyncIterator[Held]:
    """Hold a thread for the length of a block.

    Args:
        locked_by: Gives what locks it; called in a worker thread.
        name: The thread's id, and in a second line what part of it, if it is only one.

    Raises:
        ThreadBusy: Another run holds it.
        DatabaseError: It cannot be locked here.
    """
    try:
        held = await asyncio.to_thread(_take, locked_by, name)
    except ThreadBusy:
        # Of this process it may be one that was left (`break` in `async for`): Python closes its
        # generator by a task of the loop, which has begun by now.
        if not await asyncio.to_thread(_is_gone_soon, locked_by, name):
            raise
        held = await asyncio.to_thread(_take, locked_by, name)
    try:
        yield held
    finally:
        await _let_go(held)


@contextmanager
def held_here(locked_by: LockedBy, name: str) -> Iterator[None]:
    """Hold a thread for the length of a block, in a thread that may wait; see `thread_lock`."""
    held = _take(locked_by, name)
    try:
        yield
    finally:
        held.release()


def ring(locked_by: LockedBy, name: str, kind: Kind) -> None:
    """Tell the run of this process that holds a thread, if there is one, of a wish."""
    entry = _here.get((locked_by().place, name))
    if entry is not None and entry.control is not None:
        entry.control.ring(kind)


def lose(place: Hashable, name: str, holder: str) -> None:
    """Tell the run of this process that holds a thread that somebody else has taken it."""
    entry = _here.get((place, name))
    if entry is not None:
        entry.lost = lost(name, holder)
        if entry.control is not None:
            entry.control.lost = entry.lost


def lost(name: str, holder: str) -> LeaseLost:
    """What a run is told that has lost its thread, and to whom if that is known."""
    thread, who = name.partition("\n")[0], f" ({holder})" if holder else ""
    return LeaseLost(
        f"Another run{who} has taken the thread {thread!r}, which this one had not renewed in time:"
        " this one stops, and writes nothing more. Resume the thread when the other has ended."
    )


async def _let_go(held: Held) -> None:
    try:
        # Not a task: a loop that shuts down cancels those.
        releasing = asyncio.get_running_loop().run_in_executor(None, held.release)
    except RuntimeError:  # the loop is closed, so this blocks nobody
        held.release()
    else:
        await asyncio.shield(releasing)


def _take(locked_by: LockedBy, name: str) -> Held:
    locks = locked_by()
    entry = Holding((locks.place, name))
    if _here.setdefault(entry.key, entry) is not entry:
        raise _busy(name, f"process {os.getpid()}")
    taken: Release | str | None = ""
    try:
        taken = locks.take(name)
    finally:
        if isinstance(taken, str):
            entry.leave()
    if isinstance(taken, str):
        raise _busy(name, taken)
    entry.unlock = taken
    return Held(entry)


def _is_gone_soon(locked_by: LockedBy, name: str) -> bool:
    """Whether the holder was a run of this process that is over, and has cleaned up in time."""
    entry = _here.get((locked_by().place, name))
    return entry is None or (entry.over and entry.gone.wait(_CLEAN_UP))


def _busy(name: str, holder: str) -> ThreadBusy:
    thread, who = name.partition("\n")[0], f" ({holder})" if holder else ""
    return ThreadBusy(
        f"Another run holds the thread {thread!r}{who}: wait until it has ended, or stop it"
        " (graph.stop), then try again; graph.steer hands a message to it."
    )
