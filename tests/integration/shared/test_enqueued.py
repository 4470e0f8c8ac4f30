"""Turns that wait in the database: enqueued once, run in order by a worker, found again."""

import asyncio
import json
from contextlib import suppress

import pytest
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command
from typer.testing import CliRunner

from loopwright import (
    AnswerRejected,
    PolicyTable,
    SettingsError,
    ThreadIncompatible,
    build_plan_execute_verify,
    build_react,
    open_durability,
)
from loopwright.cli.app import app
from loopwright.policy.rules import GovernedTool
from loopwright.run.queued_input import QueuedInput
from loopwright.run.stop_and_steer import make_stop
from loopwright.store.health import inspect_database
from loopwright.store.threads.turns import TurnQueue
from support.patience import PATIENCE
from support.shop import THREAD, Shop, commanded, said

ASKED = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def durability(url):
    with open_durability(url) as opened:
        yield opened


async def test_each_message_is_a_turn_of_its_own_in_order_and_once(durability):
    shop = Shop(durability)
    for name in ("apples", "bread", "apples", "cheese"):
        turn = shop.graph.enqueue(THREAD, name, id=name, context={"max_iterations": 9})
        assert (turn.id, turn.thread, turn.graph, turn.state) == (name, "t", "react", "waiting")
    await shop.work(lambda: shop.state("cheese") == "ended", concurrency=3)
    assert shop.paid == ["apples", "bread", "cheese"]
    state = await shop.graph.aget_state(THREAD)
    assert said(state.values["messages"]) == shop.paid
    turn = await shop.graph.aenqueued(THREAD, "bread", wait=1)
    assert turn.over
    assert turn.outcome["answer"] == "bread is paid"
    assert turn.outcome["status"] == "complete"
    assert shop.graph.enqueued(THREAD, "never") is None
    assert [what for what, *_ in shop.told] == ["taken", "ended"] * 3


async def test_a_question_holds_the_thread_until_it_is_answered(durability):
    shop = Shop(durability, policy="ask")
    shop.graph.enqueue(THREAD, "apples", id="one")
    shop.graph.enqueue(THREAD, "bread", id="two")
    await shop.work(lambda: shop.state("one") == "asks")
    turn = await shop.graph.aenqueued(THREAD, "one", wait=PATIENCE)  # returns although it goes on
    assert (turn.over, turn.outcome, shop.paid) == (False, None, [])
    with pytest.raises(AnswerRejected, match="No question"):
        shop.graph.enqueue(THREAD, Command(resume={"0" * 32: {"type": "approve"}}))
    answer = shop.graph.enqueue(THREAD, Command(resume={"type": "approve"}), id="yes")
    again = shop.graph.enqueue(THREAD, Command(resume={"type": "approve"}), id="yes")
    assert (answer, answer.kind) == (again, "answer")
    await shop.work(lambda: shop.state("two") == "asks")
    assert (shop.state("yes"), shop.state("one"), shop.paid) == ("ended", "ended", ["apples"])
    assert shop.graph.enqueued(THREAD, "one").outcome["answer"] == "apples is paid"
    shop.graph.invoke(
        Command(resume={"type": "respond", "message": "paid bread"}), THREAD
    )  # or by who calls the graph
    shop.turns.postpone(shop.graph.enqueued(THREAD, "two"), 0, asks=True, failed=False)
    await shop.work(lambda: shop.state("two") == "ended")
    assert shop.paid == ["apples"]


async def test_what_fails_is_tried_again_and_what_cannot_run_is_set_aside(durability, monkeypatch):
    monkeypatch.setattr("loopwright.run.worker._PAUSES", (0.01, 0.02))
    shop = Shop(durability)
    shop.away = 40
    shop.graph.enqueue(THREAD, "apples", id="one")
    shop.graph.enqueue(THREAD, "bread", id="two")
    await shop.work(lambda: any(what == "failed" for what, *_ in shop.told))
    assert shop.graph.enqueued(THREAD, "one").state == "begun"
    assert next(why for what, _, why in shop.told if what == "failed") == "the model is away"
    shop.away = 0
    await shop.work(lambda: shop.state("two") == "ended")
    assert shop.paid == ["apples", "bread"]
    other = {"configurable": {"thread_id": "u"}}
    shop.graph.enqueue(other, "cheese", id="three")
    (taken,) = shop.turns.take(["react"], 5, 0.0)
    build_plan_execute_verify(model="offline", durability=durability).invoke(ASKED, other)
    await shop.work(lambda: shop.graph.enqueued(other, "three").over)
    aside = shop.graph.enqueued(other, "three")
    assert (aside.id, aside.state) == (taken.id, "aside")
    assert "continue it with the graph that it belongs to" in aside.why
    assert ("set aside", "three", aside.why) in shop.told
    with pytest.raises(ThreadIncompatible):
        shop.graph.enqueue(other, "cheese", id="three")


