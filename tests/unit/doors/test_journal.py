"""The journal: one claim a call, whoever asks; rows that outlive the process that wrote them."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from blockbuster import blockbuster_ctx

from loopwright.doors.durability import LateDatabase, open_durability
from loopwright.doors.journal import CallKey, memory_journal
from loopwright.doors.locks import thread_lock
from loopwright.state.canonical import hash_of
from loopwright.state.errors import DatabaseError

ARGS = {"to": "ada", "euro": 7}


def key(call="1.1.0", *, thread="t", turn="u", args=ARGS, place=""):
    return CallKey(thread, place, turn, call, hash_of(args))


def pay(journal, which=None):
    return journal.claim(which or key(), tool="pay", server="bank", arguments=ARGS)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/threads.db"


@pytest.fixture
def journal(url):
    with open_durability(url) as database:
        yield database.journal


async def test_a_call_is_claimed_once_and_what_was_there_is_not_touched(journal):
    assert await pay(journal) is None
    there = await pay(journal)
    assert there == await journal.find(key())
    assert (there.key, there.tool, there.server, there.arguments) == (key(), "pay", "bank", ARGS)
    assert (there.state, there.result, there.ended_at) == ("claimed", None, None)
    await journal.end(key(), "finished", {"text": "paid", "is_error": False})
    ended = await pay(journal)
    assert (ended.state, ended.result["text"]) == ("finished", "paid")
    assert ended.claimed_at == there.claimed_at < ended.ended_at


@pytest.mark.parametrize(
    "other",
    [
        key("1.1.1"), key(thread="t2"), key(turn="v"), key(args={}), key(place="work:1"),
        CallKey("t", "u", "", "1.1.0", hash_of(ARGS)),
    ],
)  # fmt: skip
async def test_every_part_of_the_key_counts(journal, other):
    assert await pay(journal) is None
    assert await pay(journal, other) is None
    assert other.idempotency_key != key().idempotency_key


async def test_a_reclaimed_call_has_no_result(journal):
    await pay(journal)
    await journal.end(key(), "uncertain", {"text": "?"})
    await journal.reclaim(key())
    row = await journal.find(key())
    assert (row.state, row.result, row.ended_at) == ("claimed", None, None)


async def test_rows_come_oldest_first_and_filtered(journal):
    for place, call in enumerate(["1.1.0", "1.1.1", "1.2.0", "2.1.0"]):
        await pay(journal, key(call, turn="u" if place < 3 else "v"))
    await journal.end(key("1.1.1"), "failed", {"text": "no"})
    await pay(journal, key("9.9.9", thread="another"))
    rows = await journal.rows("t")
    assert [row.key.call for row in rows] == ["1.1.0", "1.1.1", "1.2.0", "2.1.0"]
    assert [r.key.call for r in await journal.rows("t", turn="v")] == ["2.1.0"]
    assert [r.key.call for r in await journal.rows("t", states=["failed"])] == ["1.1.1"]
    claimed = await journal.rows("t", turn="u", states={"claimed", "uncertain"})
    assert [r.key.call for r in claimed] == ["1.1.0", "1.2.0"]


async def test_grants_and_counts_belong_to_their_thread_and_turn(journal):
    first, second = {"tool": "pay", "arguments": {"euro": "^7$"}}, {"tool": "look"}
    for grant in (first, second, dict(reversed(first.items()))):
        await journal.grant("t", grant)
    assert await journal.grants("t") == [first, second]
    assert await journal.grants("t2") == []


def until_counted(path, calls):
    deadline = time.monotonic() + 10
    with closing(sqlite3.connect(path)) as database:
        count = "SELECT sum(model_calls) FROM loopwright_begun"
        while database.execute(count).fetchone() != (calls,):
            assert time.monotonic() < deadline
            time.sleep(0.01)


async def test_model_calls_are_counted_behind_the_call_and_kept(tmp_path):
    url = f"sqlite:///{tmp_path}/t.db"
    with open_durability(url) as database:
        assert await database.journal.model_calls("t", "u", at_least=3) == 3
        database.journal.count_model_call("t", "u")
        assert await database.journal.model_calls("t", "u") == 4
        await asyncio.to_thread(until_counted, tmp_path / "t.db", 4)
    with open_durability(url) as database:
        journal = database.journal
        assert await journal.model_calls("t", "u", at_least=3) == 4
        journal.own_turn("t", "mine")
        journal.count_model_call("t", "mine")
        assert await journal.model_calls("t", "mine") == 1
        await journal.forget("t")
        assert await journal.model_calls("t", "u") == 0


async def test_a_forgotten_thread_leaves_nothing(journal):
    for thread in ("t", "kept"):
        await pay(journal, key(thread=thread))
        await journal.grant(thread, {"tool": "pay"})
    await journal.forget("t")
    assert (await journal.rows("t"), await journal.grants("t")) == ([], [])
    assert len(await journal.rows("kept")) == len(await journal.grants("kept")) == 1


async def test_results_are_made_storable_and_the_largest_keep_their_text(journal):
    odd = {"text": "a\x00b\ud800", "data": {"n": 2**70, "when": object}, "ratio": 0.5}
    for call, result in (
        ("1", odd),
        ("2", {"text": "long", "is_error": False, "data": ["x" * 2**20]}),
    ):
        await pay(journal, key(call))
        await journal.end(key(call), "finished", result)
    row = await journal.find(key("1"))
    assert row.result["text"] == "a\ufffdb\ufffd"
    assert row.result["data"]["n"] == str(2**70)
    assert (await journal.find(key("2"))).result == {"text": "long", "is_error": False}
    surrogate = key("\ud800", thread="\x00")
    assert await pay(journal, surrogate) is None
    assert (await pay(journal, surrogate)).state == "claimed"


async def test_many_claims_at_once_make_one(journal):
    found = await asyncio.gather(*(pay(journal) for _ in range(20)))
    assert sum(row is None for row in found) == 1


def test_it_serves_several_loops_and_threads(journal):
    found = []

    def run():
        found.append(asyncio.run(pay(journal)))

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(row is None for row in found) == 1


async def test_a_cancelled_claim_is_no_claim_and_a_cancelled_end_is_written(journal):
    await pay(journal, key("other"))
    claiming = asyncio.create_task(pay(journal))
    await asyncio.sleep(0)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert await journal.find(key()) is None
    await pay(journal)
    ending = asyncio.create_task(journal.end(key(), "finished", {"text": "paid"}))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert (await journal.find(key())).state == "finished"


async def test_a_claim_is_undone_though_its_caller_is_cancelled_twice_while_the_database_is_slow(
    journal, monkeypatch
):
    tables, begun, go = journal.tables(), threading.Event(), threading.Event()

    class Slow:
        def execute(self, *statement):
            begun.set()
            go.wait(10)
            return tables.execute(*statement)

    monkeypatch.setattr(journal, "tables", Slow)
    claiming = asyncio.create_task(pay(journal))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(2):
        claiming.cancel()
        await asyncio.sleep(0.05)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert await journal.find(key()) is None


def test_what_has_nothing_under_way_is_at_rest_at_once():
    journal = memory_journal()
    journal.at_work |= {key(thread="another"), key(turn="another")}
    with pytest.raises(StopIteration):  # it ends without once having waited
        journal.at_rest("t", "u").send(None)


async def test_a_turn_is_at_rest_once_its_calls_have_ended():
    journal = memory_journal()
    journal.at_work.add(key())
    resting = asyncio.create_task(journal.at_rest("t", "u"))
    await asyncio.sleep(0.2)
    assert not resting.done()
    journal.at_work.clear()
    await asyncio.wait_for(resting, 10)


async def test_other_threads_may_begin_calls_during_a_look_at_what_is_under_way():
    journal = memory_journal()

    class Busy(str):
        """A name; while it is read, a call begins."""

        __hash__ = str.__hash__

        def __eq__(self, other):
            journal.at_work.add(key(thread="v"))
            return str.__eq__(self, other)

    journal.at_work.add(key(thread=Busy("w")))
    await journal.at_rest("t", "u")
    assert len(journal.at_work) == 2


async def test_a_call_that_never_ends_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("loopwright.doors.journal._LONGEST_REST", 0.1)
    journal = memory_journal()
    journal.at_work.add(key())
    await asyncio.wait_for(journal.at_rest("t", "u"), 10)
    assert journal.at_work == {key()}, "it goes on"


CLAIM = """
import asyncio, os, signal, sys
from loopwright.doors.durability import open_durability
from loopwright.doors.journal import CallKey
url, calls, die = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
with open_durability(url) as database:
    async def pay(n):
        key = CallKey("t", "", "u", str(n), "h")
        return await database.journal.claim(key, tool="pay", server="bank", arguments={})
    print(sum(asyncio.run(pay(n)) is None for n in range(calls)), flush=True)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def claiming(url, *args):
    command = [sys.executable, "-c", CLAIM, url, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_the_claim_of_a_killed_process_is_there(url):
    process = claiming(url, "1", "die")
    assert process.communicate(timeout=60)[0] == "1\n"
    assert process.returncode == -signal.SIGKILL
    with open_durability(url) as database:
        row = await pay(database.journal, CallKey("t", "", "u", "0", "h"))
        assert (row.state, row.result) == ("claimed", None)


def test_two_processes_share_a_hundred_calls(url):
    running = [claiming(url, "100") for _ in range(2)]
    won = [int(process.communicate(timeout=60)[0]) for process in running]
    assert sum(won) == 100


def test_processes_may_open_a_new_database_at_once(tmp_path):
    journals = [LateDatabase(f"sqlite:///{tmp_path}/new.db") for _ in range(6)]
    found = []
    threads = [
        threading.Thread(target=lambda j=j: found.append(asyncio.run(pay(j.journal))))
        for j in journals
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for opened in journals:
        opened.close()
    assert sum(row is None for row in found) == 1


async def test_a_claim_survives_a_power_cut(url):
    with open_durability(url) as database:
        tables = database.journal.tables()
        assert tables.execute("PRAGMA synchronous")[1][0][0] == 2
        assert tables.execute("PRAGMA journal_mode")[1][0][0] == "wal"
        assert database.journal.durable


async def test_in_memory_it_is_not_durable_and_costs_nothing_until_it_is_used():
    journal = memory_journal()
    assert not journal.durable
    assert await pay(journal) is None
    assert (await pay(journal)).state == "claimed"
    journal.close()
    with open_durability("sqlite:///:memory:") as database:
        assert not database.journal.durable
        assert await pay(database.journal) is None


async def test_a_closed_or_broken_journal_says_so(url, tmp_path):
    with open_durability(url) as database:
        await pay(database.journal)
        other = sqlite3.connect(tmp_path / "threads.db")
        other.execute("DROP TABLE loopwright_calls")
        other.close()
        with pytest.raises(
            DatabaseError, match=r"threads\.db'.*no such table.*not made unrecorded"
        ):
            await pay(database.journal)
    with pytest.raises(DatabaseError, match="was closed"):
        await pay(database.journal)


async def test_a_late_database_is_opened_by_its_first_use(tmp_path):
    late = LateDatabase(f"sqlite:///{tmp_path}/late.db")
    assert list(tmp_path.iterdir()) == []
    assert await pay(late.journal) is None
    assert (await asyncio.to_thread(late.saver)).conn is not None
    assert (tmp_path / "late.db").is_file()
    late.close()
    wrong = LateDatabase("mysql://x/y")
    for _ in range(2):
        with pytest.raises(DatabaseError, match="sqlite:///FILE"):
            await pay(wrong.journal)


@pytest.mark.postgres
async def test_postgres_keeps_the_same_journal():
    url = os.environ.get("POSTGRES_URI")
    if not url:
        pytest.skip("POSTGRES_URI is not set")
    thread = f"t-{time.time_ns()}"
    with await asyncio.to_thread(open_durability, url) as database:
        journal = database.journal
        assert journal.durable
        mine = key(thread=thread)
        found = await asyncio.gather(*(pay(journal, mine) for _ in range(10)))
        assert sum(row is None for row in found) == 1
        await journal.end(mine, "uncertain", {"text": "?\x00"})
        (twin,) = await journal.rows(thread, states=["uncertain"])
        assert (twin.key, twin.state, twin.result) == (mine, "uncertain", {"text": "?\ufffd"})
        await journal.reclaim(mine)
        assert [r.state for r in await journal.rows(thread, turn="u", states=["claimed"])]
        await journal.grant(thread, {"tool": "pay"})
        assert await journal.model_calls(thread, "u") == 0
        journal.count_model_call(thread, "u")
        assert await journal.model_calls(thread, "u") == 1
        assert await journal.grants(thread) == [{"tool": "pay"}]
        await journal.forget(thread)
        assert (await journal.rows(thread), await journal.grants(thread)) == ([], [])


async def test_the_event_loop_is_never_blocked(tmp_path):
    late = LateDatabase(f"sqlite:///{tmp_path}/late.db")
    memory = memory_journal()
    with blockbuster_ctx("loopwright"):
        for journal in (late.journal, memory):
            assert await pay(journal) is None
            await journal.end(key(), "finished", {"text": "paid"})
            assert len(await journal.rows("t")) == 1
        async with thread_lock(late.saver, "t"):
            pass
    await asyncio.to_thread(late.close)
