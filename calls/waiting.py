"""Waiting for work whose behaviour nobody knows: with a deadline, side by side, or in order."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

_GRACE: Final = 2.0
"""Seconds a cancelled piece of work gets to clean up before it is left behind."""


async def staying(work: Coroutine[Any, Any, T]) -> T:
    """Keep a tool that calls `sys.exit()` from ending the loop: asyncio lets that one out."""
    try:
        return await work
    except SystemExit as error:
        msg = f"SystemExit: {error.code}"
        raise RuntimeError(msg) from error


async def wait_at_most(task: asyncio.Future[Any], deadline: float) -> bool:
    """Wait for a task at most so long, then cancel it; one that will not end is left behind.

    Returns:
        Whether it ended in time.
    """
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline)
        return bool(done)
    finally:
        # A caller who is cancelled meanwhile will not look at what the task ends with.
        task.add_done_callback(_forget)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_GRACE)


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at a task's exception, which perhaps nobody else will."""
    if not task.cancelled():
        task.exception()


async def in_order(steps: Sequence[tuple[bool, Callable[[], Coroutine[Any, Any, T]]]]) -> list[T]:
    """Run some work side by side and some alone, everything after what stands before it.

    Args:
        steps: For each piece of work whether it must run alone, and what starts it.

    Returns:
        The results, in the order given.
    """
    results: list[T] = []
    together: list[Coroutine[Any, Any, T]] = []
    for alone, run in steps:
        if not alone:
            together.append(run())
            continue
        results += await side_by_side(together)
        results += await side_by_side([run()])
        together = []
    return results + await side_by_side(together)


async def side_by_side(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all of it, also when one raises: its siblings' results must not get lost."""
    tasks = [asyncio.ensure_future(one) for one in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in tasks:  # each exception has to be looked at, though only the first is raised
        if not task.cancelled():
            task.exception()
    return [task.result() for task in tasks]
