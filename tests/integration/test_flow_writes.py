"""A write is made once, however later plans spell it, check it or list it."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from loopwright import Context, Hook, ModelCallFailed, open_durability
from support.flows import (
    DOWN,
    REPLAN,
    THREAD,
    World,
    decide,
    declared,
    ended,
    failing_once,
    flow,
    look,
    planning,
    put,
    raising,
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
        ("{{a}}", "{{a.output}}"),
        ("{{a.of}}", "abc"),
        ("of {{a.of}}", "of abc"),
        ({"n": "{{a.n}}"}, {"n": 3}),
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
    outcome = world.graph(planning(*plans, recovery=REPLAN)).invoke(said())["outcome"]
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
def test_what_was_built_on_such_a_write_is_not_made_again_either():
    plans = [
        flow(step("a", arguments={"what": "abc"}), step("w", "put", arguments={"what": "{{a.n}}"}),
             step("v", "put", arguments={"what": ["{{w.put}}", "after"]}), {**FAILS,
             "dependencies": ["v"]}),
        flow(step("w", "put", arguments={"what": 3}),
             step("v", "put", arguments={"what": ["{{w.put}}", "after"]}), GOES),
    ]  # fmt: skip
    world = World(down=DOWN)
    world.graph(planning(*plans, recovery=REPLAN)).invoke(said())
    assert world.done("put") == [3, [3, "after"]]


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


@pytest.mark.req("S2-30")
def test_a_check_that_is_never_met_makes_no_write_twice_however_it_is_put():
    plans = [
        flow(step("w", "put", arguments={"what": 1}, expect=f"put == {n}")) for n in range(5, 20)
    ]
    world = World()
    model = planning(*plans, recovery=lambda *_: decide("replan_from_failure"))
    outcome = world.graph(model).invoke(said())["outcome"]
    assert world.done("put") == [1]
    assert outcome["status"] != "complete"


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


@pytest.mark.req("P-06", "S2-30")
@pytest.mark.parametrize("resumed", [False, True], ids=["third plan", "resume"])
def test_nor_does_a_plan_that_comes_after_one_without_it(resumed):
    """Told as not done by the plan that lacks it, found again by the one that has it again."""
    without = flow(look("bad", "down"))
    again = flow(put("v", 3, expect="put == 3"), look("r", "{{v.put}}"))
    world = World(down=DOWN)
    recovery = [decide("give_up")] if resumed else REPLAN
    model = planning(checked(expect="receipt is not empty"), without, again, recovery=recovery)
    graph = world.graph(model, checkpointer=InMemorySaver())
    outcome = graph.invoke(said(), THREAD)["outcome"]
    if resumed:
        assert ended(outcome) == ("failed", "ERROR")
        (told,) = [line for line in outcome["unmet"] if line.startswith("w (do w)")]
        assert "its call gave " in told
        assert "the same call is not made again" in told
        outcome = graph.invoke(None, THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3]
    assert world.done("look") == ["down", "down", 3]
    assert outcome["unmet"] == []


@pytest.mark.req("P-06")
def test_a_write_that_failed_its_check_and_that_no_plan_takes_up_again_is_told():
    world = World()
    model = planning(checked(expect="receipt is not empty"), flow(look("r", "r")), recovery=REPLAN)
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("partial", "GOAL")
    assert world.done("put") == [3]
    (told,) = outcome["unmet"]
    assert told.startswith("w (do w) was skipped: ")
    assert '{"put": 3}' in told


@pytest.mark.req("P-06")
def test_what_is_told_of_a_write_without_an_answer_is_meant_for_a_human():
    book: list[str] = []
    tool = declared(refused_once(book), name="send")
    model = planning(flow(step("s", "send", arguments={"text": "hi"})))
    graph = World().graph(model, tools=[tool])
    outcome = graph.invoke(said(), context=Context(max_recoveries=0))["outcome"]
    told, _ = outcome["unmet"]
    assert told == (
        "s (do s) failed: send failed: ConnectionResetError: the line is down. "
        "It may have taken effect all the same: check that before you repeat it."
    )
    assert "Correct the arguments" not in outcome["answer"] + model.asked[-1].messages[-1].text


@pytest.mark.req("S2-30")
def test_a_write_that_a_new_plan_spells_with_a_reference_takes_the_result_it_had():
    """Two equal steps: whichever takes the first result, what was built on it is not paid again."""
    world = World(bad=DOWN)
    pay = ["{{o.put}}", "p"]
    first = flow(
        step("o", "put", arguments={"what": 1}),
        step("pay", "put", arguments={"what": pay}),
        step("f", "look", ["pay"], arguments={"what": "bad"}),
    )
    second = flow(
        step("x", "put", arguments={"what": 1}),
        step("y", "put", arguments={"what": 1}),
        step("q", "put", arguments={"what": ["{{y.put}}", "p"]}),
    )
    model = planning(first, second, recovery=[decide("replan_from_failure")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert world.done("put") == [1, [1, "p"], 1], "the second 1 is asked for, the payment is made"
    assert ended(outcome) == ("complete", "GOAL")


@pytest.mark.req("S2-30")
def test_another_check_is_made_on_a_finished_write_that_is_not_made_again():
    world = World(bad=DOWN)
    first = flow(
        step("w", "put", arguments={"what": 1}), step("f", "look", ["w"], arguments={"what": "bad"})
    )
    second = flow(
        step("w", "put", arguments={"what": 1.0}, expect="put == 7"),
        step("r", arguments={"what": "{{w.put}}"}),
    )
    model = planning(first, second, recovery=REPLAN)
    outcome = world.graph(model).invoke(said(), context=Context(max_recoveries=1))["outcome"]
    assert world.done("put") == [1]
    assert ended(outcome) == ("partial", "MAX_ROUNDS")


@pytest.mark.req("S2-30")
def test_a_write_whose_result_another_step_took_does_not_count_twice():
    """One was made, the third plan wants two: one more is made."""
    world = World(down=DOWN, gone=raising(ValueError("gone")))
    first = flow(put("w", 3), FAILS)
    second = flow(look("b", "abc"), put("v", "{{b.n}}"), look("f", "gone", ["v"]))
    third = flow(put("x", 3), put("y", 3), GOES)
    recovery = [decide("replan_from_failure"), decide("complete_replan")]
    outcome = world.graph(planning(first, second, third, recovery=recovery)).invoke(said())[
        "outcome"
    ]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [3, 3]


class FailsOnce(InMemoryStore):
    """A store that has a result, and cannot give it the first time it is asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def aget(self, *about: Any, **more: Any) -> Any:
        found = await super().aget(*about, **more)
        self.asked += found is not None
        if found is not None and self.asked == 1:
            raise OSError("the disk is busy")
        return found


