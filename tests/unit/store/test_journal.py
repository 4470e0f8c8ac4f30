"""Where intents are kept: one claim a call, whoever asks; rows outlive their process."""

import asyncio
import subprocess
import threading

import pytest

from loopwright.state.errors import ThreadBusy
from loopwright.state.outcome import Spend
from loopwright.store.durability import open_durability
from loopwright.store.journal.port import COUNTED, Change, End, Intent
from loopwright.store.journal.recorder import Recorder
from loopwright.store.journal.sql import MemoryJournal
from support.forked import server
from support.patience import PATIENCE


def intent(name="a", n=7, **more):
    about = {"tool": "pay", "server": "bank", "turn": "u", "call": "1.1.0", "task": "1"}
    args = {"n": n}
    return Intent(
        **about | {"name": name, "arguments": args, "content": str(args), "key": name} | more
    )


def begin(journal, which=None, word=None, thread="t"):
    return Recorder(journal).begin(thread, which or intent(), word)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/threads.db"


@pytest.fixture(params=["sqlite", "memory"])
def journal(request, url):
    if request.param == "memory":
        yield MemoryJournal()
        return
    with open_durability(url) as database:
        yield database.journal


async def test_a_row_is_kept_whole(journal):
    said, row = await begin(journal)
    assert said == "send"
    assert journal.rows("t") == [row]
    assert (row.key, dict(row.arguments), row.server, row.state) == (
        "a",
        {"n": 7},
        "bank",
        "claimed",
    )
    await Recorder(journal).end("t", row, End("finished", {"text": "paid", "is_error": False}))
    said, ended = await begin(journal)
    assert (said, ended.result) == ("known", {"text": "paid", "is_error": False})


@pytest.mark.req("P-24")
async def test_a_call_costs_no_more_after_many_others(journal):
    """What a claim looks at are its own row, spare ones and doubts, however many have finished."""
    recorder, seen = Recorder(journal), list[list[str]]()
    for number in range(30):
        _, row = await recorder.begin("t", intent(str(number), number))
        await recorder.end("t", row, End("finished", {"text": "paid"}))
    await recorder.release("t", turn="u", place="", keeps=lambda row: row.name != "7")
    await recorder.begin("t", intent("doubt", 99, tool="order"))

    def work(rows):
        seen.append([row.name for row in rows])
        return None, Change()

    journal.transact("t", work, names=["3", "new"])
    journal.transact("t", work)
    assert seen[0] == ["3", "7", "doubt"]
    assert len(seen[1]) == 31
    assert (await recorder.begin("t", intent("new", 7))).say == "known", "the spare one stands"
    assert [row.name for row in await recorder.rows("t", ["3"])] == ["3", "doubt"]


async def test_what_a_transaction_breaks_off_is_not_kept(journal):
    row = (await begin(journal)).row

    def broken(rows):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        journal.transact("t", broken)
    assert journal.rows("t") == [row]
    assert journal.transact("t", lambda rows: (len(rows), Change(drop=["a"]))) == 1
    assert journal.rows("t", ["a"]) == []


@pytest.mark.req("P-06")
async def test_a_run_that_has_lost_its_lock_claims_nothing(journal):
    recorder = Recorder(journal)
    first = journal.raise_fence("t")
    claimed = await recorder.begin("t", intent(), None, first)
    second = journal.raise_fence("t")
    assert second.token > first.token
    with pytest.raises(ThreadBusy, match="stops before it changes anything more"):
        await recorder.begin("t", intent("b"), None, first)
    assert (await recorder.begin("t", intent(), None, second)).say == "doubt"
    await recorder.end("t", claimed.row, End("finished", {"text": "paid"}))
    assert (await recorder.begin("t", intent(), None, second)).say == "known", "its end counts"
    assert journal.raise_fence("another").token == 1


