"""One argument sizes the pool and its threads: nobody waits for a connection, none lies idle."""

import asyncio

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from loopwright import open_durability
from support.patience import PATIENCE
from support.toy_graphs import on

BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.mark.postgres
async def test_as_many_threads_wait_for_the_database_as_it_has_connections(postgres_url):
    with (
        open_durability(postgres_url, connections=5) as kept,
        psycopg.connect(postgres_url, autocommit=True) as seen,
    ):
        await kept.store.aput(("a",), "k", {"v": 1})
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE store IN ACCESS EXCLUSIVE MODE")
            reads = [asyncio.create_task(kept.store.aget(("a",), "k")) for _ in range(20)]
            for _ in range(int(PATIENCE / 0.05)):
                await asyncio.sleep(0.05)
                if blocked(seen) == 3:
                    break
            # What saves has a connection of its own.
            place = on("t", checkpoint_ns="")
            await kept.checkpointer.aput(place, empty_checkpoint(), {"step": 0}, {})
            assert blocked(seen) == 3
            assert kept._database._pool.get_stats()["requests_waiting"] == 0
        assert [item.value for item in await asyncio.gather(*reads)] == [{"v": 1}] * 20


def blocked(connection):
    return connection.execute(BLOCKED).fetchone()[0]
