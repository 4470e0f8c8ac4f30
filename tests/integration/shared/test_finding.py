"""What operators ask of many threads in PostgreSQL: one statement, by an index."""

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from loopwright import open_durability
from loopwright.store.locks.thread_locks import lock_thread_blocking
from loopwright.store.postgres.database import build_find_statement, parse_found
from loopwright.store.threads.thread_list import build_query
from support.asking import on

pytestmark = [pytest.mark.postgres, pytest.mark.req("W-93")]

MANY = """
INSERT INTO loopwright_threads (name, token, owner, until, state, status, updated)
SELECT 'thread ' || n, n,
    CASE WHEN n % 100 < 2 THEN 'process 1 on host' END,
    CASE n % 100 WHEN 0 THEN clock_timestamp() + interval '1 minute'
                 WHEN 1 THEN clock_timestamp() - interval '1 minute' END,
    CASE WHEN n % 100 < 2 THEN 'unfinished' WHEN n % 100 = 2 THEN 'asks' ELSE 'ended' END,
    CASE WHEN n % 100 > 3 THEN 'complete' WHEN n % 100 = 3 THEN 'partial' END,
    clock_timestamp() - n * interval '1 second'
FROM generate_series(1, 10000) AS n
"""


@pytest.fixture(scope="module")
def many(postgres_server):
    """A database that knows 10,000 threads: of 100 one each runs, died, asks or ended short."""
    url = postgres_server.database()
    with open_durability(url):
        pass
    with psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute(MANY)
        # A part of a thread, and a lease on one of which nothing is saved.
        connection.execute(
            "INSERT INTO loopwright_threads (name) VALUES (E'thread 3\\npart'), ('new')"
        )
        connection.execute("ANALYZE loopwright_threads")
        yield connection


@pytest.mark.parametrize(
    ("which", "order", "limit", "index", "names"),
    [
        (None, "newest", 3, "by_age", ["thread 1", "thread 2", "thread 3"]),
        (None, "oldest", 2, "by_age", ["thread 10000", "thread 9999"]),
        (
            "unfinished",
            "newest",
            4,
            "by_age|left",
            ["thread 1", "thread 2", "thread 3", "thread 101"],
        ),
        ("unfinished", "newest", None, "left", 300),
        ("waiting", "newest", 2, "left", ["thread 2", "thread 102"]),
        ("waiting", "oldest", None, "left", 100),
        ("expired", "newest", 2, "left", ["thread 1", "thread 101"]),
        ("expired", "largest", None, "left", 100),
    ],
)
def test_each_question_is_answered_by_an_index(many, which, order, limit, index, names):
    sql, values = build_find_statement(build_query(which, order, limit))
    rows = parse_found(many.execute(sql, values).fetchall())
    if isinstance(names, int):
        assert len(rows) == names
    else:
        assert [row.thread_id for row in rows] == names
    plan = "\n".join(row["QUERY PLAN"] for row in many.execute(f"EXPLAIN {sql}", values))
    assert "Seq Scan on loopwright_threads" not in plan
    assert any(f"loopwright_threads_{one}" in plan for one in index.split("|")), plan
    assert {row.held for row in rows} <= ({False} if which else {False, True})
    assert {row.expired for row in rows} <= ({True} if which == "expired" else {False, True})


def test_who_waits_for_a_human_is_found_without_reading_what_has_ended(postgres_url, monkeypatch):
    asked = {"type": "take_over", "action_request": {"args": {"id": "h", "why": "angry"}}}
    builder = StateGraph(dict)
    builder.add_node("ask", lambda _: interrupt(asked))
    builder.add_edge(START, "ask")
    with open_durability(postgres_url) as kept:
        graph = builder.compile(kept.checkpointer)
        for name in ("customer", "done", "done too"):
            graph.invoke({"messages": []}, on(name))
        for name in ("done", "done too"):
            graph.invoke(Command(resume={"owner": "bot"}), on(name))
        read, whole = [], kept.checkpointer.get_tuple
        saver = type(kept.checkpointer)
        monkeypatch.setattr(
            saver,
            "get_tuple",
            lambda _, at: read.append(at["configurable"]["thread_id"]) or whole(at),
        )
        with lock_thread_blocking(lambda: kept.locks, "customer"):  # the customer is just writing
            (found,) = kept.handed_over()
        assert (found.thread_id, found.why, {*read}) == ("customer", "angry", {"customer"})
