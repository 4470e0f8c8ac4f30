"""Sync-only savers and stores behind async doors."""

import sqlite3

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from loopwright.store.checkpoints.async_adapters import (
    ThreadedSaver,
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