async def test_what_was_cut_off_goes_on_wherever_it_was_cut_off(durability):
    """A worker that dies leaves the turn begun: with the message in the thread, or not yet."""
    shop = Shop(durability)
    turn = shop.graph.enqueue(THREAD, "apples", id="one")
    shop.graph.enqueue(THREAD, "bread", id="two")
    (taken,) = shop.turns.take(["react"], 5, 0.0)
    assert (taken.id, shop.turns.begin(taken).runs) == (turn.id, 1)
    await shop.work(lambda: shop.state("one") == "ended")
    ended = shop.graph.enqueued(THREAD, "one")
    # Its end was not recorded: the thread has it.
    with shop.turns._open_block() as execute:
        execute("UPDATE loopwright_turns SET state = 'begun', outcome = NULL, due = 0"
                " WHERE seq = ?", [ended.number])  # fmt: skip
    await shop.work(lambda: {shop.state("one"), shop.state("two")} == {"ended"})
    assert (shop.paid, shop.state("one")) == (["apples", "bread"], "ended")


def test_a_turn_whose_worker_dies_before_it_begins_keeps_its_place(durability):
    shop = Shop(durability)
    for thread in "abc":
        shop.graph.enqueue({"configurable": {"thread_id": thread}}, "apples", id="one")
    (taken,) = shop.turns.take(["react"], 1, 0.0)
    (again,) = shop.turns.take(["react"], 1, 0.0)
    assert (again.thread, again.state, again.was_dropped) == (taken.thread, "begun", False)
    shop.turns.postpone(again, 0.0, asks=False, failed=False)  # its thread was busy
    found = shop.graph.enqueued({"configurable": {"thread_id": taken.thread}}, "one")
    assert (found.state, shop.turns.take(["react"], 1, 0.0)[0].thread) == ("waiting", "b")


