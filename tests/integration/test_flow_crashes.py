"""A write is made once and a result is kept, whatever cuts a plan off and however often."""

import asyncio
import gc
import threading
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from loopwright import Context, open_durability
from loopwright.calls.sending import wait_with_deadline
from support import killed
from support.flows import (
    ASK,
    REPLAN,
    THREAD,
    World,
    citing,
    decide,
    declared,
    ended,
    flow,
    look,
    planning,
    put,
    said,
    step,
    steps_by_id,
    waiting,
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


@pytest.mark.req("S2-15")
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_approvals_give_a_step_no_more_repetitions_than_the_plan(retries):
    book: list[str] = []

    def send(text: str) -> str:
        """Send something that may be sent twice."""
        book.append(text)
        raise ValueError("the line is down")

    plan = flow(step("s", "send", arguments={"text": "hi"}, retryCount=retries))
    graph = World().graph(
        planning(plan, recovery=[decide("give_up")]),
        tools=[declared(send, idempotentHint=True)],
        policy=[{"tool": "send", "action": "ask"}],
        checkpointer=InMemorySaver(),
    )
    result = graph.invoke(said(), THREAD)
    for n in range(retries + 1):
        assert waiting(result) == ["s"], f"question {n}"
        result = graph.invoke(Command(resume="approve"), THREAD)
    assert ended(result["outcome"]) == ("failed", "ERROR")
    assert book == ["hi"] * (retries + 1)


@pytest.mark.req("P-04")
def test_long_results_outlive_a_store_that_does_not_outlive_the_process(tmp_path):
    """Threads in a file, the store in memory: another process finds no store of this one."""
    world = World(big={"rows": ["x" * 50] * 2_000})
    plan = flow(look("r", "big"), put("w", "first"), put("n", "{{r.rows[0]}}", ["w"]))
    model = planning(plan)
    given: Any = said()
    for _ in range(3):
        with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
            graph = world.graph(
                model, policy=ASK, checkpointer=durability.checkpointer,
                journal=durability.journal, store=InMemoryStore(),
            )  # fmt: skip
            result = graph.invoke(given, THREAD)
        given = Command(resume="approve")
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == ["first", "x" * 50]
    assert world.done("look") == ["big"]


@pytest.mark.parametrize(
    ("more", "end", "made"),
    [(0, ("partial", "BUDGET"), [0, 1]), (5, ("complete", "GOAL"), [0, 1, 2, 3])],
    ids=["same allowance", "larger one"],
)
async def test_steps_that_a_limit_kept_back_before_a_crash_run_if_the_resume_allows_it(
    more, end, made, tmp_path
):
    world, reached, book = World(), threading.Event(), killed.World(tmp_path)
    plan = flow(HANG, *(put(f"w{n}", n) for n in range(4)))
    with open_durability(book.url) as durability:
        tools = [hanging_once(reached, book, 4)]
        graph = world.graph(planning(plan), tools=tools, durability=durability)
        await cut_off(graph, reached, context=Context(max_tool_calls=3))
        assert world.done("put") == [0, 1]
        context = Context(max_tool_calls=3 + more)
        outcome = (await graph.ainvoke(None, THREAD, context=context))["outcome"]
    assert ended(outcome) == end
    assert world.done("put") == made


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


async def test_a_tool_that_fails_as_the_run_is_cancelled_leaves_no_noise():
    """Its error comes in the very moment in which nobody waits for it any more."""
    loop, noise = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: noise.append(context["message"]))

    async def fail():
        raise ValueError("the line is down")

    waiting = asyncio.ensure_future(wait_with_deadline(asyncio.ensure_future(fail()), 30))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    del waiting
    await asyncio.sleep(0)
    gc.collect()
    assert noise == []


