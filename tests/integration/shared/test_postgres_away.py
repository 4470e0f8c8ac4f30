"""A Postgres that is restarted, full of connections or set up oddly: runs go on or say why not."""

import asyncio
import signal
import threading
import time
from contextlib import ExitStack

import psycopg
import psycopg_pool
import pytest

from loopwright import DatabaseError, ScriptedModel, build_react, open_durability
from loopwright.run.worker import Worker
from loopwright.store.health import inspect_database
from loopwright.store.postgres import pool as pools
from loopwright.store.work.delivery import Delivery
from loopwright.store.work.turns import find_records, open_queue
from support import postgres
from support.patience import PATIENCE
from support.scripts import call, thought
from support.toy_graphs import on

pytestmark = pytest.mark.postgres

ODD = (
    "datestyle = 'German, DMY'", "timezone = 'Asia/Kolkata'", "bytea_output = 'escape'",
    "standard_conforming_strings = off", "client_encoding = 'LATIN1'",
    "default_transaction_isolation = 'serializable'", 'search_path = "Odd one", public',
)  # fmt: skip
LONG = "a \\ '中' é" * 5_000


def payer(durability, paid, during=lambda: None):
    """Each message is paid once; `during` is called meanwhile."""

    def pay(what: str) -> str:
        """Pay for something."""
        paid.append(what)
        during()
        return f"paid {what} {LONG}"

    def answer(messages, offered):
        what = next(
            one.text for one in reversed(messages) if one.type == "human" and one.text in "abc"
        )
        done = any(one.type == "tool" and f"paid {what}" in one.text for one in messages)
        if not offered:
            return thought("It is paid." if done else "I pay.", more=not done)
        return [] if done else [call("pay", f"c{len(messages)}", what=what)]

    return build_react(
        model=ScriptedModel(answer), tools=[pay], policy="allow", durability=durability,
        observe="direct",
    )  # fmt: skip


def ended(durability, graph, name):
    """Have a worker run what waits for the thread until this turn has ended."""

    async def work():
        queue = open_queue(find_records(durability.journal))
        worker = Worker({graph.name: graph}, Delivery(queue, [graph.name], 30.0))
        working = asyncio.create_task(worker.work())
        while True:
            try:
                turn = await graph.aenqueued(on("t"), name, wait=PATIENCE)
                break
            except DatabaseError:
                await asyncio.sleep(0.2)
        worker.leave()
        await working
        return turn

    return asyncio.run(work())


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A server that is restarted, and where a pool before it has its files."""
    if lacks := postgres.missing("initdb", "postgres", "pgbouncer"):
        pytest.skip(f"{lacks} is not installed: .ci/servers installs it")
    folder = tmp_path_factory.mktemp("own")
    with postgres.server(folder / "server") as server:
        yield server, folder / "bouncer"


def test_a_server_and_a_pool_that_restart_in_the_middle_of_a_turn_cost_nothing(own):
    server, folder = own
    paid, port = [], postgres.free_port()
    url = server.database().replace(f":{server.port}/", f":{port}/")
    before = postgres.bouncer(folder, server, port=port)
    before.__enter__()

    def restarted():
        before.__exit__(None, None, None)
        with server.away(signal.SIGQUIT):
            pass
        after.__enter__()

    after = postgres.bouncer(folder, server, port=port)
    with open_durability(url) as durability:
        graph = payer(durability, paid, lambda: paid == ["a"] and restarted())
        for name in "ab":
            graph.enqueue(on("t"), name, id=name)
        try:
            turn = ended(durability, graph, "b")
        finally:
            after.__exit__(None, None, None)
    assert turn.outcome["status"] == "complete"
    assert paid == ["a", "b"]


def test_who_waits_gets_a_connection_soon_after_a_server_was_away_for_long(own, monkeypatch):
    """The pool of psycopg pauses for as long as the server was away, then gives up."""
    server, _ = own
    monkeypatch.setattr(pools, "BUSY_SECONDS", 1.0)
    pool = pools.Pool(psycopg, psycopg_pool, server.database(), 2)
    pool.open()
    with pool.connection() as known:
        known.execute("SELECT 1")
    got = threading.Event()

    def waits():
        with pool.connection(PATIENCE):
            got.set()

    with server.away(signal.SIGQUIT):
        pool.mark_cut(known)
        waiting = threading.Thread(target=waits)
        waiting.start()
        while pool.get_stats().get("connections_errors", 0) < 6:  # it would have given up by now
            assert not got.wait(0.1)
    assert got.wait(PATIENCE)
    waiting.join()
    pool.close()


@pytest.mark.req("W-164")
@pytest.mark.req("W-168")
def test_the_end_of_a_turn_waits_once_for_a_server_that_is_away(own, monkeypatch, caplog):
    """What saves, what is saved beside, and what lets go of the thread wait for the same time."""
    server, _ = own
    monkeypatch.setattr(pools, "BUSY_SECONDS", patience := 3.0)
    away = ExitStack()

    def answer(messages, offered):
        gone.append(time.monotonic())
        if len(gone) == 1:
            away.enter_context(server.away(signal.SIGQUIT))
        return [] if offered else thought("It is done.", more=False)

    gone = []
    with open_durability(server.database()) as durability:
        graph = build_react(
            model=ScriptedModel(answer), policy="allow", durability=durability,
            observe="direct",
        )  # fmt: skip
        with away:
            with pytest.raises(DatabaseError, match="then resume the thread"):
                graph.invoke({"messages": [("user", "a")]}, on("t"))
            took = time.monotonic() - gone[-1]
            told = [one for one in caplog.messages if "does not answer" in one]
        assert took < 3 * patience  # six times it without one deadline
        assert graph.invoke(None, on("t"), wait=PATIENCE)["outcome"]
    assert len(told) == 1
    names = [one.name for one in caplog.records if one.levelname == "WARNING"]
    assert "psycopg.pool" not in names
    assert [one for one in caplog.messages if one.startswith("PostgreSQL")] == [
        *told, "PostgreSQL answers again",
    ]  # fmt: skip


def test_a_database_with_other_settings_serves_as_any_other(postgres_url, bouncer_url):
    url, name = postgres_url, bouncer_url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Odd one"')
        for setting in ODD:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {setting}")
    paid = []
    with open_durability(name, connections=2) as durability:
        graph = payer(durability, paid)
        for turn in "abc":
            graph.enqueue(on("t"), turn, id=turn)
        assert ended(durability, graph, "c").outcome["status"] == "complete"
        (thread,) = durability.threads(order="oldest")
        assert thread.age.total_seconds() < PATIENCE
        items = durability.store.search(("loopwright",), limit=9)
        assert {item.value["text"][5:] for item in items} == {f"{turn} {LONG}" for turn in "abc"}
        assert durability.prune(keep="latest").threads == ["t"]
        durability.dismiss("t")
    assert [one for one in inspect_database(name) if one.level != "ok"] == []
    with psycopg.connect(url) as connection:
        places = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'loopwright%'"
        assert connection.execute(places).fetchall() == [("Odd one",)]


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server):
    postgres_server.run("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(DatabaseError, match="keeps texts as LATIN1, which cannot hold every text"):
        open_durability(postgres_server.url("latin"))
    (first, *_) = inspect_database(postgres_server.url("latin"))
    assert first.level == "broken"
    assert "UTF8 is needed" in first.text
