"""Keys of `configurable` that only LangGraph sets: whoever else sends them is refused."""

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph._internal import _constants
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from loopwright import ThreadBusy, open_durability
from loopwright.run.run import HELD_KEY
from loopwright.state.context import SESSION_KEY
from loopwright.state.errors import SettingsError
from loopwright.store.journal.port import FENCE_KEY
from loopwright.store.locks.thread_locks import LockEntry
from support.toy_graphs import ToyInput, ToyState, asker, greeter, hello, on

SENTENCE = "only LangGraph sets, for a graph that it runs as a node"
INTERNAL = sorted(
    value
    for name, value in vars(_constants).items()
    if name.startswith("CONFIG_KEY_") and value.startswith("__pregel")
)
TASK = "__pregel_task_id"
LIVE = {
    TASK: "x",
    "checkpoint_ns": "work:1",
    "__pregel_read": lambda *_: {},
    "__pregel_send": lambda *_: None,
    "__pregel_checkpointer": InMemorySaver(),
    "__pregel_runtime": Runtime(),
}
FORGED: list[dict[str, Any]] = [
    *({key: "x"} for key in INTERNAL[::2]),
    *({key: {}} for key in INTERNAL[1::2]),
    *({TASK: "x", key: "t"} for key in (HELD_KEY, FENCE_KEY, SESSION_KEY)),
    {HELD_KEY: LockEntry(("here", "t"))},
    {FENCE_KEY: ["t", 1]},
    {"__loopwright_anything": 1},
    {"__pregel_of_a_later_version": 1},
    {"checkpoint_ns": "work:1"},
    {"checkpoint_map": {"": "1ef4f797-8335-6428-8001-8a1503f9b875"}},
    {TASK: "x", "checkpoint_ns": "work:1", "checkpoint_id": "1ef4f797"},
    {"__pregel_checkpointer": InMemorySaver()},
    LIVE,
    {**LIVE, HELD_KEY: "t"},
]


def names(forged):
    return "+".join(forged) + type(next(iter(forged.values()))).__name__


@pytest.fixture(params=["embedded", "served", "under a server"])
def caller(request):
    builder = asker()
    builder.served = request.param == "served"
    more = {"graph_id": "g", "assistant_id": "a"} if request.param == "under a server" else {}
    return builder.compile(InMemorySaver()), more


@pytest.mark.req("W-47")
@pytest.mark.parametrize("forged", FORGED, ids=names)
async def test_keys_from_outside_are_refused_and_nothing_runs(caller, forged):
    graph, more = caller
    forged = on("t", **forged, **more)
    await graph.ainvoke(hello(), on("t", **more))
    before = await graph.aget_state(on("t", **more))
    for given in (hello(), None, Command(resume="yes")):
        with pytest.raises(SettingsError, match=SENTENCE):
            await graph.ainvoke(given, forged)
        with pytest.raises(SettingsError, match=SENTENCE):
            await graph.with_config(forged).ainvoke(given)
    # A program around may hand it on, such as one that prepares the input.
    with pytest.raises(SettingsError, match=SENTENCE):
        await (RunnableLambda(lambda given: given) | graph).ainvoke(hello(), forged)
    assert await graph.aget_state(on("t", **more)) == before


@pytest.mark.req("W-47")
@pytest.mark.parametrize("key", INTERNAL[::6])
async def test_a_state_is_neither_read_nor_written_by_them(caller, key):
    graph, more = caller
    forged = on("t", **{key: "x"}, **more)
    await graph.ainvoke(hello(), on("t", **more))
    with pytest.raises(SettingsError, match=SENTENCE):
        await graph.aget_state(forged)
    with pytest.raises(SettingsError, match=SENTENCE):
        [state async for state in graph.aget_state_history(forged)]
    with pytest.raises(SettingsError, match=SENTENCE):
        await graph.aupdate_state(forged, None, as_node="__end__")


@pytest.mark.req("W-47")
@pytest.mark.parametrize("forged", FORGED, ids=names)
def test_a_held_thread_stays_with_its_run(tmp_path, forged):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph, other = (greeter().compile(kept.checkpointer) for _ in range(2))
        for _ in graph.stream(hello(), on("t")):
            with pytest.raises((SettingsError, ThreadBusy)):
                other.invoke(hello(), on("t", **forged))
        assert graph.get_state(on("t")).values["log"] == ["greet", "end"]


def parent(node, saver=None):
    builder = StateGraph(ToyState, input_schema=ToyInput)
    builder.add_node("inner", node)
    builder.add_edge(START, "inner")
    return builder.compile(saver or InMemorySaver())


@pytest.mark.req("W-47")
def test_langgraph_itself_runs_the_graph_as_a_node_and_reads_its_state():
    for node in (asker().compile(), asker().compile(checkpointer=True)):
        outer = parent(node)
        outer.invoke(hello(), on("t"))
        (task,) = outer.get_state(on("t"), subgraphs=True).tasks
        assert task.state.values["log"] == ["greet"]
        assert outer.get_state(task.state.config).values["log"] == ["greet"]
        assert outer.invoke(Command(resume="yes"), on("t"))["outcome"] == {"status": "complete"}


@pytest.mark.req("W-47")
@pytest.mark.parametrize("hands_on", ["config", "nothing", "another thread", "its keys"])
async def test_a_node_may_call_the_graph(hands_on):
    graph = greeter().compile(InMemorySaver())

    async def node(state: ToyState, config: RunnableConfig) -> dict[str, Any]:
        given = {
            "config": config,
            "nothing": None,
            "another thread": on("other"),
            "its keys": on("other", **{**config["configurable"], "thread_id": "t"})
            if hands_on == "its keys"
            else None,
        }[hands_on]
        result = await graph.ainvoke({"messages": state.messages}, given)
        same = await asyncio.to_thread(graph.invoke, {"messages": state.messages}, given)
        return {"log": [*result["log"], *same["log"][-2:]]}

    result = await parent(node).ainvoke(hello(), on("t"))
    assert result["log"][-2:] == ["greet", "end"]


@pytest.mark.req("W-47")
def test_keys_of_ours_do_not_come_through_somebody_elses_graph(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        outer = parent(greeter().compile(), kept.checkpointer)
        for forged in ({HELD_KEY: "t"}, {FENCE_KEY: ["t", 1]}, {SESSION_KEY: {}}):
            with pytest.raises(SettingsError, match=SENTENCE):
                outer.invoke(hello(), on("t", **forged))


@pytest.mark.req("W-47")
async def test_a_config_kept_from_a_run_is_of_no_use_after_it():
    kept: list[RunnableConfig] = []
    graph = greeter().compile(InMemorySaver())

    async def node(state: ToyState, config: RunnableConfig) -> dict[str, Any]:
        kept.append(config)
        return {}

    await parent(node).ainvoke(hello(), on("t"))
    with pytest.raises(SettingsError, match=SENTENCE):
        await graph.ainvoke(hello(), kept[0])
