"""Sync-only savers and stores behind async doors."""

import asyncio
import sqlite3

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from loopwright.store.checkpoints.async_adapters import (
    ThreadedSaver,
    ThreadedStore,
)
from support.toy_graphs import greeter, hello, on


@pytest.fixture
def connection():
    opened = sqlite3.connect(":memory:", check_same_thread=False)
    yield opened
    opened.close()


@pytest.fixture
def saver(connection):
    return SqliteSaver(connection)


async def test_async_and_sync_methods_agree(saver):
    adapted = ThreadedSaver(saver)
    await greeter().compile(adapted).ainvoke(hello(), on("t"))
    config = on("t", checkpoint_ns="")
    assert await adapted.aget_tuple(config) == saver.get_tuple(config)
    assert [s async for s in adapted.alist(config, limit=2)] == list(adapted.list(config, limit=2))
    history = await adapted.aget_delta_channel_history(config=config, channels=["messages"])
    assert history == saver.get_delta_channel_history(config=config, channels=["messages"])
    assert history == adapted.get_delta_channel_history(config=config, channels=["messages"])
    await adapted.adelete_thread("t")
    assert adapted.get_tuple(config) is None


async def test_what_the_inner_saver_cannot_do_is_said_by_it(saver):
    adapted = ThreadedSaver(saver)
    for call in (
        adapted.aprune(["t"]),
        adapted.acopy_thread("a", "b"),
        adapted.adelete_for_runs(["r"]),
    ):
        with pytest.raises(NotImplementedError):
            await call
    for method, argument in ((adapted.prune, ["t"]), (adapted.delete_for_runs, ["r"])):
        with pytest.raises(NotImplementedError):
            method(argument)
    with pytest.raises(NotImplementedError):
        adapted.copy_thread("a", "b")


def test_a_store_serves_several_loops(connection):
    connection.isolation_level = None
    store = ThreadedStore(SqliteStore(connection))

    async def note(key: str) -> list[str]:
        await store.aput(("notes",), key, {"at": key})
        return [item.key for item in await store.asearch(("notes",))]

    assert asyncio.run(note("a")) == ["a"]
    assert sorted(asyncio.run(note("b"))) == ["a", "b"]
    item = store.get(("notes",), "a")
    assert item is not None
    assert item.value == {"at": "a"}
