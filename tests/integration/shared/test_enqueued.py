"""Turns that wait in the database: enqueued once, run in order by a worker, found again."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command
from typer.testing import CliRunner

from loopwright import (
    AnswerRejected,
    DatabaseError,
    ModelCallFailed,
    PolicyTable,
    SettingsError,
    ThreadIncompatible,
    build_plan_execute_verify,
    build_react,
    open_durability,
)
from loopwright.cli.app import app
from loopwright.policy.rules import GovernedTool
from loopwright.run.stop_and_steer import make_stop
from loopwright.run.worker import Worker
from loopwright.store.health import inspect_database
from loopwright.store.work.delivery import Delivery
from loopwright.store.work.turns import find_records, open_queue
from support.patience import PATIENCE
from support.shop import LEASE, OTHER, THREAD, Shop, commanded, said

pytestmark = pytest.mark.postgres
ASKED = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def durability(postgres_url):
    with open_durability(postgres_url) as opened:
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
    assert (answer.id, answer.kind, again.kind) == (again.id, "answer", "answer")
    assert len(durability.turns()) == 3
    await shop.work(lambda: shop.state("two") == "asks")
    assert (shop.state("yes"), shop.state("one"), shop.paid) == ("ended", "ended", ["apples"])
    assert shop.graph.enqueued(THREAD, "one").outcome["answer"] == "apples is paid"
    shop.graph.invoke(
        Command(resume={"type": "respond", "message": "paid bread"}), THREAD
    )  # or by who calls the graph
    await shop.work(lambda: shop.state("two") == "ended")
    assert shop.paid == ["apples"]


async def test_what_fails_is_tried_again_and_what_cannot_run_is_set_aside(durability, monkeypatch):
    monkeypatch.setattr("loopwright.run.worker._PAUSES", (0.01, 0.02))
    shop = Shop(durability)
    shop.away = 40
    with pytest.raises(ModelCallFailed):
        await shop.graph.atake(THREAD, "apples", id="one")
    shop.graph.enqueue(THREAD, "apples", id="one")  # whoever took it leaves it to the workers
    shop.graph.enqueue(THREAD, "bread", id="two")
    await shop.work(lambda: any(what == "failed" for what, *_ in shop.told))
    assert shop.graph.enqueued(THREAD, "one").state == "begun"
    assert next(why for what, _, why in shop.told if what == "failed") == "the model is away"
    shop.away = 0
    await shop.work(lambda: shop.state("two") == "ended")
    assert shop.paid == ["apples", "bread"]
    other = {"configurable": {"thread_id": "u"}}
    shop.graph.enqueue(other, "cheese", id="three")
    build_plan_execute_verify(model="offline", durability=durability).invoke(ASKED, other)
    await shop.work(lambda: shop.graph.enqueued(other, "three").over)
    aside = shop.graph.enqueued(other, "three")
    assert aside.state == "aside"
    assert "continue it with the graph that it belongs to" in aside.why
    assert ("set aside", "three", aside.why) in shop.told
    with pytest.raises(ThreadIncompatible):
        shop.graph.enqueue(other, "cheese", id="three")


def test_the_command_enqueues_once_and_refuses_what_no_worker_knows(durability, postgres_url):
    def command(*args):
        given = ["enqueue", "t", *args, "--db", postgres_url, "--json"]
        return CliRunner().invoke(app, given)

    for _ in range(2):
        done = command("apples", "--graph", "react", "--id", "one")
        told = {"thread": "t", "turn": "one", "graph": "react", "state": "waiting", "outcome": None}
        assert (done.exit_code, json.loads(done.stdout)) == (0, told)
    done = command("bread", "--graph", "react", "--at", "2d", "--id", "two")
    assert json.loads(done.stdout)["state"] == "planned"
    done = command("bread", "--graph", "react", "--at", "tomorrow")
    assert (done.exit_code, "'tomorrow' is no time" in done.stdout) == (2, True)
    done = command("apples", "--graph", "reakt")
    assert (done.exit_code, "There is no graph 'reakt'" in done.stdout) == (2, True)
    assert [one.id for one in durability.turns()] == ["one", "two"]
    durability.checkpointer.delete_thread("t")
    assert Shop(durability).state("one") is None


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
        await shop.work(lambda: True)
        assert durability.turns() == []
        assert len(shop.paid) == 3
        assert {one.thread_id for one in durability.threads("unfinished")} == {
            "paused", "before", "after",
        }  # fmt: skip


async def test_what_waits_and_what_is_set_aside_is_listed(durability, postgres_url):
    shop = Shop(durability, policy="ask")
    shop.graph.enqueue(THREAD, "apples", id="one")
    shop.graph.enqueue(THREAD, "bread")
    await shop.work(lambda: shop.state("one") == "asks")
    shop.graph.enqueue(OTHER, "cheese", id="three")
    settings = {"max_iterations": "many"}  # as an older version took it
    with durability.journal.open().block() as execute:
        execute("UPDATE procrastinate_jobs SET args = jsonb_set(args, '{body}', to_jsonb(replace("
                "args->>'body', '\"context\": null', ?))) WHERE args->>'turn' = 'three'",
                [f'"context": {json.dumps(settings)}'])  # fmt: skip
    await shop.work(lambda: shop.graph.enqueued(OTHER, "three").over)
    why = shop.graph.enqueued(OTHER, "three").why
    assert "context is wrong" in why
    shop.graph.enqueue(THREAD, Command(resume={"type": "approve"}), id="yes")
    code, told = commanded("turns", "--db", postgres_url)
    shown = [(one["thread"], one["state"], one["message"], one["why"]) for one in told["turns"]]
    assert (code, shown) == (0, [
        ("t", "asks", "apples", ""), ("t", "waiting", "bread", ""),
        ("u", "aside", "cheese", why), ("t", "waiting", '{"type": "approve"}', ""),
    ])  # fmt: skip
    found = [(one.level, one.check) for one in inspect_database(postgres_url)]
    assert ("warning", "turns") in found
    assert shop.graph.dequeue({"configurable": {"thread_id": "u"}}, "three").state == "dequeued"
    _, told = commanded("turns", "t", "--limit", "1", "--db", postgres_url)
    assert [one["turn"] for one in told["turns"]] == ["one"]
    listed = CliRunner().invoke(app, ["turns", "--db", postgres_url]).stdout.splitlines()
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
    kept = {"id": "forged", "thread": "t", "every": ""}
    body = {**forged.body, **kept, "config": served}
    with durability.journal.open().block() as execute:
        execute("UPDATE procrastinate_jobs SET args = args || jsonb_build_object('body', ?::text)"
                " WHERE args->>'turn' = 'forged'", [json.dumps(body)])  # fmt: skip
    await shop.work(lambda: shop.state("forged") == "aside")
    assert "Only the operator answers" in shop.graph.enqueued(THREAD, "forged").why
    assert (shop.paid, shop.state("one")) == ([], "asks")
    with durability.journal.open().block() as execute:  # as procrastinate's own tools do
        execute("DELETE FROM procrastinate_jobs WHERE args->>'turn' = 'forged'", [])
    shop.graph.enqueue(THREAD, yes, id="forged", answered_by="customer")
    await shop.work(lambda: shop.state("forged") == "aside")
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


SOON = timedelta(seconds=1.5)


async def test_a_planned_turn_comes_when_it_is_due_and_holds_up_nothing_before(durability):
    shop = Shop(durability)
    planned = shop.graph.enqueue(THREAD, "apples", id="one", at=timedelta(days=3))
    soon = shop.graph.enqueue(THREAD, "bread", id="two", at=datetime.now(UTC) + SOON)
    assert (planned.state, soon.state) == ("planned", "planned")
    shop.graph.enqueue(THREAD, "cheese", id="three")
    await shop.work(lambda: shop.state("two") == "ended")
    assert (shop.paid, shop.state("one")) == (["cheese", "bread"], "planned")
    assert [(one.id, one.state) for one in durability.turns()] == [("one", "planned")]
    assert shop.graph.dequeue(THREAD, "one").state == "dequeued"
    assert (durability.turns(), shop.state("one")) == ([], "dequeued")
    with pytest.raises(SettingsError, match="no time zone"):
        shop.graph.enqueue(THREAD, "apples", at=datetime(2026, 12, 24))  # noqa: DTZ001
    with pytest.raises(SettingsError, match="is no cron expression"):
        shop.graph.enqueue(THREAD, "apples", every="on Mondays")
    with pytest.raises(SettingsError, match="not by both"):
        shop.graph.enqueue(THREAD, "apples", every="* * * * *", at=SOON)


async def test_a_turn_is_run_again_and_again_each_time_as_one_of_its_own(durability):
    shop = Shop(durability)
    series = shop.graph.enqueue(THREAD, "apples", id="daily", every="0 9 * * *")
    assert (series.at.hour, series.at.minute, series.every) == (9, 0, "0 9 * * *")
    for n in (1, 2):
        with durability.journal.open().block() as execute:  # the days go by
            execute("UPDATE procrastinate_jobs SET scheduled_at = now() - make_interval(days => ?)"
                    " WHERE lock IS NULL", [n])  # fmt: skip
        await shop.work(lambda n=n: [what for what, *_ in shop.told].count("ended") == n)
    assert [one.id for one in durability.turns()] == ["daily"]
    assert said(shop.graph.get_state(THREAD).values["messages"]) == ["apples", "apples"]
    assert shop.graph.enqueued(THREAD, "daily").at > datetime.now(UTC)
    days = [datetime.now(UTC) - timedelta(days=n) for n in (1, 2)]
    ids = [name for what, name, _ in shop.told if what == "ended"]
    assert [name[:16] for name in ids] == [f"daily {day:%Y-%m-%d}" for day in days]
    with pytest.raises(SettingsError, match="another turn with the id 'daily'"):
        shop.graph.enqueue(THREAD, "apples", id="daily", every="0 10 * * *")
    assert shop.graph.dequeue(THREAD, "daily").state == "dequeued"
    assert durability.turns() == []


async def test_a_series_is_taken_back_though_somebody_is_at_it_and_comes_once(durability):
    shop = Shop(durability)
    queue, names = open_queue(shop.records), [shop.graph.name]
    shop.graph.enqueue(THREAD, "apples", id="daily", every="0 9 * * *")
    due = "UPDATE procrastinate_jobs SET scheduled_at = now() - interval '1 day' WHERE lock IS NULL"
    dead = "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'"
    with durability.journal.open().block() as execute:
        execute(due, [])
    first = Delivery(queue, names, LEASE)
    plan = await first.fetch()
    await queue.add_due(replace(plan, id=f"daily {plan.at:%Y-%m-%dT%H:%M:%SZ}", at=None, every=""))
    with durability.journal.open().block() as execute:
        execute(dead, [])  # in the middle of it
    await shop.work(lambda: (shop.state("daily"), len(jobs_of(durability))) == ("planned", 1))
    assert [what for what, *_ in shop.told].count("ended") == 1
    with durability.journal.open().block() as execute:
        execute(due, [])
    await first.fetch()
    assert shop.graph.dequeue(THREAD, "daily").state == "dequeued"
    with durability.journal.open().block() as execute:
        execute(dead, [])
    await shop.work(lambda: jobs_of(durability) == [])
    assert shop.state("daily") == "dequeued"
    assert [what for what, *_ in shop.told].count("ended") == 1


async def test_a_turn_whose_thread_is_deleted_while_it_runs_is_not_begun_anew(durability):
    shop = Shop(durability)
    shop.during = lambda: durability.checkpointer.delete_thread("t")
    shop.graph.enqueue(THREAD, "apples", id="one")
    await shop.work(lambda: {"busy", "ended"} & {what for what, *_ in shop.told})
    assert (jobs_of(durability), shop.paid) == ([], ["apples"])


def jobs_of(durability):
    with durability.journal.open().block() as execute:
        return execute("SELECT id FROM procrastinate_jobs", [])


async def test_a_turn_has_one_job_though_two_enqueue_it_at_once(durability):
    """Else the second waits for the lock of the first, and keeps that from being put back."""
    shop = Shop(durability, policy="ask")
    turn = shop.graph.enqueue(THREAD, "apples", id="one")
    first = Delivery(open_queue(shop.records), [shop.graph.name], LEASE)
    given = await first.fetch()
    assert not await first.queue.add_due(turn), "the other one looked before the first was there"
    await first.put_back(given, 0)
    await shop.work(lambda: shop.state("one") == "asks")
    shop.graph.enqueue(THREAD, Command(resume={"type": "approve"}))
    await shop.work(lambda: shop.state("one") == "ended")
    assert shop.paid == ["apples"]


async def test_what_could_not_be_told_is_given_out_again_by_a_worker_that_lives(
    durability, monkeypatch
):
    shop, cut = Shop(durability), set()
    queue = open_queue(shop.records)
    other = {"configurable": {"thread_id": "u"}}
    shop.graph.enqueue(THREAD, "apples", id="one", at=timedelta(0))
    shop.graph.enqueue(other, "cheese", id="two")
    build_plan_execute_verify(model="offline", durability=durability).invoke(ASKED, other)

    def fail_once(owner, name):
        works = getattr(owner, name)

        def call(*given):
            if name in cut:
                return works(*given)
            cut.add(name)
            raise DatabaseError("The connection was cut.")

        monkeypatch.setattr(owner, name, call)

    monkeypatch.setattr(Delivery, "repairs_every", 0.1)
    fail_once(queue, "add_due")  # of the plan
    fail_once(shop.records, "give_up")  # of what is another graph's
    await shop.work(lambda: shop.state("one") == "ended" and ("set aside", "two") in told(shop))
    assert cut == {"add_due", "give_up"}
    assert shop.paid == ["apples"]


def told(shop):
    return {(what, turn) for what, turn, _ in shop.told}


async def test_a_turn_is_there_when_the_transaction_counts_that_enqueued_it(
    durability, postgres_url
):
    shop = Shop(durability)
    with psycopg.connect(postgres_url) as own:
        own.execute("CREATE TABLE orders (name TEXT)")
        own.commit()
        for name, counts in (("apples", False), ("bread", True)):
            own.execute("INSERT INTO orders VALUES (%s)", [name])
            for _ in range(2):  # a second time it is the same, and costs the block nothing
                shop.graph.enqueue(THREAD, name, id=name, connection=own)
            assert shop.graph.enqueued(THREAD, name) is None
            own.commit() if counts else own.rollback()
        assert own.execute("SELECT name FROM orders").fetchall() == [("bread",)]
    async with await psycopg.AsyncConnection.connect(postgres_url) as own:
        for _ in range(2):
            await shop.graph.aenqueue(THREAD, "cheese", id="cheese", connection=own)
        assert shop.graph.enqueued(THREAD, "cheese") is None
        shop.graph.enqueue(OTHER, "bread", id="other")  # a first worker holds up nobody meanwhile
        await shop.work(lambda: shop.graph.enqueued(OTHER, "other").over)
    await shop.work(lambda: shop.state("cheese") == "ended")
    assert (sorted(shop.paid), shop.state("apples")) == (["bread", "bread", "cheese"], None)


async def test_a_worker_that_was_taken_for_dead_goes_on(durability):
    shop = Shop(durability)
    worker = shop.worker()
    working = asyncio.create_task(worker.work())
    for name in ("apples", "bread"):
        shop.graph.enqueue(THREAD, name, id=name)
        assert (await shop.graph.aenqueued(THREAD, name, wait=PATIENCE)).state == "ended"
        with durability.journal.open().block() as execute:  # as another one does, after a while
            execute("DELETE FROM procrastinate_workers", [])
    worker.leave()
    await working
    assert shop.paid == ["apples", "bread"]
    assert [what for what, *_ in shop.told] == ["taken", "ended"] * 2


def test_a_user_who_may_make_no_tables_is_told_how_the_queue_comes_into_being(postgres_url):
    with open_durability(postgres_url) as durability:
        Shop(durability)
    with psycopg.connect(postgres_url, autocommit=True) as own:
        name = f"clerk{own.info.dbname}"
        own.execute(f"CREATE ROLE {name} LOGIN")
        own.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
        own.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}")
        try:
            with open_durability(postgres_url.replace("postgres@", f"{name}@")) as durability:
                with pytest.raises(DatabaseError, match="loopwright doctor --prepare"):
                    Shop(durability).graph.enqueue(THREAD, "apples")
                assert Shop(durability).graph.take(THREAD, "apples", id="one").state == "ended"
                assert durability.turns() == []
                durability.dismiss("t")
            code, _ = commanded("doctor", "--prepare", "--db", postgres_url)
            assert code == 0
            own.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
            own.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}")
            with open_durability(postgres_url.replace("postgres@", f"{name}@")) as durability:
                assert Shop(durability).graph.enqueue(THREAD, "bread").state == "waiting"
        finally:
            own.execute(f"DROP OWNED BY {name}")
            own.execute(f"DROP ROLE {name}")


def test_turns_that_wait_in_an_earlier_queue_are_not_forgotten(durability):
    with durability.journal.open().block() as execute:
        execute("CREATE TABLE loopwright_turns (state TEXT)", [])
        execute("INSERT INTO loopwright_turns VALUES ('waiting'), ('asks'), ('ended')", [])
    with pytest.raises(DatabaseError, match=r"2 turns wait in .* an earlier loopwright"):
        Shop(durability).graph.enqueue(THREAD, "apples")


async def test_a_graph_with_a_long_name_has_a_queue_too(durability):
    graph = build_react(
        model="offline", durability=durability, name=f"a shop with a name of {'many ' * 9}words"
    )
    graph.enqueue(THREAD, "What is the time?", id="one")
    worker = Worker({graph.name: graph}, Delivery(graph_queue(durability), [graph.name], LEASE))
    working = asyncio.create_task(worker.work())
    assert (await graph.aenqueued(THREAD, "one", wait=PATIENCE)).state == "ended"
    worker.leave()
    await working


def graph_queue(durability):
    return open_queue(find_records(durability.journal))


@pytest.mark.req("W-162")
async def test_an_idle_worker_is_told_of_a_turn_and_need_not_look(durability, monkeypatch):
    monkeypatch.setattr("loopwright.run.worker._IDLE", 10**6)
    shop = Shop(durability)
    shop.graph.enqueue(THREAD, "apples", id="one")
    worker = shop.worker()
    working = asyncio.create_task(worker.work())
    for name in ("one", "two"):
        assert (await shop.graph.aenqueued(THREAD, name, wait=PATIENCE)).state == "ended"
        if name == "one":
            await asyncio.sleep(0.3)  # it rests
            shop.graph.enqueue(THREAD, "bread", id="two")
    worker.leave()
    await working
    assert shop.paid == ["apples", "bread"]
