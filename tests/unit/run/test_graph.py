"""The doors of a graph: every way to call one, from everywhere, over real savers."""

import asyncio
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START
from langgraph.runtime import RunControl

from loopwright.run.graph import LoopBuilder
from loopwright.state.errors import SyncCallInLoop
from loopwright.store.durability import open_durability
from support.toy_graphs import ToyInput, ToyState, asker, greeter, hello, on


@pytest.fixture
def database(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


@pytest.fixture
def sync_saver(tmp_path):
    connection = sqlite3.connect(tmp_path / "sync.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


@pytest.mark.req("S0-21")
async def test_all_doors_run_the_whole_graph(database):
    graph = greeter().compile(database.checkpointer)
    expected = ["greet", "end"]
    events = [e["event"] async for e in graph.astream_events(hello(), on("events"))]
    results = {
        "ainvoke": (await graph.ainvoke(hello(), on("ainvoke")))["log"],
        "abatch": (await graph.abatch([hello()], on("abatch")))[0]["log"],
        "astream": [next(iter(update)) async for update in graph.astream(hello(), on("astream"))],
        **await asyncio.to_thread(_sync_doors, graph),
    }
    assert results == dict.fromkeys(results, expected)
    assert events[0] == "on_chain_start"
    assert events[-1] == "on_chain_end"


def _sync_doors(graph):
    return {
        "invoke": graph.invoke(hello(), on("invoke"))["log"],
        "batch": graph.batch([hello()], on("batch"))[0]["log"],
        "stream": [next(iter(update)) for update in graph.stream(hello(), on("stream"))],
    }


@pytest.mark.req("S0-36")
def test_a_thread_is_kept_between_loops_threads_and_calls(database):
    graph = greeter().compile(database.checkpointer)
    asyncio.run(graph.ainvoke(hello(), on("t")))
    asyncio.run(graph.ainvoke(hello(), on("t")))
    graph.invoke(hello(), on("t"))
    thread = threading.Thread(target=graph.invoke, args=(hello(), on("t")))
    thread.start()
    thread.join()
    asyncio.run(graph.ainvoke(hello(), on("t")))
    assert len(graph.get_state(on("t")).values["messages"]) == 10


@pytest.mark.parametrize("kind", ["threaded", "sync", "memory"])
async def test_state_doors(kind, database, sync_saver):
    saver = {"threaded": database.checkpointer, "sync": sync_saver, "memory": InMemorySaver()}[kind]
    graph = asker().compile(saver)
    await graph.ainvoke(hello(), on("t"))
    assert graph.get_state(on("t")).next == ("ask",)
    assert (await graph.aget_state(on("t"))).next == ("ask",)
    await graph.aupdate_state(on("t"), {"log": ["noted"]}, as_node="greet")
    graph.update_state(on("t"), {"log": ["again"]}, as_node="greet")
    log = ["greet", "noted", "again"]
    assert graph.get_state(on("t")).values["log"] == log
    assert len([s async for s in graph.aget_state_history(on("t"))]) == 5
    assert len(list(graph.get_state_history(on("t")))) == 5


async def test_a_sync_door_inside_an_async_node_is_refused(database):
    inner = greeter().compile()

    async def call(state):
        return {"log": inner.invoke({"messages": []})["log"]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("call", call)
    builder.add_edge(START, "call")
    with pytest.raises(SyncCallInLoop):
        await asyncio.to_thread(builder.compile().invoke, hello())


class Durabilities(InMemorySaver):
    """Notes in what order steps and saves happen."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    async def aput(self, *args: Any, **options: Any) -> Any:
        await asyncio.sleep(0.02)
        self.order.append("saved")
        return await super().aput(*args, **options)


@pytest.mark.parametrize("asked", [None, "async", "sync"])
async def test_steps_are_saved_before_the_next_one_where_tools_write(asked):
    saver = Durabilities()

    def step(name: str) -> Any:
        async def note(state):
            saver.order.append(name)
            return {"log": [name]}

        return note

    builder: LoopBuilder[Any, Any, Any, Any] = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_sequence([("a", step("a")), ("b", step("b"))])
    builder.add_edge(START, "a")
    builder.writes = lambda: True
    graph = builder.compile(saver)
    await graph.ainvoke(hello(), on("t"), durability=asked)
    assert saver.order[saver.order.index("a") + 1] == "saved"


def slow(log: list[str]) -> LoopBuilder[Any, Any, Any, Any]:
    async def first(state):
        log.append("started")
        try:
            await asyncio.sleep(0.3)
        finally:
            log.append("left")
        return {"log": ["first"]}

    async def second(state):
        return {"log": ["second"]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_sequence([("first", first), ("second", second)])
    builder.add_edge(START, "first")
    builder.add_edge("second", END)
    return builder


def when(condition: Callable[[], Any], act: Callable[[], Any]) -> None:
    def wait():
        while not condition():
            time.sleep(0.005)
        act()

    threading.Thread(target=wait, daemon=True).start()


def test_drain_through_invoke_saves_and_resumes(database):
    log: list[str] = []
    graph, control = slow(log).compile(database.checkpointer), RunControl()
    when(lambda: log, lambda: control.request_drain("sigterm"))
    with pytest.raises(GraphDrained):
        graph.invoke(hello(), on("t"), control=control)
    assert graph.get_state(on("t")).next == ("second",)
    assert graph.invoke(None, on("t"))["log"] == ["first", "second"]


def test_interrupt_from_the_keyboard_stops_the_nodes_and_the_thread_resumes(database):
    log: list[str] = []
    graph = slow(log).compile(database.checkpointer)
    main = threading.main_thread().ident
    assert main is not None
    when(lambda: log, lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(hello(), on("t"))
    assert log == ["started", "left"]
    assert graph.invoke(None, on("t"))["log"] == ["first", "second"]
