"""A write is made once and a result is kept, whatever cuts a plan off and however often."""

import asyncio
import gc
import operator
import threading
import time
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from typing_extensions import TypedDict

from loopwright import Context, ModelCallFailed, open_durability
from loopwright.tools.waiting import wait_at_most
from support.flows import (
    THREAD,
    World,
    citing,
    decide,
    declared,
    flow,
    planning,
    roles,
    said,
    step,
    steps_by_id,
)

ASK = [{"tool": "put", "action": "ask"}]
REPLAN = [decide("replan_from_failure")]


def ended(outcome):
    return outcome["status"], outcome["reason"]


def put(id_, what, after=None, **more):
    return step(id_, "put", after, arguments={"what": what}, **more)


def look(id_, what, after=None, **more):
    return step(id_, "look", after, arguments={"what": what}, **more)


def asked(result):
    return [question.value["task"] for question in result["__interrupt__"]]


async def cut_off(graph, reached, **settings):
    """Begin the thread and cancel its run once it has come to a place."""
    run = asyncio.create_task(graph.ainvoke(said(), THREAD, **settings))
    await asyncio.to_thread(reached.wait, 30)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def recorded(world, writes):
    """Wait until so many writes are made, and give the run the time to record it."""

    def wait():
        deadline = time.monotonic() + 20
        while len(world.done("put")) < writes and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)

    await asyncio.to_thread(wait)


def checked(id_="w", expect: Any = None):
    """A write, with a check of its result, and a read that needs it."""
    more = {"expect": expect} if expect else {}
    return flow(put(id_, 3, **more), look("r", f"{{{{{id_}.put}}}}"))


@pytest.mark.req("P-06", "S2-30")
@pytest.mark.parametrize("strategy", ["replan_from_failure", "complete_replan"])
@pytest.mark.parametrize("then", [checked(), checked("x"), checked(expect="put == 3")])
def test_another_plan_does_not_make_a_write_again_whose_result_failed_its_check(strategy, then):
    """The write took effect; that the model expected something else of it changes nothing."""
    world = World()
    model = planning(checked(expect="receipt is not empty"), then, recovery=[decide(strategy)])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert world.done("put") == [3]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("look") == [3]
    assert [t["attempts"] for t in outcome["tasks"]] == [1, 1]
    told = next(a for a in model.asked if a.role == "recovery").messages[-1].text
    assert "its call gave " in told
    assert '{\\"put\\": 3}' in told or '{"put": 3}' in told


@pytest.mark.req("P-06", "P-31")
def test_a_write_whose_result_fails_every_check_is_made_once_and_the_run_ends():
    world = World()
    plans = [checked(expect=f"n{i} == 1") for i in range(6)]
    recovery = [*REPLAN, *REPLAN, decide("complete_replan")]
    outcome = world.graph(planning(*plans, recovery=recovery)).invoke(said())["outcome"]
    assert world.done("put") == [3]
    assert ended(outcome) == ("exhausted", "MAX_ROUNDS")
    assert world.done("look") == []
    assert "the same call is not made again" in " ".join(outcome["unmet"])


@pytest.mark.req("P-06")
@pytest.mark.parametrize("given", [None, said("Please go on.")], ids=["resume", "message"])
def test_nor_where_a_crash_came_before_the_failure_was_decided_on(given, tmp_path):
    world = World()

    def recovery(messages, offered):
        if roles(model).count("recovery") == 1:
            raise OSError("gone")
        return REPLAN[0]

    plans = [checked(expect="receipt is not empty"), checked()]
    model = planning(*plans, recovery=recovery)
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(model, durability=durability)
        with pytest.raises((ModelCallFailed, OSError)):
            graph.invoke(said(), THREAD, context=Context(model_retries=0))
        outcome = graph.invoke(given, THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]


@pytest.mark.req("P-06")
async def test_nor_where_the_run_was_cut_off_beside_it(tmp_path):
    world, reached = World(), threading.Event()

    async def hang() -> str:
        """Hang the first time."""
        if not reached.is_set():
            await recorded(world, 1)
            reached.set()
            await asyncio.sleep(30)
        return "done"

    side = step("h", "hang")
    first = flow(put("w", 3, expect="receipt is not empty"), side)
    model = planning(first, flow(put("w", 3), side), recovery=REPLAN)
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        tool = declared(hang, readOnlyHint=True)
        graph = world.graph(model, tools=[tool], durability=durability)
        await cut_off(graph, reached)
        outcome = (await graph.ainvoke(said("Please go on."), THREAD))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]


def hangs_once(book):
    async def send(text: str) -> str:
        """Send something."""
        book.append(text)
        if len(book) == 1:
            await asyncio.sleep(30)
        return "sent"

    return send


def refused_once(book):
    def send(text: str) -> str:
        """Send something."""
        book.append(text)
        if len(book) == 1:
            raise ConnectionResetError("the line is down")
        return "sent"

    return send


