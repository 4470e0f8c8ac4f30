"""Turns that are taken back, and what the doctor says of those that wait."""

from contextlib import asynccontextmanager

import pytest

from loopwright import open_durability
from loopwright.store.locks.thread_locks import lock_thread_blocking
from support.shop import THREAD, Shop, commanded

pytestmark = pytest.mark.postgres


@pytest.fixture
def durability(postgres_url):
    with open_durability(postgres_url) as opened:
        yield opened


async def test_a_turn_is_taken_back_before_it_begins(durability, postgres_url):
    shop = Shop(durability)
    for name in ("apples", "bread", "cheese"):
        shop.graph.enqueue(THREAD, name, id=name)
    assert [turn.id for turn in durability.turns("t")] == ["apples", "bread", "cheese"]
    assert durability.turns("other") == []
    gone = shop.graph.dequeue(THREAD, "apples")
    assert (gone.state, gone.over) == ("dequeued", True)
    assert shop.graph.enqueue(THREAD, "apples", id="apples").state == "dequeued", "a late retry"
    assert shop.graph.dequeue(THREAD, "never") is None
    code, told = commanded("dequeue", "t", "bread", "--db", postgres_url)
    assert (code, told["state"], told["message"]) == (0, "dequeued", "bread")
    await shop.work(lambda: shop.state("cheese") == "ended")
    assert (shop.paid, durability.turns()) == (["cheese"], [])
    assert shop.graph.dequeue(THREAD, "cheese").state == "ended"
    code, told = commanded("dequeue", "t", "cheese", "--db", postgres_url)
    assert (code, told["error"]) == (2, "The turn 'cheese' of the thread 't' is ended already.")


@asynccontextmanager
async def away(*_):
    """The session of a run whose servers do not answer: nothing is saved of it."""
    raise RuntimeError("no server")
    yield


async def test_a_turn_that_failed_is_taken_back_unless_somebody_is_at_it(
    durability, postgres_url, monkeypatch
):
    monkeypatch.setattr("loopwright.run.worker._PAUSES", (600.0, 600.0))
    shop = Shop(durability)
    for name in ("apples", "bread"):
        shop.graph.enqueue(THREAD, name, id=name)
    shop.away = 10**6
    await shop.work(lambda: any(what == "failed" for what, *_ in shop.told))
    monkeypatch.undo()
    shop.away = 0
    with lock_thread_blocking(lambda: durability.locks, "t"):
        turn = shop.graph.dequeue(THREAD, "apples")
        assert (turn.state, bool(turn.why)) == ("begun", True)
        code, told = commanded("dequeue", "t", "apples", "--db", postgres_url)
        assert (code, "is begun already: `loopwright stop t` ends it" in told["error"]) == (2, True)
    code, told = commanded("dequeue", "t", "apples", "--db", postgres_url)
    assert (code, told["state"]) == (0, "dequeued")
    await shop.work(lambda: shop.state("bread") == "ended")
    assert (shop.paid, shop.state("apples")) == (["bread"], "dequeued")
