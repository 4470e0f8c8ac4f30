"""The saver behind `sqlite:///`: what it shares with LangGraph's own, compresses, forgets."""

import random
import sqlite3
from contextlib import closing

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.state.errors import DatabaseError
from loopwright.store.sqlite.saver import LeanSqliteSaver
from support.scripts import call, thought
from support.toy_graphs import asker, greeter, hello, on

INNER = ("work:a", "work:a|task:b", "workers:a", "other:a", "")


@pytest.fixture
def connection(tmp_path):
    with closing(sqlite3.connect(tmp_path / "t.db", check_same_thread=False)) as opened:
        yield opened


def test_a_question_saved_by_langgraphs_own_saver_is_answered(connection):
    asker().compile(SqliteSaver(connection)).invoke(hello(), on("t"))
    graph = asker().compile(LeanSqliteSaver(connection))
    result = graph.invoke(Command(resume="yes"), on("t"))
    assert result["log"] == ["greet", "ask:yes", "end"]
    versions = graph.checkpointer.get_tuple(on("t")).checkpoint["channel_versions"]
    assert max(versions.values()) == versions["outcome"], "its numbers go on where the other's end"


def test_scratch_of_the_named_nodes_goes_and_nothing_else(connection):
    saver = LeanSqliteSaver(connection)
    greeter().compile(saver).invoke(hello(), on("t"))
    saved = saver.get_tuple(on("t", checkpoint_ns=""))
    for thread in ("t", "t2"):
        for inner in INNER:
            place = on(thread, checkpoint_ns=inner)
            written = saver.put(place, saved.checkpoint, saved.metadata, {})
            saver.put_writes(written, [("log", ["x"])], "00000000-0000-0000-0000-000000000001")
    saver.forget_scratch("t", ["work"])
    for table in ("checkpoints", "writes"):
        rows = connection.execute(f"SELECT DISTINCT thread_id, checkpoint_ns FROM {table}")
        left = set(rows.fetchall())
        assert {name for thread, name in left if thread == "t"} == {"workers:a", "other:a", ""}
        assert {name for thread, name in left if thread == "t2"} == set(INNER)
    saver.forget_scratch("t", [])
    saver.forget_scratch("nobody", ["work"])
    assert saver.get_tuple(on("t", checkpoint_ns="")) is not None


def types_on_disk(path, table="checkpoints"):
    with closing(sqlite3.connect(path)) as database:
        return {kind for (kind,) in database.execute(f"SELECT type FROM {table}")}


def plainly(path, build, given, thread="t"):
    """Run a graph on LangGraph's own saver."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        return build().compile(SqliteSaver(connection)).invoke(given, on(thread))


def test_a_thread_of_langgraphs_own_saver_is_read_and_goes_on(tmp_path):
    path = tmp_path / "threads.db"
    plainly(path, greeter, hello())
    assert types_on_disk(path) == {"msgpack"}
    with open_durability(f"sqlite:///{path}") as durability:
        graph = greeter().compile(durability.checkpointer)
        assert graph.get_state(on("t")).values["log"] == ["greet", "end"]
        result = graph.invoke(hello(), on("t"))
        assert [m.type for m in result["messages"]] == ["human", "ai"] * 2
        assert graph.get_state(on("t")).values["log"] == ["greet", "end"] * 2
        steps = [s.metadata["step"] for s in graph.get_state_history(on("t"))]
    assert steps == sorted(steps, reverse=True)
    assert len(types_on_disk(path)) > 1, "old rows stay as they are, new ones are compressed"


def full(connection):
    """As many pages as there are, and no more."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


@pytest.mark.req("W-66")
def test_no_write_is_made_whose_record_finds_no_room(tmp_path):
    made = []

    def pay(note: str) -> str:
        """Pay."""
        made.append(note)
        return "paid"

    note = random.Random(1).randbytes(100_000).hex()
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        model = ScriptedModel({
            "thought": [thought("I pay.", more=True, reason="due"), thought("It is paid.")],
            "action": [[call("pay", note=note)]],
            "observation": ["It is paid."],
        })  # fmt: skip
        graph = build_react(model=model, tools=[pay], durability=durability)
        tables = durability.journal.open()
        full(tables._connection)
        with pytest.raises(DatabaseError, match=r"disk is full.*not made unrecorded"):
            graph.invoke(hello(), on("t"))
        assert made == []
        tables._connection.execute("PRAGMA max_page_count = 1000000")
        assert graph.invoke(None, on("t"))["outcome"]["status"] == "complete"
    assert made == [note]


@pytest.mark.req("W-66")
def test_a_full_disk_is_told_in_a_sentence(tmp_path):
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        connection = durability.checkpointer.inner.conn
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        graph = greeter().compile(durability.checkpointer)

        def fill():
            for number in range(100):
                graph.invoke(hello(), on(f"t{number}"))

        with pytest.raises(DatabaseError, match=r"disk is full.*make room"):
            fill()
