"""A stop counts from when it came, whatever the clocks of those who ask and run are set to."""

import asyncio
import time
from contextlib import suppress

import pytest
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from loopwright import open_durability
from loopwright.run.stop_and_steer import make_stop
from loopwright.store.locks.thread_locks import _lines, lock_thread_blocking
from support.patience import PATIENCE
from support.shop import THREAD, Shop

DAY = 86_400
ASKED = {"messages": [("user", "apples")]}


@pytest.fixture
def shop(url):
    with open_durability(url) as durability:
        shop = Shop(durability)
        shop.durability = durability
        yield shop


def leave_a_stop(journal, monkeypatch, ahead):
    """As somebody else does whose clock differs, and who dies before anything comes of it."""
    ours = time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: ours() + ahead)
        journal.add_wish("t", make_stop())


@pytest.mark.parametrize("ahead", [-DAY, DAY])
def test_a_stop_that_a_crash_left_on_record_stops_no_later_resume(shop, ahead, monkeypatch):
    drained, journal = RunControl(), shop.durability.journal
    drained.request_drain("the machine goes down")
    with suppress(GraphDrained):
        shop.graph.invoke(ASKED, THREAD, control=drained)
    leave_a_stop(journal, monkeypatch, ahead)
    while journal.list_wishes("t")[0].age < 0.1:
        time.sleep(0.02)
    assert shop.graph.invoke(None, THREAD)["outcome"]["status"] == "complete"
    assert (shop.paid, journal.list_wishes("t")) == (["apples"], [])


@pytest.mark.parametrize("ahead", [-DAY, DAY])
async def test_a_stop_of_a_run_that_waits_for_its_thread_is_heeded(shop, ahead, monkeypatch):
    journal = shop.durability.journal
    await shop.graph.ainvoke(ASKED, THREAD)
    with lock_thread_blocking(lambda: shop.durability.locks, "t"):
        running = asyncio.create_task(shop.graph.ainvoke(ASKED, THREAD, wait=PATIENCE))
        while not _lines:
            assert not running.done()
            await asyncio.sleep(0.01)
        await asyncio.to_thread(leave_a_stop, journal, monkeypatch, ahead)
    assert (await running)["outcome"]["status"] == "cancelled"
    assert journal.list_wishes("t") == []
