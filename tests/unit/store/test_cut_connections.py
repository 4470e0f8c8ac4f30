"""A connection to PostgreSQL that is cut costs nobody anything, wherever it was."""

from contextlib import contextmanager

import psycopg
import pytest

from loopwright.store.durability import open_durability
from loopwright.store.journal import intents
from loopwright.store.journal.port import Intent
from loopwright.store.postgres import pool
from support.postgres import CUT

pytestmark = pytest.mark.postgres

CALL = Intent(name="c", tool="pay", turn="u", call="1", task="1", arguments={}, content="", key="c")


@pytest.fixture
def cut(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as other:
        yield lambda: other.execute(CUT)


def test_the_store_is_read_and_written_right_after_all_connections_were_cut(postgres_url, cut):
    with open_durability(postgres_url) as kept:
        for number in range(3):
            cut()
            kept.store.put(("a",), "k", {"v": number})
            cut()
            assert kept.store.get(("a",), "k").value == {"v": number}


@pytest.mark.parametrize("when", ["in the block", "behind its end"])
def test_a_block_of_the_journal_is_done_once(when, postgres_url, cut, monkeypatch):
    """In the block nothing counts yet, and it is done again; behind it the server is asked."""
    together, done = pool.send_together, []

    @contextmanager
    def lost(connection, **options):
        with together(connection, **options) as pipeline:
            yield pipeline
        if when == "behind its end" and done == ["work"]:
            done.append("lost")
            connection.close()
            raise psycopg.OperationalError("the connection is lost")

    with open_durability(postgres_url) as kept:
        kept.journal.rows("t")
        monkeypatch.setattr(pool, "send_together", lost)

        def work(rows):
            if done.append("work") or (when == "in the block" and len(done) == 1):
                cut()
            return intents.begin(rows, CALL)

        assert kept.journal.transact("t", work, names=["c"]).say == "send", "no doubt arises"
        assert done == (["work", "lost"] if when == "behind its end" else ["work", "work"])
        assert [row.name for row in kept.journal.rows("t")] == ["c"]
