"""Threads in PostgreSQL: what is read back is what LangGraph's own savers give, in fewer rows."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite import SqliteSaver

from loopwright import open_durability
from loopwright.store.postgres import saving
from support.drawn import drawn, told, updates, without_names
from support.toy_graphs import greeter, hello, on

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def durability(postgres_server):
    with open_durability(postgres_server.database()) as opened:
        yield opened


@pytest.fixture(scope="module")
def bounced(postgres_server, bouncer_port):
    url = postgres_server.database().replace(f":{postgres_server.port}/", f":{bouncer_port}/")
    with open_durability(url) as opened:
        yield opened


def rows(durability, sql, *values):
    with durability.checkpointer._cursor() as cursor:
        return [tuple(row.values()) for row in cursor.execute(sql, values).fetchall()]


@pytest.mark.parametrize("where", ["durability", "bounced"])
@pytest.mark.parametrize("joined", [True, False])
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(updates, min_size=1, max_size=5))
def test_a_thread_tells_of_itself_what_langgraphs_saver_would(
    request, where, joined, steps, monkeypatch
):
    """Also where what a task wrote is saved before its checkpoint comes."""
    monkeypatch.setattr(saving, "_PATIENCE", 10.0 if joined else 0.0)
    saver = request.getfixturevalue(where).checkpointer
    saver.delete_thread("t")
    found = told(saver, steps)
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        meant = told(SqliteSaver(connection), steps)
    for mine, theirs in zip(found, meant, strict=True):
        assert without_names(mine) == without_names(theirs)


def test_values_are_found_without_reading_the_checkpoints_between(durability, monkeypatch):
    steps = [{"messages": [AIMessage("x", id=str(number))]} for number in range(250)]
    saver = durability.checkpointer
    graph = drawn(steps).compile(saver)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, on("long") | {"recursion_limit": 1000})
    read = []
    loads = saver.serde.loads_typed
    monkeypatch.setattr(
        saver.inner.serde, "loads_typed", lambda data: read.append(data[0]) or loads(data)
    )
    assert len(graph.get_state(on("long")).values["messages"]) == 251
    assert len(read) < 70


def test_what_fails_in_the_middle_is_not_saved_at_all(durability):
    saver = durability.checkpointer
    greeter().compile(saver).invoke(hello(), on("half"))
    saved = saver.get_tuple(on("half", checkpoint_ns=""))
    with pytest.raises(TypeError):
        saver.put_writes(
            saved.config, [("a", 1), (ERROR, "e"), ("b", lambda: None)], "task", "path"
        )
    assert saver.get_tuple(saved.config) == saved


def test_a_list_has_its_filters(durability):
    saver = durability.checkpointer
    graph = greeter().compile(saver)
    for thread in ("l1", "l2"):
        graph.invoke(hello(), on(thread) | {"metadata": {"who": thread, "deep": True}})
    whole = [*saver.list(on("l1", checkpoint_ns=""))]
    ids = [one.config["configurable"]["checkpoint_id"] for one in whole]
    assert ids == sorted(ids, reverse=True)
    assert [one.parent_config["configurable"]["checkpoint_id"] for one in whole[:-1]] == ids[1:]
    assert [*saver.list(on("l1"), limit=2)] == whole[:2]
    assert [*saver.list(on("l1"), before=whole[1].config)] == whole[2:]
    assert [*saver.list(whole[2].config)] == [whole[2]]
    assert [*saver.list(on("l1"), filter={"who": "l2"})] == []
    by_meta = [*saver.list(None, filter={"who": "l2", "deep": True})]
    assert {one.config["configurable"]["thread_id"] for one in by_meta} == {"l2"}
    assert [*saver.list(on("l1"), filter={"source": "input"})] == whole[-1:]
    assert all(saver.get_tuple(one.config) == one for one in whole)


def test_a_cut_connection_costs_a_save_nothing(durability, postgres_server):
    graph = greeter().compile(durability.checkpointer)
    for number in range(5):
        postgres_server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        graph.invoke(hello(), on(f"cut{number}"))
        assert graph.get_state(on(f"cut{number}")).values["log"] == ["greet", "end"]


@pytest.mark.parametrize("direct", [True, False])
def test_statements_are_prepared_where_the_connection_allows_it(postgres_url, bouncer_url, direct):
    with open_durability(postgres_url if direct else bouncer_url, connections=1) as durability:
        graph = greeter().compile(durability.checkpointer)
        for turn in range(3):
            graph.invoke(hello(), on(f"p{turn}"))
        sql = "SELECT count(*) > 0 FROM pg_prepared_statements WHERE statement LIKE %s"
        assert rows(durability, sql, "INSERT%") == [(direct,)]


@pytest.mark.parametrize("held", [True, False])
async def test_what_was_written_beside_a_question_is_there_when_the_run_has_ended(
    durability, held, monkeypatch
):
    """Also before it would have been saved by itself."""
    monkeypatch.setattr(saving, "_PATIENCE", 10.0)
    saver, place = durability.checkpointer, on(f"beside {held}", checkpoint_ns="")
    let_go = durability.locks.take(place["configurable"]["thread_id"]) if held else None
    saved = await saver.aput(place, empty_checkpoint(), {}, {})
    await saver.aput_writes(saved, [("log", ["x"])], "00000000-0000-0000-0000-000000000001")
    if held:
        await asyncio.to_thread(let_go)
        found = "SELECT FROM checkpoint_writes WHERE thread_id = %s"
        assert len(rows(durability, found, "beside True")) == 1
    else:
        assert len((await saver.aget_tuple(saved)).pending_writes) == 1
