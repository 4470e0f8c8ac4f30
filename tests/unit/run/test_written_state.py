"""A thread's state is written, and forked, as a run would be: nobody else has the thread then."""

import asyncio
from typing import Any

import psycopg
import pytest
from langgraph.graph import START, StateGraph

from loopwright import LeaseLost, ThreadBusy, open_durability
from loopwright.run.graph import LoopBuilder
from support.patience import PATIENCE
from support.toy_graphs import ToyInput, ToyState, asker, greeter, hello, on

BUSY = "Another run holds the thread 't'"


@pytest.fixture
def savers(url):
    """Of two who open one database."""
    with open_durability(url) as one, open_durability(url) as other:
        yield one.checkpointer, other.checkpointer


class Gate:
    """An edge behind which nothing goes on until it is opened; a write meets it as well."""

    def __init__(self):
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def pass_on(self, _state: ToyState) -> str:
        self.reached.set()
        await asyncio.wait_for(self.opened.wait(), PATIENCE)
        return "end"

    def behind(self, builder, node):
        builder.edges.discard((node, "end"))
        builder.add_conditional_edges(node, self.pass_on, ["end"])
        return builder

    def graph(self, saver):
        return self.behind(greeter(), "greet").compile(saver)


async def log_of(graph):
    return (await graph.aget_state(on("t"))).values["log"]


async def test_whoever_writes_beside_a_run_is_refused(savers):
    gate = Gate()
    graph, other = gate.graph(savers[0]), greeter().compile(savers[1])
    running = asyncio.create_task(graph.ainvoke(hello(), on("t")))
    await asyncio.wait_for(gate.reached.wait(), PATIENCE)
    forked = on("t", checkpoint_id="1ef4f797-8335-6428-8001-8a1503f9b875")
    for one, where in ((graph, on("t")), (other, on("t")), (other, forked)):
        with pytest.raises(ThreadBusy, match=BUSY):
            await one.aupdate_state(where, {"log": ["by hand"]}, as_node="greet")
        with pytest.raises(ThreadBusy, match=BUSY):
            await asyncio.to_thread(one.update_state, where, {"log": ["by hand"]}, "greet")
    gate.opened.set()
    assert (await running)["log"] == ["greet", "end"]
    config = await other.aupdate_state(on("t"), {"log": ["by hand"]}, as_node="greet")
    assert {*config["configurable"]} == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert await log_of(graph) == ["greet", "end", "by hand"]
    *_, first = [state async for state in other.aget_state_history(on("t"))]
    fork = other.update_state, first.config, {"log": ["fork"]}, "greet"
    config = await asyncio.to_thread(*fork)
    assert (await graph.ainvoke(None, config))["log"] == ["fork", "end"]


async def test_one_who_is_thought_dead_writes_nothing(url, savers):
    if url.startswith("sqlite"):
        return  # its lock is the operating system's
    gate = Gate()
    graph, other = gate.graph(savers[0]), greeter().compile(savers[1])
    writing = asyncio.create_task(graph.aupdate_state(on("t"), {"log": ["x"]}, as_node="greet"))
    await asyncio.wait_for(gate.reached.wait(), PATIENCE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE loopwright_threads SET until = now() - interval '1 s'")
    assert (await other.ainvoke(hello(), on("t")))["log"] == ["greet", "end"]
    gate.opened.set()
    with pytest.raises(LeaseLost):
        await writing
    assert await log_of(other) == ["greet", "end"]


def around(builder, inner, saver):
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    return builder.compile(saver)


@pytest.mark.odd_types  # the state of a toy graph
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "langgraph's"])
async def test_the_state_of_a_graph_inside_is_written_through_the_one_around(savers, ours):
    builder: Any = LoopBuilder(ToyState, input_schema=ToyInput) if ours else StateGraph(ToyState)
    graph = around(builder, asker().compile(), savers[0])
    await graph.ainvoke(hello(), on("t"))

    async def inside():
        return (await graph.aget_state(on("t"), subgraphs=True)).tasks[0].state

    state = await inside()
    config = await graph.aupdate_state(state.config, {"log": ["by hand"]}, as_node="greet")
    assert "__loopwright_held" not in config["configurable"]
    assert (await inside()).values["log"] == ["greet", "by hand"]


async def test_a_node_that_writes_into_its_own_thread_is_refused(savers):
    builder, graphs = LoopBuilder(ToyState, input_schema=ToyInput), []

    async def note(_state: ToyState) -> dict[str, Any]:
        with pytest.raises(ThreadBusy, match=BUSY):
            await graphs[0].aupdate_state(on("t"), {"log": ["as another"]}, as_node="note")
        return {"log": ["noted"]}

    builder.add_node("note", note)
    builder.add_edge(START, "note")
    graphs.append(builder.compile(savers[0]))
    assert (await graphs[0].ainvoke(hello(), on("t")))["log"] == ["noted"]
