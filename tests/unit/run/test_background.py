"""The background loop: one loop, reached from threads, other loops and sync code."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from loopwright.run.background import await_in_background, run_blocking, stream_blocking
from loopwright.state.errors import SyncCallInLoop
from support.patience import PATIENCE

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def loop_id() -> int:
    return id(asyncio.get_running_loop())


async def caller() -> str:
    return who.get()


async def count(upto: int, closed: list[bool] | None = None) -> AsyncIterator[int]:
    try:
        for number in range(upto):
            yield number
            await asyncio.sleep(0)
    finally:
        if closed is not None:
            closed.append(True)


async def linger(log: list[str]) -> None:
    log.append("started")
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(0.01)
        log.append("cleaned up")


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110 - the event is set on another loop
        await asyncio.sleep(0.005)


def interrupt_soon(condition: Callable[[], Any]) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def strike() -> None:
        while not condition():
            time.sleep(0.005)
        time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=strike, daemon=True).start()


async def test_cancelling_a_hop_cancels_and_waits_for_clean_up():
    log: list[str] = []
    task = asyncio.create_task(await_in_background(linger(log)))
    await until(lambda: log)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["started", "cleaned up"]


async def test_sync_call_on_the_loop_is_refused_in_one_sentence():
    async def blocks() -> None:
        with pytest.raises(SyncCallInLoop, match="await the async method"):
            run_blocking(loop_id())
        with pytest.raises(SyncCallInLoop, match="await the async method"):
            next(stream_blocking(count(1)))

    await await_in_background(blocks())


def test_interrupt_cancels_cleans_up_and_is_raised_again():
    log: list[str] = []
    interrupt_soon(lambda: log)
    with pytest.raises(KeyboardInterrupt):
        run_blocking(linger(log))
    assert log == ["started", "cleaned up"]


def test_a_tool_that_exits_does_not_take_the_loop_down():
    async def leaves() -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        run_blocking(leaves())
    assert run_blocking(caller()) == "nobody"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_a_loop_of_its_own():
    script = """
import os
from loopwright.run.background import run_blocking
async def answer():
    return 42
assert run_blocking(answer()) == 42
child = os.fork()
if child == 0:
    os._exit(run_blocking(answer()))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
assert run_blocking(answer()) == 42
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


def test_the_first_hop_does_not_block_a_watched_loop():
    script = """
import asyncio
from blockbuster import BlockBuster
from loopwright.run.background import await_in_background
async def answer():
    return 42
async def main():
    watch = BlockBuster()
    watch.activate()
    try:
        return await await_in_background(answer())
    finally:
        watch.deactivate()
assert asyncio.run(main()) == 42
"""
    done = subprocess.run(
        # -u: after BlockBuster, Python 3.11 may crash when it flushes a buffered stream at its end.
        [sys.executable, "-u", "-c", script], capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
