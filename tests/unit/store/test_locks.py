"""One run a thread, across threads, loops and processes, and holders that die or are forgotten."""

import asyncio
import gc
import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from loopwright.state.errors import ThreadBusy
from loopwright.store.checkpoints.async_adapters import ensure_async_saver
from loopwright.store.durability import get_saver_locks, open_durability
from loopwright.store.locks.thread_locks import _try_lock, build_lock_name, lock_thread
from support.forked import Program
from support.patience import PATIENCE
from support.toy_graphs import ToyState, asker, hello, on

ME = rf"Another run holds the thread 't' \(process {os.getpid()}\): wait until it has ended, or"


@pytest.fixture
def database(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


@pytest.fixture(params=["file", "memory", "own", "own sqlite in memory"])
def saver(request, database):
    if request.param == "file":
        yield database.checkpointer
    elif request.param == "memory":
        with open_durability("sqlite:///:memory:") as opened:
            yield opened.checkpointer
    elif request.param == "own":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(":memory:") as plain:
            yield ensure_async_saver(plain)


def hold_of(saver, thread, place=""):
    return lock_thread(partial(get_saver_locks, saver), build_lock_name(thread, place or ""))


async def is_free(saver, thread="t"):
    with suppress(ThreadBusy):
        async with hold_of(saver, thread):
            return True
    return False


async def test_a_thread_is_held_for_the_length_of_a_block(saver):
    for _ in range(2):
        async with hold_of(saver, "t"):
            with pytest.raises(ThreadBusy, match=ME):
                async with hold_of(saver, "t"):
                    pass
            assert await is_free(saver, "another")
            assert await is_free(InMemorySaver())
            async with hold_of(saver, "t", "plan:1"):
                assert not await is_free(saver)
    assert await is_free(saver)


async def test_a_failed_or_cancelled_block_lets_go(saver):
    with pytest.raises(ZeroDivisionError):
        async with hold_of(saver, "t"):
            raise ZeroDivisionError
    inside = asyncio.Event()

    async def hold():
        async with hold_of(saver, "t"):
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_free(saver)


async def test_cancelled_at_the_door_it_holds_nothing(saver):
    for turns in range(4):

        async def hold():
            async with hold_of(saver, "t"):
                await asyncio.sleep(60)

        task = asyncio.create_task(hold())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_free(saver)


async def until_free(saver, thread="t"):
    deadline = time.monotonic() + PATIENCE
    while not await is_free(saver, thread):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_of_many_at_once_one_gets_it(database):
    inside, most = 0, 0
    lock, won = threading.Lock(), []

    async def attempt():
        nonlocal inside, most
        with suppress(ThreadBusy):
            async with hold_of(database.checkpointer, "t"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                won.append(1)
                await asyncio.sleep(0)
                with lock:
                    inside -= 1

    async def attempts():
        for _ in range(40):
            await attempt()

    threads = [threading.Thread(target=lambda: asyncio.run(attempts())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert won


HOLD = """
import asyncio, os, sys
from loopwright.store.durability import open_durability
from loopwright.store.locks.thread_locks import lock_thread
async def hold():
    async with lock_thread(lambda: database.locks, sys.argv[2]):
        print(os.getpid(), flush=True)
        await asyncio.to_thread(sys.stdin.read)
with open_durability(sys.argv[1]) as database:
    asyncio.run(hold())
"""


@contextmanager
def holder(url, thread="t"):
    with Program(HOLD, url, thread) as process:
        assert int(process.stdout.readline()) == process.pid
        yield process


@pytest.mark.req("P-34")
async def test_another_process_is_named_and_its_death_frees_at_once(database, tmp_path):
    with holder(f"sqlite:///{tmp_path}/threads.db") as process:
        with pytest.raises(ThreadBusy, match=rf"thread 't' \(process {process.pid}\)"):
            async with hold_of(database.checkpointer, "t"):
                pass
        assert await is_free(database.checkpointer, "another")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        left = list((tmp_path / "threads.db.locks").iterdir())
        assert len(left) == 1, "the file of a killed process stays, its lock does not"
        assert await is_free(database.checkpointer)
        assert list((tmp_path / "threads.db.locks").iterdir()) == []


FORKING = """
import asyncio, gc, os, sys, threading, warnings
warnings.simplefilter("ignore")
from loopwright.store.durability import open_durability
from loopwright.store.locks.thread_locks import lock_thread
database = open_durability(sys.argv[1])
lock = lock_thread(lambda: database.locks, "t")
asyncio.new_event_loop().run_until_complete(lock.__aenter__())
if os.fork():
    threading.Event().wait()
del lock
gc.collect()
print("forked", flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_neither_lets_go_nor_holds_on(database, tmp_path):
    with Program(FORKING, f"sqlite:///{tmp_path}/threads.db") as parent:
        assert parent.stdout.readline() == "forked\n"
        assert not asyncio.run(is_free(database.checkpointer))
        parent.kill()
        parent.wait()
        assert asyncio.run(is_free(database.checkpointer)), "the child lives on"


async def test_a_run_holds_its_thread_and_reading_state_does_not(saver):
    graph = asker().compile(saver)
    async for _ in graph.astream(hello(), on("t")):
        assert not await is_free(saver)
        await graph.aget_state(on("t"))
        with pytest.raises(ThreadBusy, match=ME):
            await graph.ainvoke(hello(), on("t"))
    assert await is_free(saver), "a question holds nothing"
    async with hold_of(saver, "t"):
        with pytest.raises(ThreadBusy, match=ME):
            await graph.aupdate_state(on("t"), {"log": ["by hand"]}, as_node="greet")
    await graph.aupdate_state(on("t"), {"log": ["by hand"]}, as_node="greet")
    result = await graph.ainvoke(None, on("t"))
    result = await graph.ainvoke(Command(resume="ok"), on("t"))
    assert result["log"] == ["greet", "by hand", "ask:ok", "end"]


def test_who_leaves_a_sync_stream_may_run_the_thread_again(saver):
    graph = asker().compile(saver)
    for _ in range(3):
        for _ in graph.stream(hello(), on("t")):
            break
        graph.invoke(hello(), on("t"))
        assert graph.get_state(on("t")).interrupts


def test_what_is_dropped_without_being_left_lets_go(saver):
    loop = asyncio.new_event_loop()
    held = loop.run_until_complete(_take_for_good(saver))
    loop.close()
    assert not asyncio.run(is_free(saver))
    del held
    gc.collect()
    asyncio.run(until_free(saver))


async def _take_for_good(saver):
    return await asyncio.to_thread(_try_lock, get_saver_locks(saver), "t")


@pytest.mark.req("P-34")
async def test_inside_somebody_elses_graph_it_holds_its_own_part():
    running, go_on, done = asyncio.Event(), asyncio.Event(), []

    async def work(state: ToyState):
        running.set()
        await go_on.wait()
        done.append(1)

    inner = asker()
    inner.add_node("work", work)
    inner.add_edge("ask", "work")
    outer = StateGraph(ToyState)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    outer.add_edge("inner", END)
    graph = outer.compile(InMemorySaver())
    await graph.ainvoke(hello(), on("t"))
    first = asyncio.create_task(graph.ainvoke(Command(resume="ok"), on("t")))
    await running.wait()
    with pytest.raises(ThreadBusy, match=r"the thread 't' \(process"):
        await graph.ainvoke(Command(resume="ok"), on("t"))
    go_on.set()
    await first
    assert done == [1]


async def test_threads_saved_by_a_server_are_locked_where_it_is_told(database):
    builder = asker()
    builder.locked_by = lambda: database.locks
    graphs = [builder.compile(InMemorySaver()) for _ in range(2)]
    async for _ in graphs[0].astream(hello(), on("t")):
        with pytest.raises(ThreadBusy, match=ME):
            await graphs[1].ainvoke(hello(), on("t"))
    await graphs[1].ainvoke(hello(), on("t"))
