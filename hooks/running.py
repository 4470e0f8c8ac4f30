"""Run one hook: within its time, in a thread where it is sync, its failure told and weighed."""

import asyncio
import contextvars
import copy
import inspect
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphBubbleUp

from .contract import Hook, HookCallable
from .reading import Output, Refused, read_output


@dataclass(frozen=True)
class Ran:
    """One hook's run: its output, seconds, and what went wrong.

    `failed` may be saved, so it names an error's type alone; `error` has its words too.
    """

    hook: Hook
    output: Output
    seconds: float
    failed: str = ""
    error: str = ""


async def run_hook(hook: Hook, given: Mapping[str, Any]) -> Ran:
    """Run a hook on a copy of the input; a failure is data.

    Raises:
        GraphBubbleUp: The hook paused or drained the graph.
        CancelledError: The run was cancelled.
    """
    began = time.monotonic()
    try:
        raw = await _within(hook.timeout, _call(hook.run, copy.deepcopy(dict(given))))
        output, failed, error = read_output(raw), "", ""
    except GraphBubbleUp:
        raise
    except Refused as refused:
        failed = error = str(refused)
    except TimeoutError:
        failed = error = f"it did not end within {hook.timeout:g} s"
    except Exception as crash:  # noqa: BLE001 - whatever a foreign callable raises, it is data
        failed, error = type(crash).__name__, f"{type(crash).__name__}: {crash}"
    if failed:
        output = _failed(hook, failed)
    return Ran(hook, output, round(time.monotonic() - began, 3), failed, error)


def _failed(hook: Hook, why: str) -> Output:
    """What a failure says: nothing where the hook fails open, a denial where it fails closed."""
    if hook.on_error == "open":
        return Output()
    return Output(decision="deny", reason=f"the hook {hook.label!r} failed: {why}")


async def _within(seconds: float, work: Any) -> Any:
    """Wait at most so long; work that will not end is cancelled and left behind."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_look)
    if not done:
        raise TimeoutError
    if task.cancelled():
        msg = "it was cancelled from within"
        raise Refused(msg)
    return task.result()


def _look(task: "asyncio.Future[Any]") -> None:
    """Look at an abandoned task's exception, which nobody else will."""
    if not task.cancelled():
        task.exception()


async def _call(run: HookCallable, given: dict[str, Any]) -> Any:
    if _is_async(run):
        return await run(given)  # type: ignore[misc]  # it returns an awaitable
    answer = await _threaded(run, given)
    return await answer if inspect.isawaitable(answer) else answer


def _is_async(run: HookCallable) -> bool:
    called = getattr(run, "__call__", None)  # noqa: B004 - the method is wanted, not the answer
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(called)


async def _threaded(run: HookCallable, given: dict[str, Any]) -> Any:
    """Call a sync function in a thread of its own.

    A daemon: one that never returns must block neither other work in a pool nor the exit.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    done: asyncio.Future[Any] = loop.create_future()

    def work() -> None:
        try:
            result, error = context.run(run, given), None
        except BaseException as crash:  # noqa: BLE001 - handed to the loop, which decides
            result, error = None, crash
        try:
            loop.call_soon_threadsafe(_settle, done, result, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=work, name="loopwright hook", daemon=True).start()
    return await done


def _settle(done: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        done.set_exception(error)
    else:  # SystemExit and the like end threads; here they would end the loop
        done.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
