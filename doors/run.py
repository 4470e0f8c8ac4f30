"""One run of a graph: as it is asked for, where its thread stands, and how it keeps it to itself.

A thread that is held is refused, not waited for, and no lock outlives its process: it is an
operating system's lock on a file beside a SQLite database, a session's advisory lock in Postgres,
and for every other saver an entry in memory.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Interrupt

from ..state.context import SESSION_KEY, OpenSession
from ..state.errors import ThreadBusy
from . import langgraph_keys as keys
from .durability import Locks, Release, locks_of
from .head import Head, inner_places, open_questions

HELD_KEY: Final = "__loopwright_held"
"""Where graphs inside a run find what it holds; kept out of metadata as FENCE_KEY."""

_CLEAN_UP: Final = 5.0
"""Seconds a run of this process gets that is over but still cleans up after itself."""

Key = tuple[Hashable, str]
LockedBy = Callable[[], Locks]


@dataclass(frozen=True, slots=True)
class Run:
    """One run as asked for, or as the doors let it through."""

    input: Any
    config: RunnableConfig
    options: dict[str, Any]
    configurable: Mapping[str, Any]
    saver: BaseCheckpointSaver[Any] | None

    @property
    def nested(self) -> bool:
        """Whether the graph runs as a node of another one, which answers for the thread."""
        return keys.TASK in self.configurable

    @property
    def thread(self) -> str:
        """The thread's id as a saver knows it; '' where the caller named none."""
        thread = self.configurable.get("thread_id")
        return "" if thread is None else str(thread)

    @property
    def resumes(self) -> bool:
        """Whether the caller wants to go on with what is saved."""
        command = self.input
        return command is None or (isinstance(command, Command) and command.resume is not None)

    @property
    def addressed(self) -> bool:
        """Whether the run names a checkpoint instead of taking the newest."""
        return not self.nested and bool(self.configurable.get("checkpoint_id"))

    def repeats(self, head: Head) -> bool:
        """Whether a server calls again, after a crash, the run that saved this checkpoint."""
        given = {**self.configurable, **self.config.get("metadata", {})}.get("run_id")
        return given is not None and str(given) == str(head.saved.metadata.get("run_id"))

    def where(self, inner: str = "") -> RunnableConfig:
        """The config under which the saver finds the checkpoint the run starts from.

        Args:
            inner: the namespace of a graph inside one of its tasks, if that is wanted.
        """
        place: dict[str, Any] = {**self.configurable, "thread_id": self.thread}
        if inner:
            place["checkpoint_ns"] = inner
        elif not self.nested:
            place["checkpoint_ns"] = ""
        return {"configurable": place}

    def hold(self, locked_by: LockedBy | None) -> "AbstractAsyncContextManager[Held | None]":
        """Keep other runs out of the thread, unless a run around this one does so.

        Args:
            locked_by: gives what locks threads, if that is not where the run's are saved.
        """
        if self.saver is None or not self.thread:
            return nullcontext()
        around = self.configurable.get(HELD_KEY)
        if self.nested and isinstance(around, Holding) and around.covers(self.thread):
            return nullcontext()
        return thread_lock(locked_by or partial(locks_of, self.saver), self.locked)

    @property
    def locked(self) -> str:
        """What `hold` locks: the thread.

        A graph inside somebody else's graph, whose runs nobody keeps apart, has a part of it.
        """
        part = self.configurable.get("checkpoint_ns") if self.nested else None
        return f"{self.thread}\n{part}" if part else self.thread

    @asynccontextmanager
    async def session(self, opened: OpenSession | None) -> AsyncIterator["Run"]:
        """Put something around a run of the whole graph; its nodes can read what that brought."""
        if opened is None or self.nested:
            yield self
            return
        source = "startup" if await self.head() is None else "resume"
        async with opened(self.thread, source) as session:
            yield self.telling(SESSION_KEY, session)

    def telling(self, key: str, value: object) -> "Run":
        """The run, telling its nodes and the graphs inside it what was settled at its door."""
        configurable = {**self.config.get("configurable", {}), key: value}
        return replace(self, config={**self.config, "configurable": configurable})

    async def head(self) -> Head | None:
        """The checkpoint the run starts from, if there is one."""
        if self.saver is None or not self.thread:
            return None
        saved = await self.saver.aget_tuple(self.where())
        return None if saved is None else Head(saved)

    async def newest(self) -> Head | None:
        """The newest checkpoint where the run is saved, whichever it starts from."""
        if self.saver is None or not self.thread:
            return None
        place = self.configurable.get("checkpoint_ns") or ""
        saved = await self.saver.aget_tuple(
            {"configurable": {"thread_id": self.thread, "checkpoint_ns": place}}
        )
        return None if saved is None else Head(saved)

    async def questions(self, head: Head) -> list[Interrupt]:
        """The questions that are open; at an older checkpoint those that were."""
        if self.saver is None or self.addressed:
            return head.interrupts()
        inner: dict[str, Head] = {}
        for place in set[str]().union(*inner_places(head).values()):
            if saved := await self.saver.aget_tuple(self.where(place)):
                inner[place] = Head(saved)
        return open_questions(head, inner)


class Holding:
    """What other runs of this process see of the one that holds a thread."""

    def __init__(self, key: Key) -> None:
        """Nothing is locked yet."""
        self.key = key
        self.unlock: Release | None = None
        self.over = False
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
        f"Another run holds the thread {thread!r}{who}: wait until it has ended, or stop it,"
        " then try again."
    )
