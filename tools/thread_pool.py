"""Threads for sync tools: 32 of them, daemons, so that a tool that never returns blocks no exit."""

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

SIZE: Final = 32
"""asyncio's own pool has 6 threads on a machine of 2 cores: a few slow tools would fill it."""


class ThreadPool:
    """Runs sync functions with the caller's context variables. Safe to use from any loop."""

    def __init__(self, size: int = SIZE) -> None:
        """Allow `size` threads; each is started when it is first needed."""
        self._size = size
        self._begin()
        # A forked child inherits the counters, not the threads.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    async def run(self, function: Callable[[], T]) -> T | BaseException:
        """Run the function in a thread.

        Returns:
            Its result, or the exception it raised: `StopIteration` and `SystemExit` would do harm
            on their way through a future. A cancelled caller leaves the thread to itself.
        """
        done: concurrent.futures.Future[T | BaseException] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def job() -> None:
            if done.set_running_or_notify_cancel():
                done.set_result(context.run(_outcome, function))

        self._start(job)
        return await asyncio.wrap_future(done)

    def _start(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._idle <= self._jobs.qsize() and self._threads < self._size:
                self._threads += 1
                name = f"loopwright tool {self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._jobs.put(job)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
            job()


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - handed to the awaiting task, which decides
        return error


POOL: Final = ThreadPool()
