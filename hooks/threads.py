"""Runs what blocks in a thread of its own."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


async def call_in_thread(run: Callable[..., T], *given: Any) -> T:
    """Call a sync function in a daemon thread: one that hangs must not block pool or exit."""
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        done.set_running_or_notify_cancel()
        try:
            done.set_result(context.run(run, *given))
        except (StopIteration, SystemExit, KeyboardInterrupt) as end:  # would end the loop
            done.set_exception(RuntimeError(f"{type(end).__name__}: {end}"))
        except BaseException as crash:  # noqa: BLE001 - handed to the loop, which decides
            done.set_exception(crash)

    threading.Thread(target=work, name="loopwright hook", daemon=True).start()
    return await asyncio.wrap_future(done)
