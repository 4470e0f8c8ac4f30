"""The scheduler on a graph of its own: order, slots, questions, failures, drains."""

import asyncio
import gc
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl, Runtime
from typing_extensions import TypedDict

from loopwright.run.graph import LoopBuilder
from loopwright.state.context import Context
from loopwright.turn.schedule import run_ready
from support.scope import scope_with

THREAD = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    done: dict[str, Any]


async def nobody(questions, ends):
    """Shows nothing."""


def graph_over(waits, start, slots=4, ended=lambda _: None, asked=nobody):
    async def work(state: State, runtime: Runtime) -> State:
        scope, order = scope_with(Context(max_parallel_tasks=slots)), list(waits)
        done = await run_ready(scope, runtime, order, waits, start, ended, asked)
        return {"done": dict(zip(order, done, strict=True))}

    builder = LoopBuilder(State)
    builder.add_node("work", work)
    builder.add_edge("__start__", "work")
    return builder.compile(InMemorySaver())


def recorder(act=None):
    log: list[str] = []

    async def start(name, results):
        log.append(f"+{name}")
        await asyncio.sleep(0.02)
        value = await act(name, results) if act else name
        log.append(f"-{name}")
        return value

    return log, start


async def test_a_task_starts_as_soon_as_what_it_waits_for_is_done():
    log, start = recorder(
        lambda name, results: asyncio.sleep(0.15 if name == "slow" else 0, results)
    )
    waits = {"a": [], "slow": [], "b": ["a"], "c": ["b"], "z": ["c", "slow"]}
    done = (await graph_over(waits, start).ainvoke({}, THREAD))["done"]
    assert log.index("-c") < log.index("-slow"), "no barrier holds c back"
    assert set(done["z"]) == {"c", "slow"}
    for name, others in waits.items():
        assert all(log.index(f"-{other}") < log.index(f"+{name}") for other in others)


@pytest.mark.req("P-13")
async def test_a_failure_cancels_nobody_and_finished_tasks_do_not_run_again():
    broken = [True]

    async def act(name, results):
        if name == "bad" and broken:
            raise RuntimeError("no luck")
        await asyncio.sleep(0.1)
        return name

    log, start = recorder(act)
    graph = graph_over({"bad": [], "good": [], "after": ["bad"]}, start)
    with pytest.raises(RuntimeError, match="no luck"):
        await graph.ainvoke({}, THREAD)
    assert log.count("-good") == 1
    assert "+after" not in log
    broken.clear()
    done = (await graph.ainvoke(None, THREAD))["done"]
    assert done == {"bad": "bad", "good": "good", "after": "after"}
    assert log.count("+good") == 1


@pytest.mark.req("S0-22", "S0-104")
async def test_a_drain_starts_nothing_new_and_the_resume_goes_on(caplog):
    control = RunControl()

    async def act(name, results):
        if name == "a":
            control.request_drain("stop")
        return name

    log, start = recorder(act)
    graph = graph_over({"a": [], "b": ["a"], "c": ["b"]}, start)
    with pytest.raises(GraphDrained):
        await graph.ainvoke({}, THREAD, control=control)
    assert log == ["+a", "-a"]
    assert (await graph.ainvoke(None, THREAD))["done"] == {"a": "a", "b": "b", "c": "c"}
    assert log.count("+a") == 1
    assert "never retrieved" not in caplog.text


MANY = [f"t{number}" for number in range(60)]


async def test_after_a_failure_all_that_is_recorded_is_heard_of_before_anything_begins():
    heard: list[str] = []
    begun: list[tuple[str, int]] = []

    async def start(name, results):
        begun.append((name, len(heard)))
        if name == "t0" and len(begun) <= len(MANY):
            raise RuntimeError("no luck")
        return name

    graph = graph_over({name: [] for name in MANY}, start, slots=60, ended=heard.append)
    with pytest.raises(RuntimeError, match="no luck"):
        await graph.ainvoke({}, THREAD)
    heard.clear()
    assert list((await graph.ainvoke(None, THREAD))["done"]) == MANY
    assert begun[len(MANY) :] == [("t0", 59)]


@pytest.mark.parametrize("ticks", [*range(0, 40, 6), 1_000], ids=lambda ticks: f"{ticks} ticks")
async def test_a_run_cancelled_as_its_tasks_are_created_or_run_leaves_none_behind(ticks, caplog):
    _, start = recorder(lambda name, results: asyncio.sleep(5))
    graph = graph_over({name: [] for name in MANY}, start)
    run = asyncio.ensure_future(graph.ainvoke({}, THREAD))
    for _ in range(ticks):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.sleep(0.05)
    assert not [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    gc.collect()  # that an exception was not retrieved is told as its task goes
    assert "never retrieved" not in caplog.text
