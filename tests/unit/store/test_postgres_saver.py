"""Threads in PostgreSQL: what is read back is what LangGraph's own savers give, in fewer rows."""

import asyncio
import sqlite3
from contextlib import closing

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START

from loopwright import open_durability
from loopwright.run.graph import LoopBuilder
from loopwright.store.postgres import group_commit
from support.drawn import drawn, told, updates, without_names
from support.toy_graphs import ToyState, asker, greeter, hello, on

pytestmark = pytest.mark.postgres

INNER = ("work:a", "work:a|task:b", "workers:a", "other:a", "")


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
    with durability.checkpointer.cursor() as cursor:
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
    monkeypatch.setattr(group_commit, "_PATIENCE", 10.0 if joined else 0.0)
    saver = request.getfixturevalue(where).checkpointer
    saver.delete_thread("t")
    found = told(saver, steps)
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        meant = told(SqliteSaver(connection), steps)
    for mine, theirs in zip(found, meant, strict=True):
        assert without_names(mine) == without_names(theirs)


def test_a_superstep_is_two_rows(durability, monkeypatch):
    monkeypatch.setattr(group_commit, "_PATIENCE", 10.0)  # this machine may be slow
    steps = [{"messages": [AIMessage("x", id=str(n))], "plain": "p"} for n in range(10)]
    graph = drawn(steps).compile(durability.checkpointer)
    graph.invoke({"messages": [HumanMessage("hi", id="h")]}, on("rows"))
    for table in ("checkpoints", "checkpoint_writes"):
        sql = f"SELECT count(*) FROM {table} WHERE thread_id = 'rows'"
        assert rows(durability, sql) == [(12,)]


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


def test_scratch_of_the_named_nodes_goes_and_nothing_else(durability):
    saver = durability.checkpointer
    greeter().compile(saver).invoke(hello(), on("s"))
    saved = saver.get_tuple(on("s", checkpoint_ns=""))
    for thread in ("s", "s2"):
        for inner in INNER:
            place = on(thread, checkpoint_ns=inner)
            written = saver.put(place, saved.checkpoint, saved.metadata, {})
            saver.put_writes(written, [("log", ["x"])], "00000000-0000-0000-0000-000000000001")
    saver.forget_scratch("s", ["work"])
    saver.flush_thread("s2")
    for table in ("checkpoints", "checkpoint_writes"):
        left = set(rows(durability, f"SELECT DISTINCT thread_id, checkpoint_ns FROM {table}"))
        assert {name for thread, name in left if thread == "s"} == {"workers:a", "other:a", ""}
        assert {name for thread, name in left if thread == "s2"} == set(INNER)
    saver.forget_scratch("s", [])
    saver.forget_scratch("nobody", ["work"])
    assert saver.get_tuple(on("s", checkpoint_ns="")) is not None


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


def test_texts_that_postgres_cannot_hold_are_no_end(durability):
    thread = on("no\x00thread\ud800") | {"metadata": {"who": "a\x00b\ud800"}}
    graph = greeter().compile(durability.checkpointer)
    given = {"messages": [HumanMessage("zero \x00 and \ud83d\ude00")]}
    with closing(graph.stream(given, thread)) as chunks:
        next(chunks)
        assert durability.locks.find_fence("no\ufffdthread\ufffd"), "what is saved shows the lease"
        assert [*chunks]
    assert graph.get_state(thread).values["log"] == ["greet", "end"]
    durability.checkpointer.delete_thread("no\x00thread\ud800")
    assert graph.get_state(thread).values == {}
    durability.checkpointer.delete_thread(7)  # as LangGraph's savers have it


async def test_many_runs_are_saved_together_and_apart(durability):
    graph = greeter().compile(durability.checkpointer)
    await asyncio.gather(*(graph.ainvoke(hello(), on(f"m{n}")) for n in range(40)))
    states = await asyncio.gather(*(graph.aget_state(on(f"m{n}")) for n in range(40)))
    assert all(state.values["log"] == ["greet", "end"] for state in states)
    assert rows(
        durability, "SELECT count(*) FROM loopwright_threads WHERE name LIKE 'm_%%' AND state = %s",
        "ended",
    ) == [(40,)]  # fmt: skip


def test_the_row_of_a_thread_says_where_it_stands(durability):
    graph = asker().compile(durability.checkpointer)
    graph.invoke(hello(), on("r"))
    about = "updated > now() - interval '1 minute' AND until IS NULL AS told"
    sql = f"SELECT state, {about} FROM loopwright_threads WHERE name = 'r'"
    assert rows(durability, sql) == [("asks", True)]
    assert "r" in durability.thread_ids()
    durability.dismiss("r")
    assert "r" not in durability.thread_ids()
    assert rows(durability, sql) == []


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
    monkeypatch.setattr(group_commit, "_PATIENCE", 10.0)
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


def test_a_graph_inside_that_has_no_task_of_its_own_remembers_its_steps(durability):
    """Compiled with `checkpointer=True` it goes on, turn by turn, where it was."""
    inner = greeter().compile(True)
    builder, seen = LoopBuilder(ToyState), list[int]()

    async def work(state):
        seen.append(len((await inner.ainvoke(hello()))["log"]))
        return {"log": ["work"]}

    for name in ("one", "two"):
        builder.add_node(name, work)
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    graph = builder.compile(durability.checkpointer)
    for _ in range(3):
        graph.invoke(hello(), on("remembers"))
    assert seen == [2, 2, 4, 4, 6, 6]


def test_what_was_saved_is_there_for_others(durability):
    greeter().compile(durability.checkpointer).invoke(hello(), on("o"))
    with psycopg.connect(_url(durability)) as connection:
        found = connection.execute("SELECT state, status FROM loopwright_threads WHERE name = 'o'")
        assert found.fetchone() == ("ended", "complete")


def _url(durability):
    return durability.url
