"""Steps that pass: whatever a graph inside another one was given before is there afterwards."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given, settings, strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START
from langgraph.types import Command

from loopwright import open_durability
from loopwright.run.graph import LoopBuilder
from loopwright.run.run import saved_values
from loopwright.store.base import langgraph_keys as keys
from loopwright.store.checkpoints.passing import PASSING_KEY, Passing, Step
from support.drawn import drawn, updates
from support.toy_graphs import Everything, on

pytestmark = pytest.mark.postgres

LONG = [{"messages": [AIMessage("x", id=str(n))], "log": [str(n)]} for n in range(55)]


@pytest.fixture(scope="module")
def durability(postgres_server):
    with open_durability(postgres_server.database()) as opened:
        yield opened


def around(steps, passing=("node",)):
    """A graph that runs one of so many steps and a question inside its only node."""
    inner = drawn([*steps])
    inner.passing = passing
    inside = inner.compile(name="inside")

    async def work(state):
        final = await inside.ainvoke({"messages": [HumanMessage("hi", id="h")]})
        return {"log": final["log"], "messages": final["messages"], "plain": final["plain"]}

    builder = LoopBuilder(Everything)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    builder.add_edge("work", END)
    return builder


def told(saver, steps):
    """What is known of the graph inside while it asks, and of the one around it in the end."""
    many = on("t") | {"recursion_limit": 1_000}
    graph = around(steps).compile(saver)
    graph.invoke({"messages": [HumanMessage("hello", id="o")]}, many)
    saver = graph.checkpointer
    places = {one.config["configurable"]["checkpoint_ns"] for one in saver.list(on("t"))}
    (place,) = places - {""}
    where = on("t", checkpoint_ns=place, **{keys.SAVER: saver})["configurable"]
    left = asyncio.run(saved_values(drawn([]).compile(), where))
    asked = saver.get_tuple(on("t", checkpoint_ns=place)).pending_writes
    final = graph.invoke(Command(resume="this"), many)
    return [repr(left), len(asked), repr(final), repr(graph.get_state(on("t")).values)]


def rows(durability, thread):
    with durability.checkpointer.cursor() as cursor:
        sql = "SELECT checkpoint_ns AS place FROM loopwright_checkpoints WHERE thread_id = %s"
        return sum(bool(row["place"]) for row in cursor.execute(sql, [thread]).fetchall())


@settings(max_examples=5, deadline=None)
@example(LONG)
@given(steps=st.lists(updates, min_size=1, max_size=5))
def test_a_graph_inside_is_told_as_where_each_step_is_saved(durability, steps):
    durability.checkpointer.delete_thread("t")
    found = told(durability.checkpointer, steps)
    kept = rows(durability, "t")
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        assert found == told(SqliteSaver(connection), steps)
    if len(steps) == len(LONG):  # that before the question, the last one, and one with values
        assert kept <= 5


def test_only_the_graph_that_was_named_has_steps_that_pass():
    told, step = Passing("work:a", ("read",)), {"channel_values": {}, "channel_versions": {}}
    step["versions_seen"] = {}
    assert told.covers("work:a", step, {"step": 5}), "it has ended"
    assert not told.covers("work:a|inner:b", step, {"step": 5})
    reads = "branch:to:read"
    waits = step | {"channel_values": {reads: None}, "channel_versions": {reads: "2"}}
    assert told.covers("work:a", waits, {"step": 5})
    assert not Passing("work:a", ("write",)).covers("work:a", waits, {"step": 5})
    assert Passing("work:a", ("write",)).covers("work:a", waits, {"step": 0}), "nothing was done"
    assert PASSING_KEY.startswith("__"), "no metadata"


def test_a_step_in_which_a_value_stands_that_others_add_to_does_not_give_way():
    counted = Step("p", {"channel_values": {}}, {"counters_since_delta_snapshot": {"log": [1, 1]}})
    holds = Step("p", {"channel_values": {"log": ["a"]}}, {"step": 3}, passes=True)
    assert not holds.gives_way(counted)
    free = Step("p", {"channel_values": {"plain": 1}}, {"step": 3}, [["t", "a", []]], passes=True)
    assert free.gives_way(counted)
    assert not Step("p", {"channel_values": {}}, {}).gives_way(counted)
    late = Step("q", {}, {}, [["u", "a", []]]).after(free)
    assert (late.parent, late.written) == ("p", [["t", "a", []], ["u", "~~0000000004a", []]])
