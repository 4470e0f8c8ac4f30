"""A write that the journal knows is not made again because what it was made from is another now.

The process dies before the ends of steps are saved, so their reads are made again and may fail.
"""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest

from loopwright import open_durability
from support import killed
from support.flows import (
    REPLAN,
    THREAD,
    World,
    declared,
    ended,
    flow,
    look,
    planning,
    put,
    said,
    step,
    steps_by_id,
)


@contextmanager
def no_end_is_saved(durability):
    """What a kill leaves that comes before the database has heard of any step's end."""
    saver = durability.checkpointer.inner
    real = saver.put_writes

    def put_writes(config, writes, *about):
        kept = [write for write in writes if write[0] != "__return__"]
        return real(config, kept, *about) if kept else None

    saver.put_writes = put_writes
    yield
    saver.put_writes = real


async def cut_off_behind_the_write(graph, world, reached):
    run = asyncio.create_task(graph.ainvoke(said(), THREAD))
    await asyncio.to_thread(reached.wait, 30)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(world.done("put")) == 1


def until_written(world):
    while not world.done("put"):
        time.sleep(0.01)
    time.sleep(0.1)  # the journal has its end


def tools_of(world, reached, *, again):
    """`hang` waits for the write and for the kill; later on it fails, and `get` may."""

    async def hang() -> str:
        """Hang the first time, fail then."""
        if reached.is_set():
            raise ValueError("the line is down")
        await asyncio.to_thread(until_written, world)
        reached.set()
        await asyncio.sleep(30)
        return ""

    async def get() -> dict[str, int]:
        """Get something."""
        if not reached.is_set():
            return {"n": 3}
        await asyncio.sleep(0.1)  # `hang` has failed by then
        found: dict[str, int] = await again()
        return found

    return [declared(hang, readOnlyHint=True), declared(get, readOnlyHint=True)]


async def same():
    return {"n": 3}


async def other():
    return {"n": 4}


async def down():
    raise ValueError("no line at all")


@pytest.mark.req("P-04", "P-06")
@pytest.mark.parametrize("then", ["w", "x"], ids=["same id", "other id"])
@pytest.mark.parametrize(
    ("what", "again"),
    [(3, same), ("{{r.n}}", same), ("{{r.n}}", other), ("{{r.n}}", down)],
    ids=["follows", "refers", "refers to what is another now", "refers to what fails now"],
)
async def test_a_failure_after_a_crash_does_not_have_a_finished_write_made_again(
    what, again, then, tmp_path
):
    world, reached = World(), threading.Event()
    first = flow(step("r", "get"), put("w", what, ["r"]), step("h", "hang"))
    model = planning(first, flow(put(then, 3), look("e", "e")), recovery=REPLAN)
    with open_durability(killed.World(tmp_path).url) as durability:
        tools = tools_of(world, reached, again=again)
        graph = world.graph(model, tools=tools, durability=durability)
        with no_end_is_saved(durability):
            await cut_off_behind_the_write(graph, world, reached)
        outcome = (await graph.ainvoke(None, THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]
    assert steps_by_id(outcome)[then]["result"] == '{"put": 3}'


@pytest.mark.req("P-04", "S2-30")
@pytest.mark.parametrize("then", ["w", "x"], ids=["same id", "other id"])
async def test_nor_does_a_new_message_where_its_read_says_something_else_by_then(then, tmp_path):
    """The plan is the same, only what the write was made from is lost."""
    world, reached = World(), threading.Event()

    def plan(name):
        return flow(step("r", "get"), put(name, "{{r.n}}"), look("e", "e", [name]), *hang)

    hang = [step("h", "hang")]
    first = plan("w")
    hang = []
    model = planning(first, plan(then))
    with open_durability(killed.World(tmp_path).url) as durability:
        tools = tools_of(world, reached, again=other)
        graph = world.graph(model, tools=tools, durability=durability)
        with no_end_is_saved(durability):
            await cut_off_behind_the_write(graph, world, reached)
        outcome = (await graph.ainvoke(said("Please go on."), THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]
