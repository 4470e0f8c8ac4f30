"""One background event loop for everything that is bound to a loop.

MCP sessions, locks and connections belong to the loop that made them. A graph is called from
`asyncio.run` twice, from threads and from sync code, so none of those loops may own them.
"""

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from ..state.errors import SyncCallInLoop

T = TypeVar("T")

_READ_AHEAD: Final = 64
"""Items a stream may be ahead of its reader; more would hold results nobody has asked for."""

_END: Final = object()


class _Background:
    """The loop and the daemon thread that runs it, started at the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                # In an empty context: the loop keeps the one it is made in, and a run with it.
                self._loop = contextvars.Context().run(asyncio.new_event_loop)
                threading.Thread(
                    target=_run_for_ever, args=(self._loop,), name="loopwright", daemon=True
                ).start()
            return self._loop

    def is_here(self) -> bool:
        """Whether the calling thread is the one that runs the loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def forget(self) -> None:
        """In a forked child: the thread is gone and the lock may be held by nobody."""
        # Dropped without being closed the loop would warn, and closing it would
        # unregister the parent's file descriptors.
        _abandoned.append(self._loop)
        self._lock = threading.Lock()
        self._loop = None


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            # asyncio lets these two out of run_forever after storing them in their task: a tool
            # that calls sys.exit() ends its own run, not everybody's loop.
            continue


_abandoned: list[asyncio.AbstractEventLoop | None] = []
_background = _Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.forget)


class _Call(Generic[T]):
    """A coroutine that runs on the background loop, seen from another thread or loop.

    `outcome` settles only when the task has really ended, also after `cancel`. It is refused on the
    loop itself, where waiting for it would never end.
    """

    def __init__(self, coro: Coroutine[Any, Any, T]) -> None:
        if _background.is_here():
            coro.close()
            msg = (
                "A sync graph method was called from async code that runs on loopwright's own event"
                " loop, where it would wait for itself; await the async method instead"
                " (ainvoke, astream, aget_state)."
            )
            raise SyncCallInLoop(msg)
        self.outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._task: asyncio.Task[T] | None = None
        self._loop = _background.get_loop()
        # Runs in a copy of the caller's contextvars, and the task copies that one.
        self._loop.call_soon_threadsafe(self._start, coro)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._stop)

    def release(self, slots: asyncio.Semaphore) -> None:
        self._loop.call_soon_threadsafe(slots.release)

    def _start(self, coro: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(coro)
        self._task.add_done_callback(self._settle)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _settle(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


def run_blocking(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and wait for its result.

    Ctrl-C cancels the coroutine, waits for its clean-up and is raised again; a second one does not
    wait. Raises SyncCallInLoop on the background loop itself.
    """
    call = _Call(coro)
    try:
        return call.outcome.result()
    except BaseException:
        _finish(call)
        raise


def _finish(call: _Call[Any]) -> None:
    """Cancel a call that still runs and wait until it has cleaned up after itself."""
    if call.outcome.done():
        return
    call.cancel()
    # A generator collected on the loop's own thread cannot wait for that loop.
    if not _background.is_here():
        concurrent.futures.wait([call.outcome])


async def await_in_background(coro: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on the background loop, from any loop, with the caller's context variables.

    Cancelling either side cancels the other; the caller goes on when the coroutine has cleaned up.
    """
    if _background.is_here():
        return await coro
    call = _Call(coro)
    waiter = asyncio.wrap_future(call.outcome)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        call.cancel()
        await asyncio.wait([waiter])
        if not waiter.cancelled():
            waiter.exception()  # looked at, or asyncio logs that nobody did
        raise


def stream_blocking(source: AsyncIterator[T]) -> Generator[T, None, None]:
    """Iterate in sync code over an async iterator that runs on the background loop.

    It reads at most 64 items ahead. Leaving early (close, Ctrl-C, an exception) closes the iterator
    and waits for its clean-up. Raises SyncCallInLoop on the background loop itself.
    """
    chunks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    slots = asyncio.Semaphore(_READ_AHEAD)
    call = _Call(_pump(source, slots, chunks.put))
    call.outcome.add_done_callback(lambda _: chunks.put(_END))
    try:
        while (item := chunks.get()) is not _END:
            call.release(slots)
            yield item
        call.outcome.result()
    finally:
        _finish(call)


async def _pump(
    source: AsyncIterator[T], slots: asyncio.Semaphore, put: Callable[[T], None]
) -> None:
    try:
        async for item in source:
            await slots.acquire()
            put(item)
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


_LONG: Final = 0.025
"""Seconds: while a pass of the loop takes longer, only one piece begins in each."""

_MOST: Final = 4
"""Pieces that begin in a pass else: each goes on over many passes."""


class FairScheduler:
    """Of one event loop: who waits, and how many pieces may begin in a pass."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._room, self._begun, self._since = _MOST, 0, 0.0
        self._told = False

    async def acquire(self) -> None:
        """Wait for a turn; where few want one, it is there at once."""
        if not self._told:
            self._schedule_pass()
        if not self._waiting and self._begun < self._room:
            self._begun += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _schedule_pass(self) -> None:
        loop = asyncio.get_running_loop()
        self._told, self._since = True, loop.time()
        loop.call_soon(self._run_pass)

    def _run_pass(self) -> None:
        self._room = _MOST if asyncio.get_running_loop().time() - self._since < _LONG else 1
        self._begun, self._told = 0, False
        while self._waiting and self._begun < self._room:
            turn = self._waiting.popleft()
            if not turn.done():  # else nobody waits any more
                turn.set_result(None)
                self._begun += 1
        if self._waiting or self._begun:
            self._schedule_pass()


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, FairScheduler] = WeakKeyDictionary()


async def yield_to_others() -> None:
    """Let others of this loop in before a piece of work."""
    loop = asyncio.get_running_loop()
    pace = _paces.get(loop)
    if pace is None:
        pace = _paces[loop] = FairScheduler()
    await pace.acquire()
