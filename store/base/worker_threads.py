"""Threads that wait for a database: as many as it has connections.

With more threads than connections some would time out; with fewer, work just queues.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class WorkerThreads:
    """Some threads in which a database is waited for; they begin when they are needed."""

    def __init__(self, number: int) -> None:
        """Have so many at most, and one at least."""
        self._number = max(1, number)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()  # a forked child has no thread of its parent's
        self._executor = ThreadPoolExecutor(self._number, thread_name_prefix="loopwright database")

    def get_executor(self) -> Executor:
        """Runs in these threads."""
        if self._process != os.getpid():
            self._begin()
        return self._executor

    def shut_down(self) -> None:
        """Have the threads end when they have no more work."""
        self._executor.shutdown(wait=False)
        self._begin()


def find_executor(owner: object) -> Executor | None:
    """What runs blocking work with a saver, a store, a journal or locks; None: the event loop's."""
    hands: WorkerThreads | None = getattr(owner, "hands", None)
    return None if hands is None else hands.get_executor()


async def run_in_worker(
    owner: object, work: Callable[P, T], /, *args: P.args, **options: P.kwargs
) -> T:
    """As `asyncio.to_thread`, in a thread that the owner's database has for it."""
    called = partial(copy_context().run, work, *args, **options)
    return await asyncio.get_running_loop().run_in_executor(find_executor(owner), called)
