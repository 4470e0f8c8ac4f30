"""What a turn costs PostgreSQL, counted: rows that are written and times that a client waits."""

import time

import psycopg
import pytest

from loopwright import ScriptedModel, build_plan_execute_verify, build_react, open_durability
from loopwright.store.postgres import saving
from loopwright.store.work.delivery import Delivery
from loopwright.store.work.turns import find_records, open_queue
from support.counting import Counting
from support.looking_up import paying, tools
from support.scripts import call, passed, plan, report, todo
from support.shop import LEASE, OTHER, THREAD, Shop
from support.toy_graphs import on

TURNS = 3
ROWS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
GOAL = {"messages": [("user", "Look Ada up, then pay her.")]}


def planning(durability):
    """Two tasks, one after the other; each saves its own steps."""

    def executor(messages, _):
        pays = any("pay Ada" in message.text for message in messages)
        if any(message.type == "tool" for message in messages):
            return report("Ada was paid." if pays else "Ada is in the book.")
        return [call("pay" if pays else "look", name="Ada")]

    tasks = plan(todo("1", "look Ada up", []), todo("2", "pay Ada", ["1"]))
    found = passed("fine", t1=["1.1.0"], t2=["2.1.0"])
    roles = {"planner": lambda *_: tasks, "executor": executor, "verifier": lambda *_: found}
    return build_plan_execute_verify(
        model=ScriptedModel(roles), tools=tools(), durability=durability
    )


def rows(url, counted=ROWS):
    """How many were ever written, when all connections but this one have said so."""
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(OTHERS, [connection.info.backend_pid]).fetchone()[0]:
            time.sleep(0.05)
        return connection.execute(counted).fetchone()[0]


@pytest.mark.postgres
@pytest.mark.req("W-95")
@pytest.mark.parametrize(("built", "most"), [(paying, (35, 40)), (planning, (66, 50))])
def test_a_turn_of_two_calls_writes_so_many_rows_in_so_many_trips(
    postgres_server, postgres_url, monkeypatch, built, most
):
    monkeypatch.setattr(saving, "_PATIENCE", 10.0)  # this machine may be slow
    open_durability(postgres_url).close()
    before, trips = rows(postgres_url), []
    with Counting(postgres_server.port) as counting:
        url = postgres_url.replace(f":{postgres_server.port}/", f":{counting.port}/")
        with open_durability(url, connections=2) as durability:
            graph = built(durability)
            for _ in range(2 * TURNS):
                trips.append(-counting.trips)
                assert graph.invoke(GOAL, on("t"))["outcome"]["status"] == "complete"
                trips[-1] += counting.trips
    assert (rows(postgres_url) - before) / (2 * TURNS) <= most[0]
    assert min(trips[TURNS:]) <= most[1], trips


BLOCKS = (
    "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit"
    " FROM pg_statio_user_tables WHERE relname = 'procrastinate_jobs'"
)
BACKLOG = (
    "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)"
    " SELECT queue_name, task_name, n::text, n::text, args || jsonb_build_object('thread', n::text)"
    " FROM procrastinate_jobs, generate_series(1, %s) n WHERE lock = 'other'"
)


async def blocks(url, others):
    """How many a worker reads that takes ten turns, beside so many that wait for another graph."""
    with open_durability(url) as durability:
        shop = Shop(durability, policy="ask")
        build_react(model="offline", durability=durability, name="other").enqueue(on("other"), "a")
        shop.graph.enqueue(THREAD, "apples", id="one")
        await shop.work(lambda: shop.state("one") == "asks")
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("SET session_replication_role = replica")  # nobody hears of them
        own.execute("ALTER TABLE procrastinate_jobs SET (autovacuum_enabled = off)")  # it reads
        own.execute(BACKLOG, [others])
        own.execute("UPDATE loopwright_threads SET owner = 'x', until = now()")
        own.execute("VACUUM ANALYZE")
    before = rows(url, BLOCKS)
    with open_durability(url, connections=1) as durability:
        shop, queue = Shop(durability), open_queue(find_records(durability.journal))
        delivery = Delivery(queue, [shop.graph.name], LEASE)
        for number in range(10):
            shop.graph.enqueue(OTHER, "bread", id=f"{number}")
            await delivery.finish(await delivery.fetch())
            assert await delivery.fetch() is None
            await delivery.repair()
    return rows(url, BLOCKS) - before


@pytest.mark.postgres
@pytest.mark.req("W-163")
async def test_to_take_a_turn_reads_nothing_of_what_waits_for_another_graph(postgres_server):
    few, many = [await blocks(postgres_server.database(), n) for n in (1_000, 20_000)]
    assert many <= 2 * few, "the indexes are a level deeper; a scan would be ten times as much"
