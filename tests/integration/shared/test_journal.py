"""One journal for every graph: what is asked for again is made, what is in doubt is asked."""

import asyncio
import threading
from collections import defaultdict
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, ScriptedModel, ThreadBusy, build_react, open_durability
from loopwright.store.journal.port import Fence
from support import killed
from support.flows import (
    THREAD,
    World,
    decide,
    declared,
    ended,
    flow,
    look,
    planning,
    put,
    said,
    step,
)
from support.other_run import run_elsewhere
from support.patience import PATIENCE
from support.reacting import DONE, LOOK
from support.scripts import call


def paying(book, *, hangs=1):
    async def pay(amount: int) -> str:
        """Pay; the first answers never come."""
        book.append(amount)
        if len(book) <= hangs:
            await asyncio.sleep(PATIENCE)
        return f"paid {amount}"

    return declared(pay)


def payer(*amounts):
    """A model of react that pays each amount in a turn of its own."""
    actions = [[call("pay", f"c{n}", amount=amount)] for n, amount in enumerate(amounts)]
    script = {
        "thought": [LOOK, DONE] * len(amounts),
        "action": actions,
        "observation": ["Paid."] * 9,
    }
    return ScriptedModel(script)


@pytest.mark.req("P-04")
def test_what_a_new_message_asks_for_again_is_made_again():
    world = World()
    graph = world.graph(planning(*[flow(put("w", 3))] * 2), checkpointer=InMemorySaver())
    for words in ("Put it down.", "Do it again."):
        assert ended(graph.invoke(said(words), THREAD)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [3, 3]
    book: list[int] = []
    graph = build_react(
        model=payer(3, 3), tools=[paying(book, hangs=0)], checkpointer=InMemorySaver()
    )
    for words in ("Pay 3.", "Do it again."):
        assert ended(graph.invoke(said(words), THREAD)["outcome"]) == ("complete", "GOAL")
    assert book == [3, 3]


@pytest.mark.req("P-06", "S2-30")
@pytest.mark.parametrize(
    ("answer", "amount", "approved"),
    [("respond: that one ran", "{{r.n}}", []), ("approve", 4, [3, 4]), ("reject", 4, [])],
)
async def test_a_write_in_doubt_is_asked_about_though_its_read_says_something_else_by_now(
    answer, amount, approved, tmp_path
):
    """Cut off in the write, then a new message, and what the write is made from is another."""
    made: list[int] = []
    reached, sums = threading.Event(), iter([3, 4])

    async def pay(amount: int) -> str:
        """Pay; the first answer never comes."""
        made.append(amount)
        if len(made) == 1:
            reached.set()
            await asyncio.sleep(PATIENCE)
        return f"paid {amount}"

    def plan(what):
        return flow(look("r", "sum"), step("w", "pay", ["r"], arguments={"amount": what}))

    world = World(sum=lambda: {"n": next(sums)})
    model = planning(plan("{{r.n}}"), plan(amount), recovery=[decide("give_up")])
    with open_durability(killed.World(tmp_path).url) as durability:
        graph = world.graph(model, tools=[declared(pay)], durability=durability)
        with killed.no_end_is_saved(durability):
            await killed.cut_off(graph, said(), reached)
        result = await graph.ainvoke(said("Please pay now."), THREAD)
        assert result["__interrupt__"][0].value["type"] == "uncertain_call"
        assert made == [3]
        outcome = (await graph.ainvoke(Command(resume=answer), THREAD))["outcome"]
    assert made == (approved if answer == "approve" else [3])
    assert (outcome["status"] == "complete") == (answer != "reject")
    assert outcome["uncertain_calls"] == []


@pytest.mark.req("P-06", "P-05")
@pytest.mark.parametrize(
    ("answer", "paid"), [("approve", [3, 4]), ("respond: it was 4", [3]), ("reject", [3])]
)
def test_a_doubt_about_another_write_of_the_tool_is_settled_first_in_react(answer, paid):
    book: list[int] = []
    actions = [[call("pay", "a", amount=3)], [call("pay", "b", amount=4)]]
    model = ScriptedModel(
        {"thought": [LOOK, LOOK, DONE, DONE], "action": actions, "observation": ["Go on."] * 3}
    )
    graph = build_react(model=model, tools=[paying(book)], checkpointer=InMemorySaver())
    result = graph.invoke(said("Pay 3, then 4."), THREAD, context=Context(tool_deadline=0.2))
    question = result["__interrupt__"][0].value
    assert (question["type"], book) == ("uncertain_call", [3])
    assert question["action_requests"][0]["args"] == {"amount": 4}
    assert "pay was called with {'amount': 3}" in question["action_requests"][0]["description"]
    outcome = graph.invoke(Command(resume=answer), THREAD)["outcome"]
    assert book == paid
    assert outcome["uncertain_calls"] == []


@pytest.mark.req("W-47", "P-05")
def test_a_run_whose_lock_was_lost_makes_no_further_write(tmp_path):
    """Somebody removes the lock; another process runs the thread while the first one goes on."""
    url, book = f"sqlite:///{tmp_path / 't.db'}", []

    def pay(amount: int) -> str:
        """Pay."""
        book.append(amount)
        for lock in (tmp_path / "t.db.locks").iterdir():
            lock.unlink()
        run_elsewhere(url, "t")
        return "paid"

    action = [[call("pay", "a", amount=3), call("pay", "b", amount=4)]]
    model = ScriptedModel({"thought": [LOOK, DONE], "action": action})
    with open_durability(url) as durability:
        graph = build_react(model=model, tools=[pay], durability=durability)
        with pytest.raises(ThreadBusy, match="stops before it changes anything more"):
            graph.invoke(said(), THREAD)
    assert book == [3]


class Shelf:
    """A journal of one's own: all it needs is to keep rows, and to change them at once."""

    durable = False

    def __init__(self) -> None:
        self.kept: Any = defaultdict(dict)
        self.lock = threading.Lock()
        self.allowed: Any = defaultdict(list)
        self.counted: Any = defaultdict(dict)
        self.wishes: Any = defaultdict(list)

    def rows(self, thread, names=()):
        return [r for r in self.kept[thread].values() if r.state != "closed" or r.name in names]

    def transact(self, thread, work, *, names=(), fence=None):
        with self.lock:
            result, change = work(self.rows(thread, names))
            self.kept[thread] |= {row.name: row for row in change.save}
            for name in change.drop:
                self.kept[thread].pop(name, None)
            return result

    def raise_fence(self, name):
        return Fence(name, 1)

    def grant(self, thread, grant):
        self.allowed[thread].append(dict(grant))

    def grants(self, thread):
        return self.allowed[thread]

    def write_counts(self, thread, turn, counts):
        self.counted[thread, turn] = dict(counts)

    def read_counts(self, thread, turn):
        return self.counted[thread, turn]

    def add_wish(self, thread, wish):
        self.wishes[thread].append(wish)

    def list_wishes(self, thread):
        return self.wishes[thread]

    def forget_wishes(self, thread, names):
        self.wishes[thread] = [one for one in self.wishes[thread] if one.name not in names]

    def forget(self, thread):
        self.kept.pop(thread, None)

    def close(self):
        pass


@pytest.mark.req("P-04", "P-06")
def test_a_journal_of_ones_own_comes_in_by_the_public_door():
    book: list[int] = []
    journal = Shelf()
    graph = build_react(
        model=payer(3, 3), tools=[paying(book)], journal=journal, checkpointer=InMemorySaver()
    )
    graph.invoke(said(), THREAD, context=Context(tool_deadline=0.2))
    assert [row.in_doubt for row in journal.rows("t")] == [True]
    result = graph.invoke(said("Pay, I said."), THREAD)
    assert result["__interrupt__"][0].value["type"] == "uncertain_call"
    outcome = graph.invoke(Command(resume="respond: it was paid"), THREAD)["outcome"]
    assert (ended(outcome), book) == (("complete", "GOAL"), [3])
    assert [row.state for row in journal.rows("t")] == ["finished"]
