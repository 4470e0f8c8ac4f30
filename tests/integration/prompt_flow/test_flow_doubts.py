"""A write that may have taken effect is not repeated unasked, however it is spelled and cut off."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context
from support import killed
from support.flows import (
    REPLAN,
    THREAD,
    World,
    declared,
    ended,
    flow,
    planning,
    said,
    step,
)


def paying(book):
    async def pay(amount: float, currency: str = "EUR") -> str:
        """Pay; the first answer never comes."""
        book.append((amount, currency))
        if len(book) == 1:
            await asyncio.sleep(30)
        return "paid"

    return declared(pay)


@pytest.mark.req("P-06", "S2-30", "W-11")
@pytest.mark.parametrize(
    ("again", "answer", "paid"),
    [
        ({"amount": 3, "currency": "EUR"}, "respond: it was paid", 1),
        ({"amount": "3"}, "approve", 2),
    ],
)
def test_a_write_in_doubt_that_a_new_plan_spells_otherwise_is_asked_about(again, answer, paid):
    book: list[Any] = []
    plans = [flow(step("w", "pay", arguments=one)) for one in ({"amount": 3}, again)]
    graph = World().graph(
        planning(*plans, recovery=REPLAN),
        tools=[paying(book)],
        checkpointer=InMemorySaver(),
        foreign="allow",
    )
    result = graph.invoke(said(), THREAD, context=Context(tool_deadline=0.2))
    assert result["__interrupt__"][0].value["type"] == "uncertain_call"
    assert len(book) == 1
    outcome = graph.invoke(Command(resume=answer), THREAD)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert book == [(3, "EUR")] * paid
    assert outcome["uncertain_calls"] == []


@pytest.mark.req("P-06")
async def test_a_call_that_outlives_a_run_which_was_cancelled_twice_is_waited_for():
    """Else it is known as under way and as no crash, and ends unseen behind the new turn's look."""
    book, began = [], asyncio.Event()

    async def pay(amount: int) -> str:
        """Pay, and take a while to stop."""
        began.set()
        try:
            await asyncio.sleep(0.05 if book else 30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
        book.append(amount)
        return "paid"

    plan = flow(step("w", "pay", arguments={"amount": 3}))
    graph = World().graph(planning(plan, plan), tools=[declared(pay)], checkpointer=InMemorySaver())
    await killed.cut_off_twice(graph, said(), began)
    result = await graph.ainvoke(said("Please go on."), THREAD)
    assert result["__interrupt__"][0].value["type"] == "uncertain_call"
    assert book == [3]
