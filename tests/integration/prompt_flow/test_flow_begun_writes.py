"""A write that the journal knows is not made again because what it was made from is another now.

The process dies before the ends of steps are saved, so their reads are made again and may fail.
"""

import asyncio
import threading

import pytest

from loopwright import hook, open_durability
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


async def cut_off_behind_the_write(graph, world, reached, durability):
    with killed.no_end_is_saved(durability):
        await killed.cut_off(graph, said(), reached)
    assert len(world.done("put")) == 1


def tools_of(journal, reached, *, again):
    """`hang` waits for the write and for the kill; later on it fails, and `get` may."""

    async def hang() -> str:
        """Hang the first time, fail then."""
        if reached.is_set():
            raise ValueError("the line is down")
        while not any(  # noqa: ASYNC110 - it tells nobody
            row.state == "finished" for row in await asyncio.to_thread(journal.rows, "t")
        ):
            await asyncio.sleep(0.01)
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
@pytest.mark.parametrize(
    ("what", "again", "then"),
    [(3, same, "x"), ("{{r.n}}", same, "w"), ("{{r.n}}", other, "x"), ("{{r.n}}", down, "w")],
    ids=["follows", "refers", "refers to what is another now", "refers to what fails now"],
)
async def test_a_failure_after_a_crash_does_not_have_a_finished_write_made_again(
    what, again, then, tmp_path
):
    world, reached = World(), threading.Event()
    first = flow(step("r", "get"), put("w", what, ["r"]), step("h", "hang"))
    model = planning(first, flow(put(then, 3), look("e", "e")), recovery=REPLAN)
    with open_durability(killed.World(tmp_path).url) as durability:
        tools = tools_of(durability.journal, reached, again=again)
        graph = world.graph(model, tools=tools, durability=durability, foreign="allow")
        await cut_off_behind_the_write(graph, world, reached, durability)
        outcome = (await graph.ainvoke(None, THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]
    assert steps_by_id(outcome)[then]["result"] == '{"put": 3}'


@hook("BeforeTool", match="^put$")
def louder(given):
    return {"toolInput": {"what": f"{given['tool_input']['what']}!"}}


@pytest.mark.req("P-04", "P-06")
async def test_a_write_whose_arguments_a_hook_has_changed_is_not_made_again_after_a_crash(
    tmp_path,
):
    """It was sent as no plan spells it."""
    world, reached = World(), threading.Event()
    steps = [step("r", "get"), put("w", "{{r.n}}", ["r"]), step("h", "hang", optional=True)]
    with open_durability(killed.World(tmp_path).url) as durability:
        tools = tools_of(durability.journal, reached, again=same)
        graph = world.graph(
            planning(flow(*steps)), tools=tools, durability=durability, hooks=[louder]
        )
        await cut_off_behind_the_write(graph, world, reached, durability)
        outcome = (await graph.ainvoke(None, THREAD))["outcome"]
    assert world.done("put") == ["3!"]
    assert steps_by_id(outcome)["w"]["result"] == '{"put": "3!"}'
