"""Hooks are run in time, side by side or in order, and their failures are told and weighed."""

import asyncio
import threading

import pytest
from langgraph.errors import GraphInterrupt

from loopwright import Hook
from loopwright.hooks.registry import Hooks
from support.patience import PATIENCE


def before_tool(run, **options):
    return Hook(event="BeforeTool", run=run, **options)


async def fired(*hooks, event="BeforeTool", **fields):
    events = []
    given = {"tool_name": "pay", "tool_input": {"n": 1}} | fields
    verdict = await Hooks(hooks).fire(event, emit=events.append, thread="t", **given)
    return verdict, events


async def test_sync_ones_run_in_a_thread_async_ones_on_the_loop():
    async def awaited(_):
        return {"additionalContext": threading.current_thread().name}

    class Callable:
        async def __call__(self, _):
            return {"additionalContext": "object"}

    verdict, events = await fired(
        before_tool(lambda _: {"additionalContext": threading.current_thread().name}),
        before_tool(awaited),
        before_tool(Callable()),
        before_tool(lambda given: awaited(given)),
    )
    here = threading.current_thread().name
    assert verdict.context.split("\n") == ["loopwright hook", here, "object", here]
    assert [event["status"] for event in events] == ["ok"] * 4


async def test_side_by_side_on_the_same_input_which_nobody_else_sees_changed():
    met = asyncio.Barrier(2)

    async def one(given):
        given["tool_input"]["n"] = 99
        await asyncio.wait_for(met.wait(), PATIENCE)

    fields = {"tool_input": {"n": 1}}
    verdict, _ = await fired(before_tool(one, name="a"), before_tool(one, name="b"), **fields)
    assert fields == {"tool_input": {"n": 1}}
    assert not verdict.warnings


def crash(_):
    msg = "password 1234"
    raise ValueError(msg)


async def stall(_):
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("run", "why"), [(crash, "ValueError"), (stall, "did not end within 0.05 s"), (len, "int")]
)
@pytest.mark.parametrize("on_error", ["open", "closed"])
async def test_a_failure_is_told_and_blocks_only_where_it_guards(run, why, on_error):
    verdict, events = await fired(before_tool(run, timeout=0.05, on_error=on_error))
    assert verdict.is_blocked is (on_error == "closed")
    assert [event["type"] for event in events] == ["hook", "warning"]
    assert events[0]["status"] == "failed"
    assert why in verdict.warnings[0]
    # What is saved names the kind of error alone.
    assert "1234" not in verdict.warnings[0] + verdict.reason + events[1]["text"]


async def test_a_sync_hook_that_hangs_is_left_behind():
    free = threading.Event()
    verdict, _ = await fired(before_tool(lambda _: free.wait(2 * PATIENCE), timeout=0.05))
    free.set()
    assert verdict.warnings


async def test_a_pause_of_the_graph_passes_through_and_leaves_nobody_behind():
    ended = asyncio.Event()

    async def pause(_):
        raise GraphInterrupt

    async def slow(_):
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    for one in ([before_tool(pause)], [before_tool(slow), before_tool(pause)]):
        with pytest.raises(GraphInterrupt):
            await fired(*one)
    await asyncio.wait_for(ended.wait(), PATIENCE)


async def test_cancelling_the_run_cancels_its_hooks():
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow(_):
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    run = asyncio.ensure_future(fired(before_tool(slow)))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.wait_for(ended.wait(), PATIENCE)