@pytest.mark.parametrize(
    ("given", "then", "end"),
    [
        (None, [flow(put("w", 1), HANG, leftOut=["mail it"])], ("partial", "GOAL")),
        (said("Only put it down."), [flow(put("w", 1), HANG)], ("complete", "GOAL")),
        (said("Never mind."), ["no", "no", "no"], ("failed", "ERROR")),
    ],
    ids=["the same request", "another one", "another one without a plan"],
)
async def test_what_a_plan_left_out_is_told_of_its_own_request_alone(given, then, end, tmp_path):
    world, reached, book = World(), threading.Event(), killed.World(tmp_path)
    plan = flow(put("w", 1), HANG, leftOut=["mail it"])
    with open_durability(book.url) as durability:
        tools = [hanging_once(reached, book, 1)]
        graph = world.graph(planning(plan, *then), tools=tools, durability=durability)
        await cut_off(graph, reached)
        outcome = (await graph.ainvoke(given, THREAD))["outcome"]
    assert ended(outcome) == end
    assert world.done("put") == [1]
    told = [line for line in outcome["unmet"] if "mail it" in line]
    assert told == (["Not planned: mail it"] if given is None else [])


@pytest.mark.req("P-04")
async def test_every_step_gets_its_own_result_though_its_tool_says_otherwise_by_now(tmp_path):
    """Recorded ends are found by the order of the pass: what tools say now must not change it."""
    world, reached, book = World(), threading.Event(), killed.World(tmp_path)

    def note(what: str) -> str:
        """Note something."""
        world.calls.append(("put", what))
        return f"noted {what}"

    def noting(id_, what, after=None):
        return step(id_, "note", after, arguments={"what": what})

    plan = flow(
        look("r", "r"), noting("w1", "one"), noting("w2", "two"), noting("w3", "three"),
        HANG, look("soon", "{{w1}}, {{w2}}, {{r.of}}", ["h"]), look("last", "{{w3}}"),
    )  # fmt: skip
    asks = [{"tool": "note", "arguments": {"what": "^three$"}, "action": "ask"}]
    hang = hanging_once(reached, book, 5)
    with open_durability(book.url) as durability:

        def graph(**hints):
            tools = [declared(note, **hints), hang]
            return world.graph(planning(plan), tools=tools, policy=asks, durability=durability)

        await cut_off(graph(), reached)
        graph_now = graph(readOnlyHint=True)
        result = await graph_now.ainvoke(None, THREAD)
        assert waiting(result) == ["w3"]
        assert result["__interrupt__"][0].value["action_request"]["args"] == {"what": "three"}
        outcome = (await graph_now.ainvoke(Command(resume="approve"), THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == ["one", "two", "three"]
    assert world.done("look") == ["r", "noted one, noted two, r", "noted three"]
    results = {name: task["result"] for name, task in steps_by_id(outcome).items()}
    assert [results[name] for name in ("w1", "w2", "w3", "h")] == [
        "noted one", "noted two", "noted three", "done",
    ]  # fmt: skip


@pytest.mark.req("P-04")
async def test_one_word_on_a_call_in_doubt_is_good_for_one_send():
    """Cut off after its effect, allowed again, cut off again: it is asked about again."""
    book, running = [], []

    async def pay(n: int) -> str:
        """Pay."""
        book.append(n)
        if len(book) < 3:
            running[-1].cancel()
            await asyncio.sleep(1)
        return "paid"

    graph = World().graph(
        planning(flow(step("w", "pay", arguments={"n": 3}))),
        tools=[declared(pay)], checkpointer=InMemorySaver(),
    )  # fmt: skip

    async def went_on(with_):
        async def run():
            return await graph.ainvoke(with_, THREAD)

        running.append(asyncio.ensure_future(run()))
        try:
            return await running[-1]
        except asyncio.CancelledError:
            return "cut off"

    assert await went_on(said()) == "cut off"
    assert "__interrupt__" in await went_on(None)
    assert await went_on(Command(resume="approve")) == "cut off"
    assert "__interrupt__" in await went_on(None), "not sent a third time unasked"
    assert book == [3, 3]
    assert (await went_on(Command(resume="approve")))["outcome"]["status"] == "complete"
    assert book == [3, 3, 3]
