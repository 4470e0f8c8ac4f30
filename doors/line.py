"""The one thread that uses a database's connection: whatever waits in its line is saved together.

Many threads would only wait for the connection, and for each other's turn in the interpreter: an
event loop that gives its turn away for an instant gets it back behind all of them.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

_MOST: Final = 32
"""Jobs done together: more would let too many runs go on in the same moment."""

_IDLE: Final = 5.0
"""Seconds after which a thread without work ends."""


class _Job(NamedTuple):
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class _End(NamedTuple):
    done: asyncio.Future[Any]
    result: Any
    error: BaseException | None


class Line:
    """Jobs in the order in which they come. Safe to use from any event loop."""

    def __init__(self, together: Callable[[], AbstractContextManager[object]]) -> None:
        """What is done in a block of `together` counts all or not at all."""
        self._together = together
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()  # a forked child has no thread of its parent's
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_here(self) -> bool:
        """Whether this is its thread, in the middle of a block."""
        return self._thread is threading.current_thread()

    async def run(self, work: Callable[[], T]) -> T:
        """Do it when its turn has come; it is done also where the caller is cancelled."""
        if self._process != os.getpid():
            self._begin()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._lock:
            self._jobs.put(_Job(work, loop, done))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="loopwright saver", daemon=True
                )
                self._thread.start()
        return await done

    def _work(self) -> None:
        while True:
            try:
                jobs = [self._jobs.get(timeout=_IDLE)]
            except queue.Empty:
                with self._lock:
                    if self._jobs.empty():
                        self._thread = None
                        return
                continue
            with suppress(queue.Empty):
                while len(jobs) < _MOST:
                    jobs.append(self._jobs.get_nowait())
            self._tell(self._done(jobs))

    def _done(self, jobs: list[_Job]) -> list[tuple[_Job, _End]]:
        try:
            with self._together():
                return [(job, _End(job.done, job.work(), None)) for job in jobs]
        except BaseException as error:  # noqa: BLE001 - whoever waits for the job gets it
            if len(jobs) == 1:
                return [(jobs[0], _End(jobs[0].done, None, error))]
        return [end for job in jobs for end in self._done([job])]  # one of them cannot be done

    def _tell(self, ends: list[tuple[_Job, _End]]) -> None:
        for loop in {job.loop for job, _ in ends}:
            own = [end for job, end in ends if job.loop is loop]
            with suppress(RuntimeError):  # closed meanwhile
                loop.call_soon_threadsafe(_told, own)


def _told(ends: list[_End]) -> None:
    for end in ends:
        if end.done.done():
            continue  # nobody waits any more
        if end.error is None:
            end.done.set_result(end.result)
        else:
            end.done.set_exception(end.error)
