"""A write is made once and a result is kept, whatever cuts a plan off and however often."""

import asyncio
import threading

import pytest
from langgraph.types import Command

from loopwright import open_durability
from support import killed
from support.flows import (
    ASK,
    REPLAN,
    THREAD,
    World,
    citing,
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
from support.patience import PATIENCE

HANG = step("h", "hang")


async def cut_off(graph, reached, **settings):
    """Begin the thread and cancel its run once it has come to a place."""
    run = asyncio.create_task(graph.ainvoke(said(), THREAD, **settings))
    await asyncio.to_thread(reached.wait, PATIENCE)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


def hanging_once(reached, book, ends):
    """A read that hangs the first time, when so many steps have their end in the database."""

    async def hang() -> str:
        """Hang the first time."""
        if not reached.is_set():
            await asyncio.to_thread(book.wait_for_recorded, ends)
            reached.set()
            await asyncio.sleep(30)
        return "done"

    return declared(hang, readOnlyHint=True)


@pytest.mark.req("P-06")
async def test_a_write_whose_result_failed_its_check_is_not_made_again_after_the_run_was_cut_off(
    tmp_path,
):
    world, reached, book = World(), threading.Event(), killed.World(tmp_path)
    first = flow(put("w", 3, expect="receipt is not empty"), HANG)
    model = planning(first, flow(put("w", 3), HANG), recovery=REPLAN)
    with open_durability(book.url) as durability:
        tools = [hanging_once(reached, book, 1)]
        graph = world.graph(model, tools=tools, durability=durability)
        await cut_off(graph, reached)
        outcome = (await graph.ainvoke(said("Please go on."), THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]


@pytest.mark.req("P-06")
def test_a_run_from_any_older_checkpoint_of_a_plan_makes_no_write_again(tmp_path):
    world = World()
    plan = flow(look("r", "r"), put("w", 1), put("x", 2, ["w"]))
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        model = planning(plan, answerer=citing)
        graph = world.graph(model, policy=ASK, durability=durability)
        result = finished(graph, graph.invoke(said(), THREAD))
        before = [s for s in graph.get_state_history(THREAD) if s.next == ("run_flow",)]
        assert len(before) == 3
        for state in before:
            result = finished(graph, graph.invoke(None, state.config))
            assert ended(result["outcome"]) == ("complete", "GOAL")
            assert {t["status"] for t in steps_by_id(result["outcome"]).values()} == {"completed"}
    assert world.done("put") == [1, 2]


def finished(graph, result):
    """The result after everything was approved that was asked."""
    while "__interrupt__" in result:
        result = graph.invoke(Command(resume="approve"), THREAD)
    return result
