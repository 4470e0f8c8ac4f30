"""A write that raised is in doubt in every graph, unless the tool itself refused or may repeat."""

from typing import Any

import pytest
from langchain_core.tools import ToolException

from loopwright import build_plan_execute_verify, build_react
from loopwright.models.scripted import ScriptedModel
from support.flows import World, decide, declared, flow, planning, roles, said, step
from support.scripts import call, passed, plan, report, thought, todo

RETRY = [decide("retry_step"), decide("retry_step"), decide("give_up")]


def paying(book: list[int], error: Exception, **hints: Any) -> Any:
    def pay(amount: int) -> str:
        """Pay; the books are kept, then something goes wrong."""
        book.append(amount)
        raise error

    return declared(pay, **hints)


PAY = call("pay", amount=3)
GRAPHS: dict[str, Any] = {
    "plan_execute_verify": lambda tool: build_plan_execute_verify(
        model=ScriptedModel({
            "planner": [plan(todo("1", "pay", []))] * 5,
            "executor": [[PAY], *[report("It went wrong.")] * 9],
            "verifier": [passed("It went wrong.", t1=["1.1.0"])] * 15,
        }),
        tools=[tool],
    ),
    "react": lambda tool: build_react(
        model=ScriptedModel({
            "thought": [thought("I pay.", more=True), thought("It went wrong.")],
            "action": [[PAY]],
            "observation": ["It went wrong."],
        }),
        tools=[tool],
    ),
    "prompt_flow": lambda tool: World().graph(
        planning(
            *[flow(step("s", "pay", arguments={"amount": 3}, timeout=n)) for n in (9, 8)],
            recovery=[decide("give_up")],
        ),
        tools=[tool],
    ),
}  # fmt: skip


@pytest.mark.req("W-06")
@pytest.mark.parametrize("build", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(
    ("error", "hints", "doubts"),
    [
        (ValueError("the receipt is odd"), {}, 1),
        (KeyError("receipt"), {"destructiveHint": False}, 1),
        (ConnectionRefusedError("no mail server"), {}, 1),
        (ToolException("no such account"), {}, 0),
        (ValueError("the receipt is odd"), {"idempotentHint": True}, 0),
    ],
    ids=["raised", "key error", "refused after the effect", "said no", "idempotent"],
)
def test_a_write_that_raised_is_uncertain(build, error, hints, doubts):
    book: list[int] = []
    outcome = build(paying(book, error, **hints)).invoke(said())["outcome"]
    assert set(book) == {3}
    assert len(outcome["uncertain_calls"]) == doubts
    if doubts:
        assert book == [3]
        assert outcome["status"] != "complete"


@pytest.mark.req("W-06")
@pytest.mark.parametrize(
    ("error", "times"), [(ValueError("the receipt is odd"), 1), (ToolException("busy"), 3)]
)
def test_only_a_write_that_the_tool_refused_is_repaired_by_the_same_call(error, times):
    book: list[int] = []
    plans = [flow(step("s", "pay", arguments={"amount": 3}, timeout=n)) for n in (9, 8)]
    model = planning(*plans, recovery=RETRY)
    World().graph(model, tools=[paying(book, error)]).invoke(said())
    assert ("recovery" in roles(model)) is (times > 1)
    assert book == [3] * times


@pytest.mark.req("W-06")
def test_a_doubtful_write_that_another_plan_leaves_out_keeps_the_run_from_being_complete():
    book: list[int] = []
    paid = flow(step("s", "pay", arguments={"amount": 3}))
    model = planning(paid, flow(step("t", "look", arguments={"what": "other"})))
    outcome = (
        World().graph(model, tools=[paying(book, ValueError("odd"))]).invoke(said())["outcome"]
    )
    assert book == [3]
    assert (outcome["status"], [c["tool"] for c in outcome["uncertain_calls"]]) == (
        "partial",
        ["pay"],
    )
    assert any('pay({"amount": 3})' in text for text in outcome["unmet"])
