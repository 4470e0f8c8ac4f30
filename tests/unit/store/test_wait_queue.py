"""Waiting for a thread, first come first served: in one process, in several, and cut short."""

import asyncio
import os
import signal
import time
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright.state.errors import ThreadBusy
from loopwright.store.checkpoints.async_adapters import ensure_async_saver
from loopwright.store.durability import get_saver_locks, open_durability
from loopwright.store.locks.thread_locks import _lines, lock_thread
from support.forked import Program
from support.patience import PATIENCE
from support.toy_graphs import asker, hello, on

KINDS = ["file", "memory", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
def saver(request, tmp_path):
    if request.param == "memory":
        yield ensure_async_saver(InMemorySaver())
        return
    url = f"sqlite:///{tmp_path}/threads.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    with open_durability(url) as opened:
        yield opened.checkpointer


def hold_of(saver, wait=0.0):
    return lock_thread(partial(get_saver_locks, saver), "t", wait)


async def until_waiting(count):
    """Until so many stand in line."""
    deadline = time.monotonic() + PATIENCE
    while sum(map(len, _lines.values())) < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def standing(saver, names, served):
    """Tasks that wait in this order; each writes down its name when it is served."""

    async def wait(name):
        async with hold_of(saver, PATIENCE):
            served.append(name)
            await asyncio.sleep(0)

    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(wait(name)))
        await until_waiting(len(tasks))
    return tasks


async def test_first_come_first_served_and_who_gives_up_is_in_nobodys_way(saver):
    served = []
    async with hold_of(saver):
        tasks = await standing(saver, "abcde", served)
        for gone in (0, 2):
            tasks[gone].cancel()
        with pytest.raises(ThreadBusy, match=r"holds the thread 't' after 0\.1 seconds \(process"):
            async with hold_of(saver, 0.1):
                pass
        with pytest.raises(ThreadBusy, match=r"the thread 't' \(process"):
            async with hold_of(saver):
                pass
        assert served == []
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == ["b", "d", "e"]
    assert _lines == {}
    async with hold_of(saver):
        pass


WAIT = """
import asyncio, sys
from loopwright.store.durability import open_durability
from loopwright.store.locks.thread_locks import lock_thread
async def hold():
    async with lock_thread(lambda: database.locks, "t", 300):
        print(sys.argv[2], flush=True)
        await asyncio.to_thread(sys.stdin.read)
with open_durability(sys.argv[1], lease=1.2) as database:
    print("begun", flush=True)
    sys.stdin.readline()
    asyncio.run(hold())
"""


@contextmanager
def waiters(url, *names):
    """Processes that have begun, and wait for the thread when they are told so by a line."""
    with ExitStack() as opened:
        begun = [opened.enter_context(Program(WAIT, url, name)) for name in names]
        for process in begun:
            assert process.stdout.readline() == "begun\n"
        yield begun


def let_wait(process):
    process.stdin.write("\n")
    process.stdin.flush()


async def served_next(process):
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def test_processes_that_wait_on_sqlite_get_it_when_it_is_free(tmp_path):
    url = f"sqlite:///{tmp_path}/threads.db"
    with open_durability(url) as database:
        held = hold_of(database.checkpointer)
        await held.__aenter__()
        with waiters(url, "a") as (first,):
            let_wait(first)
            await held.__aexit__(None, None, None)
            assert await served_next(first) == "a"
            mine = asyncio.create_task(served_here(database.checkpointer))
            await until_waiting(1)
            first.stdin.close()
            assert await mine == "served"


async def served_here(saver):
    async with hold_of(saver, PATIENCE):
        return "served"


@pytest.mark.postgres
async def test_processes_stand_in_one_line_on_postgres(bouncer_url):
    with (
        open_durability(bouncer_url, lease=1.2) as database,
        waiters(bouncer_url, "killed", "frozen", "third") as (killed, frozen, third),
    ):
        count = partial(
            database.locks._pool.fetch_rows, "SELECT count(*) AS n FROM loopwright_waiting", []
        )

        async def until_tickets(number):
            deadline = time.monotonic() + PATIENCE
            while (await asyncio.to_thread(count))[0]["n"] < number:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)

        held = hold_of(database.checkpointer)
        await held.__aenter__()
        for number, process in enumerate((killed, frozen, third), 1):
            let_wait(process)
            await until_tickets(number)
        mine = asyncio.create_task(served_here(database.checkpointer))
        await until_waiting(1)
        os.kill(killed.pid, signal.SIGKILL)
        os.kill(frozen.pid, signal.SIGSTOP)
        await held.__aexit__(None, None, None)
        assert await served_next(third) == "third"
        assert not mine.done()
        third.stdin.close()
        assert await mine == "served"
        os.kill(frozen.pid, signal.SIGCONT)
        assert await served_next(frozen) == "frozen"


async def test_every_door_of_a_graph_waits(saver):
    graph = asker().compile(saver)
    async with hold_of(saver):
        doors = [
            asyncio.create_task(graph.ainvoke(hello(), on("t"), wait=PATIENCE)),
            asyncio.create_task(asyncio.to_thread(graph.invoke, hello(), on("t"), wait=PATIENCE)),
            asyncio.create_task(read(graph.astream(hello(), on("t"), wait=PATIENCE))),
            asyncio.create_task(
                asyncio.to_thread(lambda: [*graph.stream(hello(), on("t"), wait=PATIENCE)])
            ),
            asyncio.create_task(graph.abatch([hello(), hello()], on("t"), wait=PATIENCE)),
            asyncio.create_task(asyncio.to_thread(graph.batch, [hello()], on("t"), wait=PATIENCE)),
            asyncio.create_task(
                read(graph.astream_events(hello(), on("t"), version="v2", wait=PATIENCE))
            ),
        ]
        await until_waiting(8)
        assert not any(task.done() for task in doors)
        assert (await graph.aget_state(on("t"))).created_at is None
    await asyncio.gather(*doors)
    assert (await graph.aget_state(on("t"))).values["log"] == ["greet"] * 8
    result = await graph.ainvoke(Command(resume="ok"), on("t"), wait=0)
    assert result["log"][-1] == "end"


async def read(stream):
    return [chunk async for chunk in stream]
