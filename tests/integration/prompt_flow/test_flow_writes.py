"""A write is made once, however later plans spell it, check it or list it."""

import asyncio
from typing import Any

import pytest

from loopwright import Context, ModelCallFailed, open_durability
from support.flows import (
    DOWN,
    REPLAN,
    THREAD,
    World,
    declared,
    ended,
    failing_once,
    flow,
    look,
    planning,
    put,
    roles,
    said,
    step,
    told_to,
)


def checked(id_="w", expect: Any = None):
    """A write, with a check of its result, and a read that needs it."""
    more = {"expect": expect} if expect else {}
    return flow(put(id_, 3, **more), look("r", f"{{{{{id_}.put}}}}"))


@pytest.mark.req("P-06", "S2-30")
@pytest.mark.parametrize("then", [checked(), checked("x"), checked(expect="put == 3")])
def test_another_plan_does_not_make_a_write_again_whose_result_failed_its_check(then):
    """The write took effect; that the model expected something else of it changes nothing."""
    world = World()
    model = planning(checked(expect="receipt is not empty"), then)
    outcome = world.graph(model).invoke(said())["outcome"]
    assert world.done("put") == [3]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("look") == [3]
    assert [t["attempts"] for t in outcome["tasks"]] == [1, 1]
    told = told_to(model, "flow_planner", 1)
    assert "its call gave " in told
    assert '{\\"put\\": 3}' in told or '{"put": 3}' in told


@pytest.mark.req("P-06", "P-31")
def test_a_write_whose_result_fails_every_check_is_made_once_and_the_run_ends():
    world = World()
    plans = [checked(expect=f"n{i} == 1") for i in range(6)]
    outcome = world.graph(planning(*plans)).invoke(said())["outcome"]
    assert world.done("put") == [3]
    assert ended(outcome) == ("partial", "MAX_ROUNDS"), "the write was made"
    assert world.done("look") == []
    assert "the same call is not made again" in " ".join(outcome["unmet"])


@pytest.mark.req("P-06")
@pytest.mark.parametrize("given", [None, said("Please go on.")], ids=["resume", "message"])
def test_nor_where_a_crash_came_before_the_failure_was_decided_on(given, tmp_path):
    world = World()
    model = planning(checked(expect="receipt is not empty"), OSError("gone"), checked())
    with open_durability(f"sqlite:///{tmp_path / 't.db'}") as durability:
        graph = world.graph(model, durability=durability)
        with pytest.raises((ModelCallFailed, OSError)):
            graph.invoke(said(), THREAD, context=Context(model_retries=0))
        outcome = graph.invoke(given, THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]


FAILS = step("f", "look", ["w"], arguments={"what": "down"})


GOES = step("g", arguments={"what": "up"})


# What was made stays made.


@pytest.mark.req("S2-30")
@pytest.mark.parametrize(
    ("planned", "again"),
    [
        ("{{a.n}}", 3),
        ("of {{a.of}}", "of abc"),
        ("{{global.x}}", "{{a.n}}"),
        (3, "{{a.n}}"),
    ],
    ids=repr,
)
def test_a_write_that_a_new_plan_spells_otherwise_is_not_made_twice(planned, again):
    a = step("a", arguments={"what": "abc"})
    plans = [
        flow(a, step("w", "put", ["a"], arguments={"what": planned}), FAILS,
             globalVariables={"x": 3}),
        flow(a, step("w", "put", arguments={"what": again}), GOES),
    ]  # fmt: skip
    world = World(down=DOWN)
    graph = world.graph(planning(*plans, recovery=REPLAN), foreign="allow")
    outcome = graph.invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert len(world.done("put")) == 1
    assert [task["id"] for task in outcome["tasks"]] == ["a", "w", "g"]


@pytest.mark.req("S2-30")
@pytest.mark.parametrize("again", [{"amount": 3, "currency": "EUR"}, {"amount": "3"}], ids=repr)
def test_defaults_and_numbers_in_quotes_make_no_other_payment(again):
    paid = []

    def pay(amount: int, currency: str = "EUR") -> str:
        """Pay."""
        paid.append((amount, currency))
        return "paid"

    plans = [
        flow(step("w", "pay", arguments={"amount": 3}), FAILS),
        flow(step("w2", "pay", arguments=again), GOES),
    ]
    model = planning(*plans, recovery=REPLAN)
    World(down=DOWN).graph(model, tools=[declared(pay)]).invoke(said())
    assert paid == [(3, "EUR")]


@pytest.mark.req("S2-30")
def test_two_equal_writes_that_a_plan_wants_are_both_made_and_a_third_too():
    same = {"arguments": {"what": 1}}
    plans = [
        flow(step("v", "put", **same), step("w", "put", ["v"], **same), FAILS),
        flow(*(step(i, "put", **same) for i in ("x", "y", "z")), GOES),
    ]
    world = World(down=DOWN)
    world.graph(planning(*plans, recovery=REPLAN)).invoke(said())
    assert world.done("put") == [1, 1, 1]


def hangs_once(book):
    async def send(text: str) -> str:
        """Send something."""
        book.append(text)
        if len(book) == 1:
            await asyncio.sleep(30)
        return "sent"

    return send


def refused_once(book):
    return failing_once(book, ConnectionResetError("the line is down"))


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
    model = planning(flow(step("s", "send", arguments={"text": "hi"}, retryCount=3)))
    graph = World().graph(model, tools=[tool])
    settings = Context(tool_deadline=0.2, max_recoveries=0)
    outcome = graph.invoke(said(), context=settings)["outcome"]
    assert ended(outcome) == ("exhausted", "MAX_ROUNDS")
    assert book == ["hi"]
    assert [c["task"] for c in outcome["uncertain_calls"]] == ["s"]
