"""Leases of threads in Postgres: taken, renewed, lost, checked where something is written."""

import os
import signal
import time
from contextlib import contextmanager

import psycopg
import pytest

from loopwright.state.errors import LeaseLost, ThreadBusy
from loopwright.store.durability import open_durability
from loopwright.store.journal.port import Change
from loopwright.store.locks.thread_locks import _here, build_lock_name, lock_thread_blocking
from loopwright.store.postgres.schema import STATEMENTS
from support.forked import Program
from support.patience import PATIENCE
from support.postgres import CUT

pytestmark = pytest.mark.postgres

ODD = "../../a thread/\x00\ud800"
STEAL = (
    "UPDATE loopwright_threads SET owner = 'process 7 on elsewhere', token = 42,"
    " until = clock_timestamp() + interval '1 minute' WHERE name = 't'"
)
EXPIRED = "SELECT 1 FROM loopwright_threads WHERE name = 't' AND until < clock_timestamp()"
STOLEN = r"Another run \(process 7 on elsewhere\) has taken the thread 't'.* writes nothing more"


@pytest.fixture(params=["direct", "through PgBouncer"])
def url(request):
    return request.getfixturevalue(
        "bouncer_url" if request.param == "through PgBouncer" else "postgres_url"
    )


DIRECT = pytest.mark.parametrize("url", ["direct"], indirect=True)


@pytest.fixture
def database(url):
    with open_durability(url, lease=1.2) as opened:
        yield opened


@pytest.fixture
def ask(postgres_url):
    """Runs a statement on a connection of its own."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def run(sql):
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

        yield run


def held(database, thread="t"):
    return lock_thread_blocking(lambda: database.locks, thread)


def is_free(database, thread="t"):
    try:
        with held(database, thread):
            return True
    except ThreadBusy:
        return False


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def claim(database):
    database.journal.transact("t", lambda _: (None, Change()))


@pytest.mark.req("W-91")
def test_holders_exclude_each_other_and_are_named(database, url, ask):
    with open_durability(url) as other:
        for thread in ("t", ODD):
            with held(database, thread):
                with pytest.raises(ThreadBusy, match=rf"\(process {os.getpid()}\)"):
                    held(other, thread).__enter__()
                assert is_free(other, "another")
            assert is_free(other, thread)
        ask(STEAL)
        with pytest.raises(ThreadBusy, match=r"\(process 7 on elsewhere\)"), held(other):
            pass


@pytest.mark.req("W-90", "W-91")
def test_it_is_renewed_and_outlives_connections_that_are_cut(database, url, ask):
    with open_durability(url) as other:
        with held(database), held(database, "b"):
            ask("UPDATE loopwright_threads SET until = now() - interval '1 day'")
            ask(CUT)
            until(lambda: not ask(EXPIRED))
            assert not is_free(other)
            assert not is_free(other, "b")
            claim(database)
            ask(CUT)
        until(lambda: is_free(other))
        assert is_free(other, "b")


@pytest.mark.req("W-90")
def test_who_has_lost_it_is_told_and_writes_nothing(database, ask):
    with held(database):
        entry = _here[database.locks.domain, "t"]
        fence = database.journal.raise_fence("t")
        ask(STEAL)
        for shown in (None, fence):
            with pytest.raises(LeaseLost, match=STOLEN):
                database.journal.transact("t", lambda _: (None, Change()), fence=shown)
        until(lambda: entry.lost)
        assert "(process 7 on elsewhere)" in str(entry.lost)
        with pytest.raises(LeaseLost, match=STOLEN):
            claim(database)
    assert ask("SELECT owner, token FROM loopwright_threads") == [("process 7 on elsewhere", 42)]


@pytest.mark.req("W-165")
@DIRECT
def test_a_waiter_that_has_died_is_no_holder_and_keeps_its_place_for_a_lease(url, ask):
    with open_durability(url):
        (lease,) = [sql for sql in STATEMENTS if "FUNCTION loopwright_lease" in sql]
        ask(lease.replace("least(seconds, 5)", "60"))  # as an earlier release made it
    with open_durability(url, lease=1.2) as database:
        with held(database):
            for who in ("a", "b"):
                ((told,),) = ask(f"SELECT holder FROM loopwright_lease('t', '{who}', 1, 1.2, 1)")
                assert told.startswith(f"process {os.getpid()}")
        begun = time.monotonic()
        assert database.locks.take("t") == ""
        while isinstance(taken := database.locks.take("t"), str):
            assert taken == ""
            time.sleep(0.05)
        assert time.monotonic() - begun < 4
        taken()


@DIRECT
def test_the_fence_is_the_lease_and_costs_no_row(database, ask):
    with held(database):
        fence = database.journal.raise_fence("t")
        database.journal.transact("t", lambda _: (None, Change()), fence=fence)
        assert fence.token == database.locks.token("t")
        assert ask("SELECT count(*) FROM loopwright_journal") == [(0,)]
        assert database.locks.find_fence("t", "inner:1|b:2") == fence
    with pytest.raises(ThreadBusy, match="Another run has locked"):
        database.journal.transact("t", lambda _: (None, Change()), fence=fence)
    assert callable(database.locks.take(build_lock_name("t", "inner:1")))
    assert database.locks.find_fence("t", "inner:1|b:2").name == build_lock_name("t", "inner:1")
    assert database.locks.find_fence("t", "outer:1") is None
    assert database.journal.raise_fence("never locked").token == 1


HOLD = """
import os, sys, warnings
warnings.simplefilter("ignore")
from loopwright.store.durability import open_durability
from loopwright.store.locks.thread_locks import lock_thread_blocking
from loopwright.state.errors import DatabaseError
database = open_durability(sys.argv[1], lease=1.2)
held = lock_thread_blocking(lambda: database.locks, "t")
held.__enter__()
if sys.argv[2] == "writes":
    block = database.journal.open().block("t")
    block.__enter__()("SELECT 1", [])
