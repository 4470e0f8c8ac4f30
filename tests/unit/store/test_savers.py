"""Sync-only savers and stores behind async doors."""

import asyncio
import sqlite3

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from loopwright.store.checkpoints.async_adapters import (
    ThreadedSaver,
    ThreadedStore,
    ensure_async_saver,
    ensure_async_store,
    is_sync_only,
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


async def test_which_savers_are_sync_only(saver, tmp_path):
    assert is_sync_only(saver)
    assert not is_sync_only(InMemorySaver())
    assert not is_sync_only(ThreadedSaver(saver))
    assert not is_sync_only(None)
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as other:
        assert not is_sync_only(other)


def test_only_what_needs_it_is_adapted(saver, connection):
    memory, store = InMemorySaver(), InMemoryStore()
    assert ensure_async_saver(memory) is memory
    assert ensure_async_saver(None) is None
    assert ensure_async_saver(True) is True
    assert ensure_async_store(store) is store
    assert ensure_async_store(None) is None
    assert isinstance(ensure_async_saver(saver), ThreadedSaver)
    assert isinstance(ensure_async_store(SqliteStore(connection)), ThreadedStore)


def test_it_is_the_inner_saver_in_every_other_respect(saver, connection):
    adapted = ThreadedSaver(saver)
    assert adapted.conn is connection
    assert adapted.serde is saver.serde
    assert adapted.config_specs == saver.config_specs
    assert adapted.get_next_version(None, None).startswith("0" * 31 + "1.")
    with pytest.raises(AttributeError):
        _ = adapted.nonsense


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


async def test_sync_writes_reach_the_inner_saver(saver):
    adapted = ThreadedSaver(saver)
    await greeter().compile(adapted).ainvoke(hello(), on("t"))
    saved = adapted.get_tuple(on("t", checkpoint_ns=""))
    assert saved is not None
    adapted.put_writes(saved.config, [("log", ["x"])], "00000000-0000-0000-0000-000000000000")
    assert saver.get_tuple(saved.config).pending_writes[-1][1:] == ("log", ["x"])
    written = adapted.put(saved.config, {**saved.checkpoint, "id": "z"}, saved.metadata, {})
    assert written["configurable"]["checkpoint_id"] == "z"
    adapted.delete_thread("t")
    assert adapted.get_tuple(on("t", checkpoint_ns="")) is None


async def test_allowlist_goes_to_the_inner_saver(saver):
    twin = ThreadedSaver(saver).with_allowlist({("support.toy_graphs", "ToyState")})
    assert isinstance(twin, ThreadedSaver)
    assert isinstance(twin.inner, SqliteSaver)
    assert twin.serde is twin.inner.serde


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
