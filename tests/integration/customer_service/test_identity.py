"""A verification has a user and an age, and whoever guesses has few tries, wherever they do it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.tools import tool
from langgraph.types import Command

from loopwright import PolicyTable, ScriptedModel, build_customer_service
from support.guarded import ADA, POLICY, READ, reacting, refund
from support.reacting import said
from support.scripts import PROOFREAD, call

PLAIN = POLICY.read_text(encoding="utf-8")
EVE = call("verify_identity", customer_id="C-2", code="1906")


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now = datetime(2026, 11, 28, 12, tzinfo=UTC)

    def __call__(self):
        return self.now

    def wait(self, **length):
        self.now += timedelta(**length)


@pytest.fixture
def clock():
    return Clock()


def policy(folder, clock, *changes):
    text = PLAIN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    return PolicyTable.read(folder / "policy.yaml", clock=clock)


def thread(user, name="t"):
    return {"configurable": {"thread_id": name, "user_id": user}}


def results(state):
    return [m.text for m in state["messages"] if m.type == "tool"]


@pytest.mark.req("W-126")
@pytest.mark.parametrize(("user", "minutes", "pays"), [
    ("ada", 29, True), ("ada", 31, False), ("eve", 1, False), ("eve", 365 * 24 * 60, False),
])  # fmt: skip
def test_a_verification_is_good_for_its_user_and_half_an_hour(
    shop, kept, clock, tmp_path, user, minutes, pays
):
    graph = reacting(shop, kept, [ADA], [refund()], policy=policy(tmp_path, clock))
    assert graph.invoke(said("Refund A-1"), thread("ada"))["__interrupt__"]
    clock.wait(minutes=minutes)
    ended = graph.invoke(Command(resume="approve"), thread(user))
    assert shop.refunds == ([("A-1", 50.0)] if pays else [])
    assert pays or "has not been verified" in results(ended)[-1]


@pytest.mark.req("W-126")
def test_what_a_colleague_approves_days_later_is_who_it_was_asked_for(shop, kept, clock, tmp_path):
    graph = reacting(shop, kept, [ADA], [refund("A-2", 400.0)], policy=policy(tmp_path, clock))
    graph.invoke(said("Refund A-2"), thread("ada"))
    clock.wait(days=3)
    graph.invoke(Command(resume="approve"), thread("colleague"))
    assert shop.refunds == [("A-2", 400.0)]


@pytest.mark.req("W-126")
def test_the_file_says_how_long_and_another_customer_ends_it_at_once(shop, kept, clock, tmp_path):
    table = policy(tmp_path, clock, ("  tries: 5", "  minutes: 5"))
    graph = reacting(shop, kept, [ADA], [EVE], [refund()], policy=table)
    ended = graph.invoke(said("Refund A-1"), thread("ada"))
    assert "does not belong to the verified customer" in results(ended)[-1]
    graph = reacting(shop, kept, [refund("B-1")], [refund("B-1")], policy=table)
    clock.wait(minutes=4)
    assert graph.invoke(said("Refund B-1"), thread("ada"))["__interrupt__"]
    clock.wait(minutes=2)
    ended = graph.invoke(Command(resume="approve"), thread("ada"))
    assert "has not been verified" in results(ended)[-1]
    assert shop.refunds == []


def counted(shop):
    """The shop's tools, and the codes that the one that verifies was called with."""
    heard = []

    @tool
    async def verify_identity(customer_id: str, code: str) -> dict:
        """Verify a customer."""
        heard.append(code)
        await asyncio.sleep(0.01)
        return {"verified": code == "1842", "customer_id": customer_id}

    verify_identity.metadata = READ
    return heard, [verify_identity, *shop.tools()[1:]]


@pytest.mark.req("W-126", "W-121")
async def test_tries_are_those_of_all_threads_and_are_counted_before_they_are_made(
    shop, kept, clock, tmp_path
):
    heard, tools = counted(shop)
    shop.tools = lambda: tools
    table = policy(tmp_path, clock)

    async def guess(name, code, user="eve", who="C-1"):
        graph = reacting(
            shop, kept, [call("verify_identity", customer_id=who, code=code)], policy=table
        )
        return results(await graph.ainvoke(said("It is me"), thread(user, name)))[-1]

    ways = ["C-1", " c-1", "C1", "Ｃ-1"]
    wrong = [guess(f"eve {n}", f"{n:04}", who=ways[n % 4]) for n in range(16)]
    told = await asyncio.gather(*wrong)
    assert (len(heard), sum("is closed for a day" in one for one in told)) == (5, 11)
    assert "is closed" in await guess("eve, the right one", "1842")
    assert '"verified": true' in await guess("ada", "1842", user="ada")  # she has tries of her own
    clock.wait(hours=25)
    assert '"verified": true' in await guess("a day later", "1842")
    for n in range(7):  # what verifies is no failure
        assert '"verified": true' in await guess(f"again {n}", "1842")


@pytest.mark.req("W-126")
def test_at_the_desk_another_customer_starts_over(shop, kept, clock, tmp_path):
    seen = []
    order = call("get_order", order_id="A-1")
    script = [[ADA], [order], "Order A-1 costs {{r2.refundable}}.", [EVE], "You are verified.",
              "Order A-1 costs {{r2.refundable}}."]  # fmt: skip

    def works(messages, offered):
        seen.append(" ".join(m.text for m in messages[1:]))
        return script[len(seen) - 1] if len(seen) <= len(script) else "I do not know."

    understood = {"intent": "question", "mood": "calm", "score": 0}
    model = ScriptedModel({"listener": lambda *_: understood, "support": works} | PROOFREAD)
    graph = build_customer_service(
        model=model, tools=shop.tools(), policy=policy(tmp_path, clock), durability=kept
    )
    told = graph.invoke(said("I am Ada. What does A-1 cost?"), thread("u"))
    assert "149" in told["messages"][-1].text
    graph.invoke(said("Now I am Eve"), thread("u"))
    assert "C-1" in seen[3]
    assert "C-1" not in seen[4]
    told = graph.invoke(said("What does A-1 cost?"), thread("u"))
    assert not [text for text in seen[4:] if "A-1" in text.replace("What does A-1 cost?", "")]
    assert "149" not in told["messages"][-1].text


@pytest.mark.req("W-126")
def test_each_of_several_tools_verifies(shop, kept, clock, tmp_path):
    @tool
    def verify_by_name(name: str, postcode: str) -> dict:
        """Verify a customer by name and postcode."""
        return {"verified": (name, postcode) == ("Ada", "10115"), "customer_id": "C-1"}

    verify_by_name.metadata = READ
    tools = [verify_by_name, *shop.tools()]
    shop.tools = lambda: tools
    table = policy(
        tmp_path, clock, ("  tool: verify_identity", "  tool: [verify_identity, verify_by_name]")
    )
    named = call("verify_by_name", name="Ada", postcode="10115")
    graph = reacting(shop, kept, [refund()], [named], [refund()], policy=table)
    waits = graph.invoke(said("Refund A-1"), thread("ada"))
    assert "call verify_identity or verify_by_name" in results(waits)[0]
    graph.invoke(Command(resume="approve"), thread("ada"))
    assert shop.refunds == [("A-1", 50.0)]
