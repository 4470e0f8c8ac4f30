"""Tables of another version are refused in a sentence, by whoever opens them and by the doctor."""

import operator
import sqlite3
from contextlib import closing
from typing import Annotated

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from loopwright import DatabaseError, ThreadNotFound, open_durability
from loopwright.store.health import inspect_database
from loopwright.store.journal.tables import VERSION
from support.toy_graphs import greeter, hello, on

OTHERS = (
    ("DROP TABLE loopwright_schema", r"an earlier loopwright \(version 1, .*cannot read"),
    ("UPDATE loopwright_schema SET version = 2", r"an earlier loopwright \(version 2, "),
    ("UPDATE loopwright_schema SET version = 9", r"a newer loopwright \(version 9, .*update"),
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 't.db'}"


def run(url, sql):
    if url.startswith("postgres"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql)
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute(sql)
        connection.commit()


@pytest.mark.req("W-161")
@pytest.mark.parametrize(("sql", "told"), OTHERS)
def test_tables_of_another_version_are_not_taken_for_empty(url, sql, told):
    with open_durability(url) as kept:
        greeter().compile(kept.checkpointer).invoke(hello(), on("t"))
        kept.journal.grant("t", {"tool": "pay"})
    run(url, sql)
    with pytest.raises(DatabaseError, match=told):
        open_durability(url)
    broken = [one.text for one in inspect_database(url) if one.level == "broken"]
    assert any("earlier" in text or "newer" in text for text in broken), broken
    run(url, "CREATE TABLE IF NOT EXISTS loopwright_schema (version INT NOT NULL)")
    run(url, "DELETE FROM loopwright_schema")
    run(url, f"INSERT INTO loopwright_schema (version) VALUES ({VERSION})")
    with open_durability(url) as kept:
        assert kept.thread_ids() == ["t"], "nothing of it was touched"


@pytest.mark.postgres
@pytest.mark.req("W-161")
def test_tables_in_another_schema_are_not_mixed_with_new_ones(postgres_url):
    with open_durability(postgres_url) as kept:
        greeter().compile(kept.checkpointer).invoke(hello(), on("t"))
    run(postgres_url, "CREATE SCHEMA postgres")  # the user's own: it comes before `public`
    told = r"are in the schema public, and new ones would be made in postgres: name public first"
    with pytest.raises(DatabaseError, match=told):
        open_durability(postgres_url)
    assert "schema" in {one.check for one in inspect_database(postgres_url) if one.level != "ok"}
    with open_durability(f"{postgres_url}?options=-csearch_path%3Dpublic") as kept:
        assert kept.thread_ids() == ["t"]


@pytest.mark.req("W-161")
def test_threads_of_other_programs_in_the_same_tables_are_left_alone(url):
    """Neither listed, nor pruned, nor deleted; what another program saved is there for it."""
    postgres = url.startswith("postgres")
    saver = PostgresSaver if postgres else SqliteSaver
    with open_durability(url) as kept:
        greeter().compile(kept.checkpointer).invoke(hello(), on("mine"))
    with saver.from_conn_string(url if postgres else url.removeprefix("sqlite:///")) as theirs:
        graph = foreign().compile(checkpointer=theirs)
        for _ in range(3):
            graph.invoke({"said": ["x"]}, on("theirs"))
        before = [*graph.get_state_history(on("theirs"))]
        with open_durability(url) as kept:
            assert kept.thread_ids() == ["mine"]
            assert [one.thread_id for one in kept.threads()] == ["mine"]
            kept.prune(keep="latest")
            for act in (kept.dismiss, lambda name: kept.prune(name, keep="latest")):
                with pytest.raises(ThreadNotFound, match="theirs"):
                    act("theirs")
        assert [*graph.get_state_history(on("theirs"))] == before


class Said(TypedDict):
    said: Annotated[list[str], operator.add]


def foreign():
    """A graph of somebody else's."""
    builder = StateGraph(Said)
    builder.add_node("one", lambda _: {"said": ["one"]})
    builder.add_edge(START, "one")
    return builder
