"""Turns that are taken back, and what the doctor says of those that wait."""

import sqlite3
from contextlib import asynccontextmanager, closing

import psycopg
import pytest

from loopwright import open_durability
from loopwright.store.health import inspect_database
from loopwright.store.locks.thread_locks import lock_thread_blocking
from loopwright.store.turns import BY_GRAPH, Turn
from loopwright.stream import meters
from support.shop import THREAD, Shop, commanded


@pytest.fixture
def durability(url):
    with open_durability(url) as opened:
        yield opened


async def test_a_turn_is_taken_back_before_it_begins(durability, url):
    shop = Shop(durability)
    for name in ("apples", "bread", "cheese"):
        shop.graph.enqueue(THREAD, name, id=name)
    assert [turn.id for turn in durability.turns("t")] == ["apples", "bread", "cheese"]
    assert durability.turns("other") == []
    gone = shop.graph.dequeue(THREAD, "apples")
    assert (gone.state, gone.over) == ("dequeued", True)
    assert shop.graph.enqueue(THREAD, "apples", id="apples").state == "dequeued", "a late retry"
    assert shop.graph.dequeue(THREAD, "never") is None
    code, told = commanded("dequeue", "t", "bread", "--db", url)
    assert (code, told["state"], told["message"]) == (0, "dequeued", "bread")
    await shop.work(lambda: shop.state("cheese") == "ended")
    assert (shop.paid, durability.turns()) == (["cheese"], [])
    assert shop.graph.dequeue(THREAD, "cheese").state == "ended"
    code, told = commanded("dequeue", "t", "cheese", "--db", url)
    assert (code, told["error"]) == (2, "The turn 'cheese' of the thread 't' is ended already.")


@asynccontextmanager
async def away(*_):
    """The session of a run whose servers do not answer: nothing is saved of it."""
    raise RuntimeError("no server")
    yield


@pytest.mark.parametrize("saved", [False, True], ids=["before its message is saved", "after"])
async def test_a_turn_that_failed_is_taken_back_unless_somebody_is_at_it(
    durability, url, saved, monkeypatch
):
    monkeypatch.setattr("loopwright.run.worker._PAUSES", (600.0, 600.0))
    shop = Shop(durability)
    for name in ("apples", "bread"):
        shop.graph.enqueue(THREAD, name, id=name)
    if saved:
        shop.away = 10**6
    else:
        monkeypatch.setattr(shop.graph.own_builder, "session", away)
    await shop.work(lambda: any(what == "failed" for what, *_ in shop.told))
    monkeypatch.undo()
    shop.away = 0
    with lock_thread_blocking(lambda: durability.locks, "t"):
        turn = shop.graph.dequeue(THREAD, "apples")
        assert (turn.state, bool(turn.why), turn.runs > 0) == ("begun", True, True)
        code, told = commanded("dequeue", "t", "apples", "--db", url)
        assert (code, "is begun already: `loopwright stop t` ends it" in told["error"]) == (2, True)
    code, told = commanded("dequeue", "t", "apples", "--db", url)
    assert (code, told["state"]) == (0, "dequeued")
    await shop.work(lambda: shop.state("bread") == "ended")
    assert (shop.paid, shop.state("apples")) == (["bread"], "dequeued")


async def test_a_turn_that_failed_ends_with_its_thread(durability, monkeypatch):
    monkeypatch.setattr("loopwright.run.worker._PAUSES", (600.0, 600.0))
    shop = Shop(durability)
    shop.away = 10**6
    for name in ("apples", "bread"):
        shop.graph.enqueue(THREAD, name, id=name)
    await shop.work(lambda: any(what == "failed" for what, *_ in shop.told))
    shop.away = 0
    assert shop.graph.stop(THREAD)["status"] == "cancelled"
    shop.turns.postpone(shop.graph.enqueued(THREAD, "apples"), 0, asks=False, failed=False)
    await shop.work(lambda: shop.state("bread") == "ended")
    assert shop.graph.enqueued(THREAD, "apples").outcome["status"] == "cancelled"
    assert shop.paid == ["bread"]


async def test_the_doctor_and_the_meter_know_which_turns_wait(durability, url, meter):
    shop = Shop(durability)
    turns = {"apples": "react", "bread": "react", "a": "desk", "b": "router", "c": "task_agent"}
    for name, graph in turns.items():
        if graph == "react":
            shop.graph.enqueue(THREAD, name, id=name)
        else:
            shop.turns.add(Turn(id=name, thread=name, graph=graph, state="waiting"))

    def told():
        return [
            (one.level, one.text.split(":")[0])
            for one in inspect_database(url)
            if one.check == "turns"
        ]

    assert told() == [("ok", "5 turns wait in the queue.")]
    with durability.journal.open().block() as execute:
        for number, graph in enumerate(dict.fromkeys(turns.values())):
            back = "UPDATE loopwright_turns SET since = since - ?, due = due - ? WHERE graph = ?"
            execute(back, [630 - 60 * number] * 2 + [graph])
    oldest = "of react for 10 minutes, of desk for 9 minutes, of router for 8 minutes"
    told_late = f"5 turns wait in the queue, the oldest that could run {oldest}, and 1 more graph"
    assert told() == [("warning", told_late)]
    aside = shop.turns.read("a", "a")
    shop.turns.end(aside, "aside", "why")
    assert told()[0] == (
        "warning", "1 turn set aside, which cannot run or ended the workers",
    )  # fmt: skip
    for name in "abc":
        durability.checkpointer.delete_thread(name)
    await shop.work(lambda: shop.state("bread") == "ended")
    assert told() == [("ok", "0 turns wait in the queue.")]
    assert meter.heard(meters.ENQUEUED) == meter.heard(meters.TAKEN) == {("react",): 2}
    assert meter.heard(meters.RUNS) == {("react", "complete"): 2}


def test_the_doctor_reads_no_turn_that_has_ended(durability, url):
    shop = Shop(durability)
    shop.graph.enqueue(THREAD, "apples", id="one")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    ended = (
        "INSERT INTO loopwright_turns (thread, name, graph, kind, body, state, since)"
        f" {numbers} SELECT 't' || i, 'x', 'react', 'message', '{{}}', 'ended', 0 FROM n"
    )
    with durability.journal.open().block() as execute:
        execute(ended, [])
        execute("ANALYZE", [])
    sql = BY_GRAPH.format(now=durability.journal.open().now)
    if url.startswith("sqlite"):
        opened, sql = sqlite3.connect(url.removeprefix("sqlite:///")), f"EXPLAIN QUERY PLAN {sql}"
    else:
        opened, sql = psycopg.connect(url), f"EXPLAIN {sql}"
    with closing(opened) as connection:
        plan = str(connection.execute(sql).fetchall())
    assert "loopwright_turns_left" in plan
    assert ("ok", "turns", "1 turn waits in the queue.") in [*inspect_database(url)]