class Slow(MemoryJournal):
    """Its transactions wait for a sign."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def transact(self, *about, **more):
        self.begun.set()
        self.go.wait(PATIENCE)
        return super().transact(*about, **more)


@pytest.mark.parametrize("times", [1, 2])
async def test_the_claim_of_a_cancelled_caller_is_none_however_often_it_is_cancelled(times):
    journal = Slow()
    claiming = asyncio.create_task(begin(journal))
    await asyncio.to_thread(journal.begun.wait, PATIENCE)
    for _ in range(times):
        claiming.cancel()
        await asyncio.sleep(0)
    journal.go.set()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert journal.rows("t", ["a"]) == []


def letting_go(journal, turn="u", **more):
    recorder = Recorder(journal)
    return recorder.release("t", turn=turn, place="", keeps=lambda _: False, **more)


async def test_what_others_have_under_way_or_elsewhere_stays_theirs():
    journal = MemoryJournal()
    for name, more in (
        ("a", {}),
        ("b", {"turn": "v"}),
        ("c", {"place": "x"}),
        ("d", {"place": "y"}),
    ):
        await begin(journal, intent(name, **more))
    recorder = Recorder(journal)
    with recorder.mark_under_way("t", intent("b", turn="v")):
        released = await recorder.release("t", turn="u", place="x", keeps=lambda _: False)
        assert [row.name for row in released if row.spare] == ["c"]
        released = await letting_go(journal)
    assert [row.name for row in released if row.spare] == ["a", "c", "d"]


@pytest.mark.req("P-27")
async def test_what_a_turn_takes_is_on_record_before_it_is_made(tmp_path):
    url, parts = f"sqlite:///{tmp_path}/t.db", dict.fromkeys(COUNTED, 0.0)
    with open_durability(url) as database:
        recorder = Recorder(database.journal)
        recorder.begin_usage("t", "u")
        tab = await recorder.load_usage("t", "u", Spend(model_calls=9))
        assert tab.totals == dict.fromkeys(COUNTED, 0), "its own turn: nothing was before"
        tab.model_calls, tab.tokens, tab.usd = 2, 1_000, 0.25
        await tab.record_ahead(parts)
        tab.tokens, tab.usd = 300, 0.1  # settled; a crash would not know
    with open_durability(url) as database:
        recorder = Recorder(database.journal)
        tab = await recorder.load_usage("t", "u", Spend(model_calls=1, tool_calls=4))
        taken = {"model_calls": 2, "tool_calls": 4, "tokens": 1_000, "usd": 0.25}
        assert tab.totals == taken
        tab.tokens, tab.model_calls = 400, 3
        await tab.record_ahead(parts)
        await recorder.settle_usage("t")
        await recorder.settle_usage("t")
        assert (await Recorder(database.journal).load_usage("t", "u", Spend())).totals == tab.totals


async def test_a_turn_that_has_ended_is_left_as_it_stands_and_one_that_rests_is_settled(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as database:
        recorder, left = Recorder(database.journal), []
        for turn in ("ended", "rests"):
            recorder.begin_usage("t", turn)
            tab = await recorder.load_usage("t", turn, Spend())
            tab.model_calls = 2
            await tab.record_ahead(dict.fromkeys(COUNTED, 3.0))
        recorder.close_usage("t", "ended")
        await recorder.settle_usage("t")
        for turn in ("ended", "rests"):
            left.append(
                (await Recorder(database.journal).load_usage("t", turn, Spend())).model_calls
            )
        assert left == [5, 2]


@pytest.mark.req("P-27")
async def test_a_turn_that_others_went_on_with_has_taken_what_they_took(tmp_path):
    url, parts = f"sqlite:///{tmp_path}/t.db", dict.fromkeys(COUNTED, 2.0)
    with open_durability(url) as first, open_durability(url) as second:
        mine, other = Recorder(first.journal), Recorder(second.journal)
        mine.begin_usage("t", "u")
        for taken in (5, 6):
            tab = await mine.load_usage("t", "u", Spend())
            tab.model_calls = taken
            await tab.record_ahead(parts)
            mine.expire_usage("t")  # the same process goes on after an error, and nobody was there
        assert (await mine.load_usage("t", "u", Spend())).model_calls == 6
        await mine.settle_usage("t")
        (await other.load_usage("t", "u", Spend(model_calls=6))).model_calls += 10
        await (await other.load_usage("t", "u", Spend())).record_ahead(parts)  # and is killed
        mine.expire_usage("t")
        tab = await mine.load_usage("t", "u", Spend(model_calls=6))
        assert tab.model_calls == 18
        tab.model_calls += 1
        await tab.record_ahead(parts)
        assert (await Recorder(second.journal).load_usage("t", "u", Spend())).model_calls == 21


CLAIM = """
import asyncio, os, signal, sys
from loopwright.store.durability import open_durability
from loopwright.store.journal.recorder import Recorder
from loopwright.store.journal.port import Intent
url, calls, die = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
with open_durability(url) as database:
    async def pay(n):
        intent = Intent(name=str(n), arguments={}, content=f"pay {n}", key=str(n))
        return (await Recorder(database.journal).begin("t", intent)).say
    print(sum(asyncio.run(pay(n)) == "send" for n in range(calls)), flush=True)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def claiming(url, *args):
    command = [server().python, "-c", CLAIM, url, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_the_claim_of_a_killed_process_is_there(url):
    process = claiming(url, "1", "die")
    assert process.communicate(timeout=PATIENCE)[0] == "1\n"
    with open_durability(url) as database:
        (row,) = database.journal.rows("t")
        assert (row.name, row.in_doubt) == ("0", True)


def test_two_processes_share_a_hundred_calls(url):
    running = [claiming(url, "100") for _ in range(2)]
    won = [int(process.communicate(timeout=PATIENCE)[0]) for process in running]
    assert sum(won) == 100


async def test_a_claim_survives_a_power_cut(url):
    with open_durability(url) as database:
        with database.journal.open().block() as execute:
            assert execute("PRAGMA synchronous", [])[0][0] == 2
            assert execute("PRAGMA journal_mode", [])[0][0] == "wal"
        assert database.journal.durable
