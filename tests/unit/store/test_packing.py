"""A row for each node that ended: what is read back is what LangGraph's own saver gives."""

import sqlite3

from hypothesis import given, settings, strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from loopwright.store.sqlite.saver import LeanSqliteSaver
from support.drawn import drawn, told, updates, without_names
from support.toy_graphs import on


def in_memory(kind: type[SqliteSaver]) -> SqliteSaver:
    return kind(sqlite3.connect(":memory:", check_same_thread=False))


@settings(max_examples=8, deadline=None)
@given(steps=st.lists(updates, min_size=1, max_size=5))
def test_a_thread_tells_of_itself_what_langgraphs_saver_would(steps):
    found, meant = told(in_memory(LeanSqliteSaver), steps), told(in_memory(SqliteSaver), steps)
    for mine, theirs in zip(found, meant, strict=True):
        assert without_names(mine) == without_names(theirs)


def test_values_are_found_without_reading_the_checkpoints_between(monkeypatch):
    steps = [{"messages": [AIMessage("x", id=str(number))]} for number in range(250)]
    saver = in_memory(LeanSqliteSaver)
    graph = drawn(steps).compile(saver)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, on("t") | {"recursion_limit": 1000})
    read: list[str] = []
    loads = saver.serde.loads_typed
    monkeypatch.setattr(
        saver.serde, "loads_typed", lambda data: read.append(data[0]) or loads(data)
    )
    assert len(graph.get_state(on("t")).values["messages"]) == 251
    assert len(read) < 60 + 5