@pytest.mark.parametrize(
    ("message", "more", "why"),
    [
        ("", {}, "or empty"),
        ({"role": "wizard", "content": "x"}, {}, "wizard"),
        ({"role": "assistant", "content": "x"}, {}, "none of the user's"),
        ("x", {"context": {"max_iterations": "many"}}, "context is wrong"),
        ({"messages": ["x"], "plan": object()}, {}, "must be JSON"),
        (HumanMessage("x"), {"id": "apples"}, "another turn with the id"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, message, more, why):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        shop = Shop(durability)
        shop.graph.enqueue(THREAD, "apples", id="apples")
        with pytest.raises(SettingsError, match=why):
            shop.graph.enqueue(THREAD, message, **more)


def test_nothing_waits_where_nothing_outlives_the_process():
    graph = build_react(model="offline")
    with pytest.raises(SettingsError, match="durability="):
        graph.enqueue(THREAD, "x")


def test_the_command_enqueues_once_and_refuses_what_no_worker_knows(durability, url):
    def command(*args):
        return CliRunner().invoke(app, ["enqueue", "t", *args, "--db", url, "--json"])

    for _ in range(2):
        done = command("apples", "--graph", "react", "--id", "one")
        told = {"thread": "t", "turn": "one", "graph": "react", "state": "waiting", "outcome": None}
        assert (done.exit_code, json.loads(done.stdout)) == (0, told)
    done = command("apples", "--graph", "reakt")
    assert (done.exit_code, "There is no graph 'reakt'" in done.stdout) == (2, True)
    assert [one.id for one in TurnQueue(durability.journal).take(["react"], 5, 0.0)] == ["one"]
    durability.checkpointer.delete_thread("t")
    assert Shop(durability).state("one") is None


@pytest.mark.postgres
async def test_a_worker_takes_what_died_and_leaves_what_was_let_go(postgres_url):
    """A pause and a breakpoint are the program's: it goes on with them when it likes."""
    with open_durability(postgres_url) as durability:
        shop, drained = Shop(durability), RunControl()
        drained.request_drain("the machine goes down")
        left = {
            "died": {"control": drained}, "paused": {"control": drained}, "foreign": {},
            "before": {"interrupt_before": ["call_tools"]},
            "after": {"interrupt_after": ["call_tools"]},
        }  # fmt: skip
        for thread, how in left.items():
            told = {} if thread == "foreign" else {"loopwright_graph": "react"}
            config = {"configurable": {"thread_id": thread}, "metadata": told}
            with suppress(GraphDrained):
                shop.graph.invoke({"messages": [("user", "apples")]}, config, **how)
        assert shop.paid == ["apples"] * 2, "of foreign and after"
        killed = "UPDATE loopwright_threads SET owner = 'x', until = now() WHERE name = 'died'"
        with durability.journal.open().block() as execute:
            execute(killed, [])
        await shop.work(lambda: any(what == "ended" for what, *_ in shop.told))
        state = await shop.graph.aget_state({"configurable": {"thread_id": "died"}})
        assert (state.next, state.values["outcome"]["status"]) == ((), "complete")
        assert {turn and turn.split()[0] for _, turn, _ in shop.told} == {"resume"}
        shop.told.clear()
        shop.turns.adopt(["react"])
        assert durability.turns() == []
        assert len(shop.paid) == 3
        assert {one.thread_id for one in durability.threads("unfinished")} == {
            "paused", "before", "after",
        }  # fmt: skip


async def test_what_was_given_up_halfway_is_not_gone_on_with(durability):
    """Else the turn that ends its workers would end those of the next turns, too."""
    shop = Shop(durability)
    due = QueuedInput(shop.graph.enqueue(THREAD, "apples", id="apples"), shop.turns)
    await shop.graph.ainvoke(due, THREAD, interrupt_before=["call_tools"])
    assert shop.graph.get_state(THREAD).next == ("call_tools",)
    shop.turns.end(due.turn, "aside", "It ended its worker each time.")
    shop.graph.enqueue(THREAD, "bread", id="bread")
    await shop.work(lambda: shop.state("bread") == "ended")
    assert shop.paid == ["bread"]
    assert said(shop.graph.get_state(THREAD).values["messages"]) == ["apples", "bread"]


async def test_what_waits_and_what_is_set_aside_is_listed(durability, url):
    shop = Shop(durability, policy="ask")
    shop.graph.enqueue(THREAD, "apples", id="one")
    shop.graph.enqueue(THREAD, "bread")
    await shop.work(lambda: shop.state("one") == "asks")
    shop.graph.enqueue(THREAD, Command(resume={"type": "approve"}), id="yes")
    aside = shop.graph.enqueue({"configurable": {"thread_id": "u"}}, "cheese", id="three")
    shop.turns.end(aside, "aside", "it never ran")
    code, told = commanded("turns", "--db", url)
    shown = [(one["thread"], one["state"], one["message"], one["why"]) for one in told["turns"]]
    assert (code, shown) == (0, [
        ("t", "asks", "apples", ""), ("t", "waiting", "bread", ""),
        ("t", "waiting", '{"type": "approve"}', ""), ("u", "aside", "cheese", "it never ran"),
    ])  # fmt: skip
    assert ("warning", "turns") in [(one.level, one.check) for one in inspect_database(url)]
    assert shop.graph.dequeue({"configurable": {"thread_id": "u"}}, "three").state == "dequeued"
    _, told = commanded("turns", "t", "--limit", "1", "--db", url)
    assert [one["turn"] for one in told["turns"]] == ["one"]
    listed = CliRunner().invoke(app, ["turns", "--db", url]).stdout.splitlines()
    assert [line.split("\t")[2] for line in listed] == ["state", "asks", "waiting", "waiting"]


@pytest.mark.req("W-120")
async def test_by_the_queue_a_customer_answers_no_question_of_the_operators(durability):
    shop = Shop(
        durability, policy=PolicyTable(tools={"pay": GovernedTool(name="pay", **COLLEAGUE)})
    )
    shop.graph.enqueue(THREAD, "apples", id="one")
    await shop.work(lambda: shop.state("one") == "asks")
    yes, served = Command(resume="approve"), {"configurable": {"thread_id": "t", "graph_id": "g"}}
    for where, whose in ((served, {}), (THREAD, {"answered_by": "customer"})):
        with pytest.raises(AnswerRejected, match="Only the operator answers"):
            shop.graph.enqueue(where, yes, **whose)
    forged = shop.graph.enqueue(THREAD, yes, id="forged")  # as one that was there before this check
    body = {**forged.body, "config": served}
    with shop.turns._open_block() as execute:
        execute("UPDATE loopwright_turns SET body = ? WHERE seq = ?",
                [json.dumps(body), forged.number])  # fmt: skip
    await shop.work(lambda: shop.state("forged") == "aside")
    assert "Only the operator answers" in shop.graph.enqueued(THREAD, "forged").why
    assert (shop.paid, shop.state("one")) == ([], "asks")
    code, _ = commanded("enqueue", "t", "approve", "--answer", "--db", durability.url)
    assert code == 0
    await shop.work(lambda: shop.state("one") == "ended")
    assert shop.paid == ["apples"]


COLLEAGUE = {"verdict": "asks", "identity": False}


class Hanging(Shop):
    """Its model says nothing any more once something is paid, until it is let go."""

    hangs = True

    def answer(self, messages, offered):
        if self.paid and self.hangs:
            return asyncio.Event().wait()
        return super().answer(messages, offered)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_stop_is_heeded_by_whoever_goes_on_after_the_worker_it_was_meant_for(durability):
    shop = Hanging(durability)
    shop.graph.enqueue(THREAD, "apples", id="apples", context={"max_iterations": 9})
    working = asyncio.create_task(shop.worker().work())
    async with asyncio.timeout(PATIENCE):
        while shop.paid == []:  # noqa: ASYNC110 - a thread appends to it
            await asyncio.sleep(0.02)
    durability.journal.add_wish("t", make_stop())  # the thread is held: its run will look
    running = [one for one in asyncio.all_tasks() if "_attempt" in repr(one)]
    for one in [working, *running]:
        one.cancel()
    await asyncio.wait([working, *running])
    shop.hangs = False
    await shop.work(lambda: shop.state("apples") == "ended")
    assert shop.graph.enqueued(THREAD, "apples").outcome["status"] == "cancelled"
    assert durability.journal.list_wishes("t") == []