@pytest.mark.req("S2-15")
@pytest.mark.parametrize("trouble", [hangs_once, refused_once])
def test_a_write_without_an_answer_is_repeated_where_it_may_be_and_the_plan_says_so(trouble):
    book: list[str] = []
    tool = declared(trouble(book), name="send", idempotentHint=True)
    model = planning(flow(step("s", "send", arguments={"text": "hi"}, retryCount=1)))
    graph = World().graph(model, tools=[tool])
    outcome = graph.invoke(said(), context=Context(tool_deadline=0.2))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert book == ["hi", "hi"]
    assert roles(model) == ["flow_planner", "answerer"], "no model was needed to try again"
    assert outcome["uncertain_calls"] == []


@pytest.mark.req("P-06")
@pytest.mark.parametrize("trouble", [hangs_once, refused_once])
def test_any_other_write_without_an_answer_is_not(trouble):
    book: list[str] = []
    tool = declared(trouble(book), name="send")
    model = planning(
        flow(step("s", "send", arguments={"text": "hi"}, retryCount=3)),
        recovery=[decide("give_up")],
    )
    graph = World().graph(model, tools=[tool])
    outcome = graph.invoke(said(), context=Context(tool_deadline=0.2))["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert book == ["hi"]
    assert [c["task"] for c in outcome["uncertain_calls"]] == ["s"]


@pytest.mark.req("S2-15", "P-02")
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
        assert asked(result) == ["s"], f"question {n}"
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
    world, reached, kept_back = World(), threading.Event(), []

    async def hang() -> str:
        """Hang the first time."""
        if not reached.is_set():
            await recorded(world, 2)
            kept_back.append(world.done("put"))
            reached.set()
            await asyncio.sleep(30)
        return "done"

    plan = flow(step("h", "hang"), *(put(f"w{n}", n) for n in range(4)))
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        tool = declared(hang, readOnlyHint=True)
        graph = world.graph(planning(plan), tools=[tool], durability=durability)
        await cut_off(graph, reached, context=Context(max_tool_calls=3))
        assert kept_back == [[0, 1]]
        context = Context(max_tool_calls=3 + more)
        outcome = (await graph.ainvoke(None, THREAD, context=context))["outcome"]
    assert ended(outcome) == end
    assert world.done("put") == made


class Outer(TypedDict, total=False):
    """A state that is none of ours."""

    ends: Annotated[list[Any], operator.add]


def around(*graphs, saver=None, then=lambda: None):
    """A graph of somebody else that calls these side by side, each in a node of its own."""
    builder = StateGraph(Outer)
    for n, graph in enumerate(graphs):

        async def node(_, graph=graph):
            result = await graph.ainvoke(said())
            then()
            return {"ends": [ended(result["outcome"])]}

        builder.add_node(f"n{n}", node)
        builder.add_edge(START, f"n{n}")
    return builder.compile(checkpointer=saver)


PAIR = flow(look("r", "r"), put("w", "{{r.of}}"))


@pytest.mark.req("P-34")
async def test_two_plans_side_by_side_in_one_thread_each_get_their_own_answer(tmp_path):
    """Equal plans, equal ids, equal arguments: neither takes the other's write for its own."""
    first, second = World(), World()
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graphs = [
            world.graph(planning(PAIR), policy=ASK, journal=durability.journal)
            for world in (first, second)
        ]
        outer = around(*graphs, saver=durability.checkpointer)
        result = await outer.ainvoke({}, THREAD)
        assert asked(result) == ["w", "w"]
        one, other = (question.id for question in result["__interrupt__"])
        result = await outer.ainvoke(Command(resume={one: "approve"}), THREAD)
        assert len(first.done("put") + second.done("put")) == 1
        assert asked(result) == ["w"]
        result = await outer.ainvoke(Command(resume={other: "reject"}), THREAD)
    assert len(first.done("put") + second.done("put")) == 1
    assert sorted(map(tuple, result["ends"])) == [("blocked", "DENIED"), ("complete", "GOAL")]


async def test_without_a_saver_around_it_nobody_is_asked_and_nothing_is_written():
    world = World()
    outer = around(world.graph(planning(PAIR), policy=ASK))
    assert (await outer.ainvoke({}))["ends"] == [("blocked", "NOT_INTERACTIVE")]
    assert world.calls == [("look", "r")]


@pytest.mark.req("P-04", "P-06")
async def test_a_failure_of_the_graph_around_a_finished_plan_runs_nothing_of_it_again(tmp_path):
    world, failures = World(), [ValueError("the node is broken")]

    def then():
        if failures:
            raise failures.pop()

    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(planning(PAIR), journal=durability.journal)
        outer = around(graph, saver=durability.checkpointer, then=then)
        with pytest.raises(ValueError, match="broken"):
            await outer.ainvoke({}, THREAD)
        assert (await outer.ainvoke(None, THREAD))["ends"] == [("complete", "GOAL")]
    assert world.calls == [("look", "r"), ("put", "r")]


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

    waiting = asyncio.ensure_future(wait_at_most(asyncio.ensure_future(fail()), 30))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    del waiting
    await asyncio.sleep(0)
    gc.collect()
    assert noise == []
