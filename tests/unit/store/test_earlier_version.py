"""Threads that the version before kept in LangGraph's tables: `earlier_version.sql.gz` has three.

That version ran `build_react(observe="direct")` on them with the tools of `support.looking_up`:
one ended, one died in a payment, one ended and is held by a worker of that version in a test.
"""

import gzip
from pathlib import Path

import psycopg
import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.state.errors import DatabaseError, ThreadBusy, ThreadIncompatible
from loopwright.store.postgres.earlier import _number
from support.looking_up import paying
from support.scripts import thought
from support.toy_graphs import on

pytestmark = pytest.mark.postgres

DUMP = Path(__file__).parents[2] / "fixtures" / "earlier_version.sql.gz"


def go(number):
    return {"messages": [("user", f"Go and pay Ada, {number}.")]}


@pytest.fixture
def earlier(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(gzip.decompress(DUMP.read_bytes()))
    return postgres_url


def standing(durability):
    return {one.thread_id: (one.status, one.unfinished) for one in durability.threads()}


def test_threads_of_the_version_before_are_listed_and_refused(earlier):
    with open_durability(earlier) as durability:
        graph = paying(durability, "Go")
        known = {"ended": ("complete", False), "held": ("complete", False), "died": (None, True)}
        assert standing(durability) == known
        for given, name in ((go(2), "ended"), (None, "died")):
            with pytest.raises(ThreadIncompatible, match=rf"{name}.*earlier version \(schema 2\)"):
                graph.invoke(given, on(name))
        steps = [one.metadata["step"] for one in graph.get_state_history(on("ended"))]
        assert steps == [*range(len(steps) - 2, -2, -1)], "all of its turn"
        assert standing(durability) == known
        durability.dismiss("ended")
    with open_durability(earlier) as durability:
        assert standing(durability).keys() == {"held", "died"}


def test_what_a_worker_of_the_version_before_runs_is_left_to_it(earlier):
    with open_durability(earlier) as durability, psycopg.connect(earlier) as old:
        old.execute("SELECT pg_advisory_lock(%s)", [_number("held")])
        with pytest.raises(ThreadBusy, match=r"worker of an earlier version.*'held'.*update that"):
            paying(durability, "Go").invoke(go(2), on("held"))
        assert standing(durability).keys() == {"ended", "died"}
        old.execute("SELECT pg_advisory_unlock(%s)", [_number("held")])
        with pytest.raises(ThreadIncompatible, match="'held' was saved by an earlier version"):
            paying(durability, "Go").invoke(go(2), on("held"))


def test_the_version_before_writes_nothing_onto_what_was_taken_over(earlier):
    with open_durability(earlier) as durability, PostgresSaver.from_conn_string(earlier) as old:
        paying(durability, "Go").get_state(on("ended"))
        saved = old.get_tuple(on("ended"))
        with pytest.raises(psycopg.Error, match=r"goes on in a newer version.*update this"):
            old.put(on("ended", checkpoint_ns=""), saved.checkpoint, saved.metadata, {})
        old.put(on("new", checkpoint_ns=""), saved.checkpoint, saved.metadata, {})
        assert old.get_tuple(on("new")) is not None, "of its own threads it keeps what it likes"


async def test_threads_of_another_program_and_of_a_server_are_left_alone(earlier):
    theirs = create_agent(ScriptedModel(lambda messages, _: f"said {len(messages)}"), [])
    say, agent = {"messages": [("user", "Hello")]}, on("agent")
    served = on("served", assistant_id="a", graph_id="react")
    async with AsyncPostgresSaver.from_conn_string(earlier) as saver:
        theirs.checkpointer = saver
        await theirs.ainvoke(say, agent)
        theirs_too = build_react(model=ScriptedModel(lambda *_: thought("Hi.")), checkpointer=saver)
        await theirs_too.ainvoke(say, served)
        with open_durability(earlier) as durability:
            known = {"ended", "died", "held"}
            assert {one.thread_id for one in durability.threads()} == known
            mine = build_react(
                model=ScriptedModel(lambda *_: thought("Mine.")), durability=durability
            )
            for name in ("agent", "served"):
                assert durability.checkpointer.get_tuple(on(name, checkpoint_ns="")) is None
                mine.invoke(say, on(name))
                assert len(mine.get_state(on(name)).values["messages"]) == 2, "a thread of its own"
            assert len((await theirs.ainvoke(say, agent))["messages"]) == 4
            await theirs_too.ainvoke(say, served)
            for name in ("agent", "served"):
                durability.dismiss(name)
            assert {one.thread_id for one in durability.threads()} == known
        assert len((await theirs.aget_state(agent)).values["messages"]) == 4
        assert len((await theirs_too.aget_state(served)).values["messages"]) == 4


def test_tables_of_a_newer_version_are_refused(postgres_url):
    open_durability(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE loopwright_schema SET version = version + 1")
    with pytest.raises(DatabaseError, match=r"newer loopwright.*update the package here"):
        open_durability(postgres_url)


def test_a_worker_of_version_1_takes_no_thread_any_more(postgres_url):
    open_durability(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE loopwright_schema SET version = 1")
        with open_durability(postgres_url) as durability:
            paying(durability, "Go").invoke(go(1), on("new"))
        with pytest.raises(psycopg.Error, match=r"newer version of loopwright .* update this one"):
            connection.execute("SELECT * FROM loopwright_take('new', 'me', 7, 30, NULL)")
