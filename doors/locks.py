"""One run a thread: whoever runs a thread keeps every other run out until it has ended.

A thread that is held is refused, not waited for, and no lock outlives its process: it is an
operating system's lock on a file beside a SQLite database, a session's advisory lock in Postgres,
and for every other saver an entry in memory.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from ..state.errors import ThreadBusy
from .savers import ThreadedSaver
from .sqlite import FileLocks

_CLEAN_UP: Final = 5.0
"""Seconds a run of this process gets that is over but still cleans up after itself."""

_SQLITE_FILES: Final = "PRAGMA database_list"

Key = tuple[Hashable, str]
Release = Callable[[], None]
LockedBy = Callable[[], BaseCheckpointSaver[Any]]
Keeper = BaseCheckpointSaver[Any] | LockedBy


class Locks(Protocol):
    """Where a database's threads are locked against other processes; used in worker threads."""

    @property
    def place(self) -> Hashable:
        """The same for all locks that exclude each other in this process."""

    def take(self, name: str) -> Release | str:
        """Lock a name.

        Returns:
            What unlocks it, or who has it in words, "" where that cannot be told.

        Raises:
            DatabaseError: Locks cannot be had here.
        """


class _Entry:
    """What other runs of this process see of the one that holds a thread."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.unlock: Release | None = None
        self.over = False
        self.gone = threading.Event()
        self._process = os.getpid()

    def leave(self) -> None:
        if os.getpid() != self._process:  # a forked child's copy: the lock is its parent's
            return
        try:
            if self.unlock is not None:
                self.unlock()
        finally:
            _here.pop(self.key, None)
            self.gone.set()


_here: dict[Key, _Entry] = {}
"""The threads that are held by runs of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_here.clear)


class Held:
    """A thread that is held; it is let go at the latest when nobody refers to this any more."""

    def __init__(self, entry: _Entry) -> None:
        """Take over what the entry locks."""
        self._entry = entry
        self._lost = weakref.finalize(self, _leave_lost, entry)
        self._lost.atexit = False  # the end of a process lets go by itself

    @contextmanager
    def until_over(self) -> Iterator[None]:
        """A block after which the run is over, although it may still have to clean up."""
        try:
            yield
        finally:
            self._entry.over = True

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._lost.detach() is not None:
            self._entry.leave()


def _leave_lost(entry: _Entry) -> None:
    """Let go of what a generator held that nobody will ever close.

    In a thread of its own: the garbage collector calls from anywhere, also from within `leave`.
    """
    with suppress(RuntimeError):  # the process is ending
        threading.Thread(target=entry.leave, name="loopwright-unlock", daemon=True).start()


@asynccontextmanager
async def thread_lock(saver: Keeper, thread: str, place: str = "") -> AsyncIterator[Held]:
    """Hold a thread for the length of a block.

    Args:
        saver: Where the thread is saved, or what gives that saver; says how it is locked.
        thread: The thread's id.
        place: The checkpoint namespace of a graph that has only a part of the thread.

    Raises:
        ThreadBusy: Another run holds it.
        DatabaseError: It cannot be locked here.
    """
    try:
        held = await asyncio.to_thread(_take, saver, thread, place)
    except ThreadBusy:
        # Of this process it may be one that was left (`break` in `async for`): Python closes its
        # generator by a task of the loop, which has begun by now.
        if not await asyncio.to_thread(_is_gone_soon, saver, thread, place):
            raise
        held = await asyncio.to_thread(_take, saver, thread, place)
    try:
        yield held
    finally:
        await _let_go(held)


async def _let_go(held: Held) -> None:
    try:
        # Not a task: a loop that shuts down cancels those.
        releasing = asyncio.get_running_loop().run_in_executor(None, held.release)
    except RuntimeError:  # the loop is closed, so this blocks nobody
        held.release()
    else:
        await asyncio.shield(releasing)


def _take(saver: Keeper, thread: str, place: str) -> Held:
    at, locks = _locks_of(saver)
    name = lock_name(thread, place)
    entry = _Entry((at, name))
    if _here.setdefault(entry.key, entry) is not entry:
        raise _busy(thread, f"process {os.getpid()}")
    taken: Release | str | None = ""
    try:
        taken = locks.take(name) if locks is not None else None
    finally:
        if isinstance(taken, str):
            entry.leave()
    if isinstance(taken, str):
        raise _busy(thread, taken)
    entry.unlock = taken
    return Held(entry)


def lock_name(thread: str, place: str) -> str:
    """What is locked, as one name: a thread, or the part of it that one of its graphs has."""
    return f"{thread}\n{place}" if place else thread


def _is_gone_soon(saver: Keeper, thread: str, place: str) -> bool:
    """Whether the holder was a run of this process that is over, and has cleaned up in time."""
    at, _ = _locks_of(saver)
    entry = _here.get((at, lock_name(thread, place)))
    return entry is None or (entry.over and entry.gone.wait(_CLEAN_UP))


def _locks_of(keeper: Keeper) -> tuple[Hashable, Locks | None]:
    """What a saver keeps its threads in, and what locks them against other processes.

    Savers are copied (LangGraph does, with strict deserialization); what they share is not.
    """
    saver = keeper if isinstance(keeper, BaseCheckpointSaver) else keeper()
    inner = saver.inner if isinstance(saver, ThreadedSaver) else saver
    locks: Locks | None = getattr(inner, "thread_locks", None)
    if locks is None and isinstance(inner, SqliteSaver) and (file := _file_of(inner)):
        locks = FileLocks(file)
    if locks is not None:
        return locks.place, locks
    return id(getattr(inner, "conn", getattr(inner, "storage", inner))), None


def _file_of(saver: SqliteSaver) -> str:
    """The absolute path of the database, "" in memory."""
    with saver.lock:
        files = saver.conn.execute(_SQLITE_FILES).fetchall()
    return next((os.path.realpath(file) for _, name, file in files if name == "main" and file), "")


def _busy(thread: str, holder: str) -> ThreadBusy:
    who = f" ({holder})" if holder else ""
    return ThreadBusy(
        f"Another run holds the thread {thread!r}{who}: wait until it has ended, or stop it,"
        " then try again."
    )
