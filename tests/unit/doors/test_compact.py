"""Compressed checkpoints: what is read back, what is smaller, and who can read what."""

import sqlite3
from contextlib import closing

from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from loopwright import open_durability
from loopwright.doors.compact import Deflate, compact_serializer
from support.toy_graphs import greeter, hello, on


def types_on_disk(path, table="checkpoints"):
    with closing(sqlite3.connect(path)) as database:
        return {kind for (kind,) in database.execute(f"SELECT type FROM {table}")}


def plainly(path, build, given, thread="t"):
    """Run a graph on LangGraph's own saver."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        return build().compile(SqliteSaver(connection)).invoke(given, on(thread))


@given(st.binary(max_size=2_000))
def test_bytes_come_back(data):
    assert Deflate().decrypt(*Deflate().encrypt(data)) == data


def test_values_come_back_and_what_repeats_is_smaller():
    serializer = compact_serializer()
    value = {"messages": [HumanMessage("hello " * 500, id="1"), AIMessage("hi", id="2")]}
    kind, stored = serializer.dumps_typed(value)
    assert kind.endswith("+zlib")
    assert len(stored) < 600
    assert serializer.loads_typed((kind, stored)) == value


def test_tiny_values_are_not_made_longer():
    assert Deflate().encrypt(b"x" * 127) == ("plain", b"x" * 127)


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