@pytest.mark.req("P-06")
def test_a_write_whose_long_result_could_not_be_read_at_once_is_not_made_again():
    book: list[str] = []

    def send(text: str) -> dict[str, Any]:
        """Send something; the receipt is long."""
        book.append(text)
        return {"receipt": "r" * 100_000}

    plans = [
        flow(step("s", "send", arguments={"text": "hi"})),
        flow(step("s", "send", arguments={"text": "hi"}, expect="receipt is not empty"), GOES),
    ]
    graph = World().graph(
        planning(*plans, recovery=REPLAN), tools=[declared(send)], store=FailsOnce()
    )
    outcome = graph.invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert book == ["hi"]


@pytest.mark.req("P-06", "S2-30")
@pytest.mark.parametrize("then", ["w", "x"], ids=["same id", "other id"])
async def test_a_write_that_a_hook_had_changed_is_known_again_by_the_next_plan(then):
    def sign(fields):
        return {"hookSpecificOutput": {"tool_input": {"what": f"{fields['tool_input']['what']}!"}}}

    world = World(a={"n": 3}, down=DOWN)
    first = flow(look("r", "a"), put("w", "{{r.n}}"), look("h", "down", ["w"]))
    graph = world.graph(
        planning(first, flow(put(then, 3), look("e", "e")), recovery=REPLAN),
        hooks=[Hook(event="BeforeTool", run=sign, match="put")],
    )
    outcome = (await graph.ainvoke(said()))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == ["3!"]