print("held", flush=True)
sys.stdin.read()
if sys.argv[2] == "forks":
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        assert database.locks.token("t") is None
        try:
            database.locks.take("other")
        except DatabaseError as error:
            assert "before this process was forked" in str(error)
        else:
            raise AssertionError
        held.__exit__(None, None, None)
        database.locks.close()
        sys.exit()
    print("forked", flush=True)
    import threading
    threading.Event().wait()
"""


@contextmanager
def holder(url, how=""):
    with Program(HOLD, url, how) as process:
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.mark.req("W-92")
@DIRECT
@pytest.mark.parametrize("how", ["", "writes"])
def test_a_frozen_holder_is_taken_over_also_in_the_middle_of_a_transaction(database, url, how):
    with holder(url, how) as process:
        with pytest.raises(ThreadBusy, match=rf"\(process {process.pid}\)"), held(database):
            pass
        process.send_signal(signal.SIGSTOP)
        until(lambda: is_free(database))
        with held(database):
            claim(database)
            process.send_signal(signal.SIGCONT)
            claim(database)


@pytest.mark.req("W-92")
@DIRECT
def test_a_killed_holder_is_taken_over_and_one_that_ends_lets_go_at_once(database, url, ask):
    with holder(url) as process:
        process.kill()
        process.wait()
        until(lambda: is_free(database))
    with holder(url) as process:
        process.stdin.close()
        assert process.wait() == 0
        assert ask("SELECT until FROM loopwright_threads") == [(None,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@DIRECT
def test_a_forked_child_neither_renews_nor_lets_go(database, url, ask):
    with holder(url, "forks") as process:
        process.stdin.close()
        assert process.stdout.readline() == "forked\n"
        ask("UPDATE loopwright_threads SET until = now() - interval '1 day'")
        until(lambda: not ask(EXPIRED))
        assert not is_free(database)
        process.kill()
        process.wait()
        until(lambda: is_free(database))
