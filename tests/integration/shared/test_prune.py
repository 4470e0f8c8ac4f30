"""Threads made smaller: what is kept stays as it was, and what must not be touched is left."""

import asyncio
import os
import random
import re
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing
from datetime import timedelta
from typing import Annotated, Any
from uuid import uuid4

import psycopg
import pytest
from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    open_durability,
)
from loopwright.state.errors import SettingsError, ThreadBusy, ThreadIncompatible, ThreadNotFound
from loopwright.store.locks.thread_locks import (
    PRUNES,
    build_lock_name,
    is_waited_for,
    lock_thread_blocking,
)
from support.flows import flow
from support.forked import Command, server
from support.patience import PATIENCE
from support.scripts import call, passed, plan, report, thought, todo
from support.toy_graphs import greeter, hello, on

WORDS = ["".join(random.choices("etaoinshrdlu", k=random.randint(2, 9))) for _ in range(500)]


def text(size):
    return " ".join(random.choices(WORDS, k=size // 4))[:size]


def said(words="Who owns it?"):
    return {"messages": [{"role": "user", "content": words}]}


def get(name: str) -> str:
    """Look up a fact."""
    return f"Ada owns {name}. {text(300)}"


def react(kept, **more):
    """Each turn looks once and answers."""

    def think(messages, offered):
        looked = any(m.type == "tool" for m in messages[-4:])
        return thought("Ada owns it.") if looked else thought("I look.", more=True, reason="I must")

    model = ScriptedModel({
        "thought": think,
        "action": lambda *_: [call("get", name="it")],
        "observation": lambda *_: "The owner is Ada; answer now.",
    })  # fmt: skip
    return build_react(
        **{"model": model, "tools": [get], "durability": kept, "foreign": "allow", **more}
    )


def plan_execute_verify(kept):
    model = ScriptedModel({
        "planner": lambda *_: plan(todo("1", "Find the owner")),
        "executor": lambda messages, _: (
            report("It is Ada.") if messages[-1].type == "tool" else [call("get", name="it")]
        ),
        "verifier": lambda *_: passed("Ada owns it.", t1=["1.1.0"]),
    })  # fmt: skip
    return build_plan_execute_verify(model=model, tools=[get], durability=kept, foreign="allow")


def prompt_flow(kept):
    def show(what: str) -> str:
        """Show."""
        return f"{what} {text(300)}"

    steps = [
        {"id": "a", "description": "a", "tool": "show", "arguments": {"what": "it"}},
        {"id": "b", "description": "b", "tool": "show", "arguments": {"what": "{{a}}"},
         "dependencies": ["a"]},
    ]  # fmt: skip
    model = ScriptedModel({
        "flow_planner": lambda *_: flow(*steps),
        "answerer": lambda *_: "It comes to this: [a] [b]",
    })  # fmt: skip
    return build_prompt_flow(model=model, tools=[show], durability=kept, foreign="allow")


def states(graph, thread="t"):
    """All that can be read of a thread, newest first: id and values."""
    history = graph.get_state_history(on(thread))
    return [(s.config["configurable"]["checkpoint_id"], s.values, s.next) for s in history]


def asked(url, sql):
    """Rows of a statement, straight from the database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
            rows = database.execute(sql).fetchall()
            database.commit()
            return rows
    own = re.sub(r"\bwrites\b", "checkpoint_writes", sql)
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(own).fetchall()


def count(url, table, where="true"):
    return asked(url, f"SELECT count(*) FROM {table} WHERE {where}")[0][0]


BOTH = [
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgres", id="postgres", marks=[pytest.mark.postgres, pytest.mark.req("W-93")]),
]


@pytest.fixture(params=BOTH)
def url(request, tmp_path):
    """A new database of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/t.db"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.db"


@pytest.fixture
def kept(url):
    with open_durability(url) as opened:
        yield opened


GRAPHS = [react, plan_execute_verify, prompt_flow]
HOW: list[dict[str, Any]] = [
    {"keep": "latest"},
    {"turns": 3},
    {"turns": 99},
    {"older_than": timedelta()},
]


@pytest.fixture(
    scope="module",
    params=[(react, "sqlite"), (plan_execute_verify, "sqlite"), (prompt_flow, "postgres")],
    ids=lambda one: f"{one[0].__name__}-{one[1]}",
)
def five_turns(request, tmp_path_factory):
    """What makes a graph, a database in which its thread has five turns, and their states."""
    make, kind = request.param
    if kind == "postgres":
        filled = request.getfixturevalue("postgres_server").database()
    else:
        filled = f"sqlite:///{tmp_path_factory.mktemp('five')}/t.db"
    with open_durability(filled) as kept:
        graph = make(kept)
        for turn in range(5):
            graph.invoke(said(f"turn {turn}"), on("t"))
        before = states(graph)
    return make, filled, before


def copied(filled, path, server):
    """The same database once more."""
    if filled.startswith("sqlite"):
        shutil.copy(filled.removeprefix("sqlite:///"), path)
        return f"sqlite:///{path}"
    name = f"c{uuid4().hex}"
    server.run(f"CREATE DATABASE {name} TEMPLATE {filled.rpartition('/')[2]}")
    return server.url(name)


@pytest.mark.req("W-15", "W-93", "P-23")
@pytest.mark.parametrize("how", HOW, ids=str)
def test_what_is_kept_is_as_it_was_and_the_thread_goes_on(five_turns, path, how, request):
    make, filled, before = five_turns
    server = None if filled.startswith("sqlite") else request.getfixturevalue("postgres_server")
    url = copied(filled, path, server)
    with open_durability(url) as kept:
        is_kept_and_goes_on(make, kept, url, before, how)


def is_kept_and_goes_on(make, kept, url, before, how):
    graph = make(kept)
    done = kept.prune(**how)
    after = states(graph)
    assert (done.left, done.threads) == ({}, ["t"] if len(after) < len(before) else done.threads)
    assert after == before[: len(after)]
    begun = [m.text for _, values, _ in after[-1:] for m in values["messages"] if m.type == "human"]
    # The oldest that is kept is where its turn begins, before it has read the message.
    assert len(begun) == {"turns": max(5 - how.get("turns", 5), 0)}.get(
        next(iter(how)), 0 if how.get("older_than") else 5
    )
    if len(after) == 1:
        assert count(url, "checkpoints") == 1
    again = make(kept)
    result = again.invoke(said("the last turn"), on("t"))
    assert result["outcome"]["status"] == "complete"
    texts = [m.text for m in result["messages"] if m.type == "human"]
    assert texts == [*(f"turn {turn}" for turn in range(5)), "the last turn"]
    assert states(again)[-len(after) :] == after


@pytest.mark.req("W-15")
def test_a_fork_of_what_was_kept_goes_on_and_one_of_what_is_gone_does_not_write(kept):
    graph = react(kept)
    for turn in range(4):
        graph.invoke(said(f"turn {turn}"), on("t"))
    ends = [s.config for s in graph.get_state_history(on("t")) if s.values.get("outcome")]
    gone = next(s.config for s in reversed([*graph.get_state_history(on("t"))]))
    # A branch that leaves the line of the thread, and is the newest now.
    middle = next(
        s.config for s in graph.get_state_history(on("t"))
        if len([m for m in s.values.get("messages", []) if m.type == "human"]) == 2
        and s.values.get("outcome")
    )  # fmt: skip
    graph.invoke(said("forked"), middle)
    state = graph.get_state(on("t"))
    kept.prune(turns=2)
    assert graph.get_state(on("t")) == state._replace(parent_config=state.parent_config)
    assert graph.get_state(middle).values
    assert not graph.get_state(gone).values
    assert not graph.get_state(ends[0]).values, "the branch that the thread left is gone"
    result = graph.invoke(said("forked again"), middle)
    asked = [m.text for m in result["messages"] if m.type == "human"]
    assert asked == ["turn 0", "turn 1", "forked again"]


@pytest.mark.req("W-15")
def test_a_long_thread_is_small_again(tmp_path):
    """More than 50 turns, and as many updates of each channel: snapshots stand in between."""
    path = tmp_path / "long.db"
    with open_durability(f"sqlite:///{path}") as kept:
        graph = react(kept)
        for turn in range(60):
            graph.invoke(said(f"turn {turn} {text(1000)}"), on("t"))
        values = graph.get_state(on("t")).values
    before = path.stat().st_size
    with open_durability(f"sqlite:///{path}") as kept:
        done = kept.prune(keep="latest")
        assert react(kept).get_state(on("t")).values == values
    assert path.stat().st_size <= 0.15 * before
    assert (done.before, done.after) == (before, path.stat().st_size)


def pay_asked(kept, **more):
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({
        "thought": lambda *_: thought("I pay.", more=True, reason="I must"),
        "action": lambda *_: [call("pay", amount=3)],
        "observation": lambda *_: "Go on.",
    })  # fmt: skip
    return build_react(model=model, tools=[pay], durability=kept, foreign="allow", **more)


def stopping():
    """A graph that gets no further than its second node."""

    async def stop(state: Any) -> Any:
        msg = "no power"
        raise RuntimeError(msg)

    builder = greeter()
    builder.add_node("stop", stop)
    builder.add_edge("greet", "stop")
    return builder


def doubtful(kept):
    """A thread with a call of which nobody knows whether it took effect."""

    async def pay(amount: int) -> str:
        """Pay; the answer never comes."""
        await asyncio.sleep(PATIENCE)
        return "paid"

    model = ScriptedModel({
        "thought": [thought("I pay.", more=True, reason="I must"), thought("I cannot tell.")],
        "action": [[call("pay", amount=3)]],
        "observation": ["Nobody knows."],
    })  # fmt: skip
    doubting = build_react(model=model, tools=[pay], durability=kept, foreign="allow")
    doubting.invoke(said(), on("doubts"), context=Context(tool_deadline=0.2, interactive=False))


@pytest.mark.req("W-15")
def test_a_thread_with_a_question_a_doubt_an_unfinished_turn_or_a_run_is_left(kept, url):
    react(kept).invoke(said(), on("asks"))
    pay_asked(kept, policy="ask").invoke(said(), on("asks"))
    doubtful(kept)
    with pytest.raises(RuntimeError, match="no power"):
        stopping().compile(kept.checkpointer).invoke(hello(), on("stopped"))
    react(kept).invoke(said(), on("rests"))
    begun, go_on = threading.Event(), threading.Event()

    def get(name: str) -> str:
        """Look up a fact."""
        begun.set()
        go_on.wait(PATIENCE)
        return "Ada"

    graph = react(kept, tools=[get])
    running = threading.Thread(target=graph.invoke, args=(said(), on("runs")))
    running.start()
    assert begun.wait(PATIENCE)

    def rows(name):
        return count(url, "checkpoints", f"thread_id = '{name}'")

    before = {name: rows(name) for name in kept.thread_ids()}
    for how in HOW[:3]:
        done = kept.prune(**how)
        assert done.left == {
            "asks": "a question waits for an answer",
            "doubts": "nobody knows whether a call of it took effect",
            "stopped": "its turn has not ended",
            "runs": "a run holds it",
        }
    assert {name for name, number in before.items() if rows(name) < number} == {"rests"}
    go_on.set()
    running.join()


@pytest.mark.req("W-15")
def test_the_journal_keeps_what_the_kept_turns_did(kept, url):
    book: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        book.append(amount)
        return "paid"

    def think(messages, offered):
        paid = any(m.type == "tool" for m in messages[-4:])
        return thought("It is paid.") if paid else thought("I pay.", more=True, reason="I must")

    model = ScriptedModel({
        "thought": think,
        "action": lambda *_: [call("pay", amount=len(book))],
        "observation": lambda *_: "It is paid.",
    })  # fmt: skip
    graph = build_react(model=model, tools=[pay], durability=kept, foreign="allow")
    for _ in range(4):
        graph.invoke(said("Pay"), on("t"))
    graph.invoke(said("Pay"), on("u"))
    kept.journal.grant("t", {"tool": "pay"})
    rows = "kind = 'intent' AND thread = '{}'"
    assert count(url, "loopwright_journal", rows.format("t")) == 4
    kept.prune("t", turns=2)
    # Two turns, and the one before, as which the thread stands where the older of them begins.
    assert count(url, "loopwright_journal", rows.format("t")) == 3
    assert count(url, "loopwright_journal", rows.format("u")) == 1
    assert kept.journal.grants("t") == [{"tool": "pay"}]
    graph.invoke(said("Pay"), on("t"))
    assert book == [0, 1, 2, 3, 4, 5]


@pytest.mark.req("W-15")
def test_a_long_result_stays_as_long_as_a_message_names_it(kept, url):
    def get(name: str) -> str:
        """Get a lot."""
        return f"{name} " * 20_000

    def think(messages, offered):
        looked = any(m.type == "tool" for m in messages[-4:])
        return thought("Ada owns it.") if looked else thought("I look.", more=True, reason="I must")

    number = iter(range(100))
    model = ScriptedModel({
        "thought": think,
        "action": lambda *_: [call("get", name=f"fact{next(number)}")],
        "observation": lambda *_: "The owner is Ada; answer now.",
    })  # fmt: skip
    graph = build_react(model=model, tools=[get], durability=kept, foreign="allow")
    for _ in range(3):
        result = graph.invoke(said(), on("t"))
    assert count(url, "store") == 3
    kept.prune(keep="latest")
    assert count(url, "store") == 3, "the conversation names them all"
    first = next(m for m in result["messages"] if m.type == "tool")
    graph.update_state(on("t"), {"messages": [AIMessage("Forgotten.", id=first.id)]})
    kept.prune(keep="latest")
    assert count(url, "store") == 2


def joined(state: list[str], writes: Any) -> list[str]:
    return [*state, *(line for write in writes for line in write)]


class Own(TypedDict):
    log: Annotated[list[str], DeltaChannel(joined)]


class Plain(TypedDict):
    messages: Annotated[list[Any], add_messages]


@pytest.mark.req("W-15")
def test_a_graph_of_ones_own_is_pruned_or_left_but_never_damaged(kept):
    def log(state: Own) -> Own:
        return {"log": [str(len(state["log"]))]}

    def answer(state: Plain) -> Any:
        return {"messages": [AIMessage("Yes.")]}

    own, plain = StateGraph(Own), StateGraph(Plain)
    own.add_node("log", log)
    own.add_edge(START, "log")
    plain.add_node("answer", answer)
    plain.add_edge(START, "answer")
    graphs = [builder.compile(kept.checkpointer) for builder in (own, plain)]
    for _ in range(3):
        graphs[0].invoke({"log": ["in"]}, on("own"))
        graphs[1].invoke(said(), on("plain"))
    before = [states(graph, name) for graph, name in zip(graphs, ("own", "plain"), strict=True)]
    done = kept.prune(keep="latest")
    assert done.left == {"own": "its graph is not one of this package's"}
    assert states(graphs[0], "own") == before[0]
    assert states(graphs[1], "plain") == before[1][:1]


NONSENSE: list[dict[str, Any]] = [
    {}, {"keep": "latest", "turns": 1}, {"turns": 0}, {"turns": True}, {"turns": 1.5},
    {"keep": "all"}, {"older_than": 30}, {"older_than": timedelta(days=-1)},
]  # fmt: skip


@pytest.mark.req("W-15")
def test_what_makes_no_sense_is_refused_and_nothing_is_pruned(kept):
    graph = react(kept)
    graph.invoke(said(), on("t"))
    before = states(graph)
    for how in NONSENSE:
        with pytest.raises(SettingsError):
            kept.prune(**how)
    with pytest.raises(ThreadNotFound, match="No thread 'x' is saved"):
        kept.prune("x", keep="latest")
    assert states(graph) == before
    assert kept.prune(older_than=timedelta.max).threads == []


KILLED = """
import os, signal, sys, time
from loopwright import open_durability
from loopwright.store.threads.pruning import ThreadPruning
left = int(sys.argv[2])
def dying(name):
    whole = getattr(ThreadPruning, name)
    def step(self, *args):
        global left
        found = whole(self, *args)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(ThreadPruning, name, step)
for name in ("_make_standalone", "_remove", "_forget_inner", "_forget_calls", "_forget_results"):
    dying(name)
with open_durability(sys.argv[1], lease=1) as kept:
    while kept.prune("a", keep="latest").left:  # after a kill its lease is still to end
        time.sleep(0.1)
"""


@pytest.mark.req("W-15")
def test_a_kill_in_the_middle_loses_nothing(url, path):
    names, script = ("a",), path.with_name("killed.py")
    script.write_text(KILLED)
    with open_durability(url) as kept:
        graph = plan_execute_verify(kept)
        for name in names:
            for _ in range(2):
                graph.invoke(said(), on(name))
        before = {name: states(graph, name) for name in names}
    for left in range(1, 20):
        with Command(server(), (url, str(left)), env=os.environ, script=script) as process:
            code = process.wait(PATIENCE)
        with open_durability(url) as kept:
            graph = plan_execute_verify(kept)
            for name, all_of_it in before.items():
                found = states(graph, name)
                assert found == all_of_it[: len(found)]
                assert len(found) in {1, len(all_of_it)}
                assert kept.threads()
        if code == 0:
            break
        assert code == -signal.SIGKILL
    else:
        pytest.fail("it never came to the end")
    with open_durability(url) as kept:
        graph = plan_execute_verify(kept)
        for name in names:
            assert graph.invoke(said(), on(name))["outcome"]["status"] == "complete"


# Older checkpoints deleted by somebody else


def delete_older(url, newest, thread="t"):
    """What a cron job does that knows nothing of channels saved as writes."""
    of_it = f"thread_id = '{thread}' AND checkpoint_ns = ''"
    ids = asked(url, f"SELECT checkpoint_id FROM checkpoints WHERE {of_it} ORDER BY checkpoint_id")
    kept = ", ".join(f"'{name}'" for (name,) in ids[-newest:])
    for table in ("checkpoints", "writes"):
        sql = f"DELETE FROM {table} WHERE {of_it} AND checkpoint_id NOT IN ({kept}) RETURNING 1"
        asked(url, sql)


@pytest.mark.req("W-15")
@pytest.mark.parametrize(
    ("make", "newest"), [(react, 1), (plan_execute_verify, 5), (prompt_flow, 1)]
)
def test_a_thread_whose_base_is_gone_is_refused(kept, url, make, newest):
    graph = make(kept)
    for _ in range(3):
        graph.invoke(said(), on("t"))
    graph.invoke(said(), on("whole"))
    delete_older(url, newest)
    rows = count(url, "checkpoints")
    told = "Thread 't' is incomplete: older checkpoints were deleted, and with them"
    for act in (
        lambda: graph.invoke(said(), on("t")),
        lambda: graph.invoke(None, on("t")),
        lambda: graph.get_state(on("t")),
        lambda: [*graph.get_state_history(on("t"))],
        lambda: graph.update_state(on("t"), {"warnings": ["x"]}),
    ):
        with pytest.raises(ThreadIncompatible, match=told):
            act()
    assert count(url, "checkpoints") == rows
    listed = {summary.thread_id: summary for summary in kept.threads()}
    assert listed["t"].incomplete
    assert (listed["whole"].incomplete, listed["whole"].request) == (False, "Who owns it?")
    done = kept.prune(keep="latest")
    # A thread that is its newest checkpoint alone already has nothing to be removed.
    assert done.left == {"t": "older checkpoints, which it needs, were deleted"}
    assert graph.invoke(said(), on("whole"))["outcome"]["status"] == "complete"


# Deleted whole

TABLES = {
    "checkpoints": "thread_id", "writes": "thread_id", "loopwright_journal": "thread",
    "loopwright_taken": "thread", "store": "prefix",
}  # fmt: skip
OF_POSTGRES = {
    "loopwright_threads": "name", "loopwright_waiting": "name", "checkpoint_blobs": "thread_id",
    "procrastinate_jobs": "args",
}  # fmt: skip


def tables_with(url, name):
    """In which tables something of a thread stands, or of a part of it."""
    named = TABLES | (OF_POSTGRES if url.startswith("postgres") else {})
    return {
        table for table, column in named.items()
        if any(name in str(one) for (one,) in asked(url, f"SELECT {column} FROM {table}"))
    }  # fmt: skip


@pytest.mark.req("W-93", "S3-22")
@pytest.mark.parametrize("how", ["dismiss", "delete_thread"])
def test_of_a_thread_that_is_deleted_nothing_is_left_in_any_table(kept, url, how):
    def get(name: str) -> str:
        """Get a lot."""
        return f"{name} " * 20_000

    model = ScriptedModel({
        "thought": [thought("I look.", more=True, reason="I must"), thought("Ada owns it.")] * 5,
        "action": lambda *_: [call("get", name="it")],
        "observation": lambda *_: "The owner is Ada; answer now.",
    })  # fmt: skip
    graph = build_react(model=model, tools=[get], durability=kept, foreign="allow")
    for name in ("gone", "stays"):
        graph.invoke(said(), on(name))
        pay_asked(kept, policy="ask").invoke(said(), on(name))
        kept.journal.grant(name, {"tool": "pay"})
        graph.take(on(name), "And then?", id="then")
        if url.startswith("postgres"):
            graph.enqueue(on(name), "And then?")
        part = kept.locks.take(build_lock_name(name, "part"))
        if callable(part):
            part()
    everywhere = tables_with(url, "stays")
    assert everywhere >= TABLES.keys()
    assert tables_with(url, "gone") == everywhere
    getattr(kept if how == "dismiss" else kept.checkpointer, how)("gone")
    assert (tables_with(url, "gone"), tables_with(url, "stays")) == (set(), everywhere)
    assert [one.thread_id for one in kept.threads()] == ["stays"]
    assert graph.invoke(said(), on("gone"))["outcome"]["status"] == "complete"


@pytest.mark.req("W-93")
def test_a_run_that_begins_while_its_thread_is_pruned_waits_for_the_moment(kept, url):
    """From another process, and from this one; who runs is never waited for unasked."""
    graph = react(kept)
    for _ in range(2):
        graph.invoke(said(), on("t"))
    ends: list[Any] = []
    with open_durability(url) as other:
        for locks in (kept.locks, other.locks):
            begun, go_on = threading.Event(), threading.Event()
            holding = threading.Thread(target=held_until, args=(locks, begun, go_on))
            holding.start()
            assert begun.wait(PATIENCE)
            with pytest.raises(ThreadBusy, match=r"process \d+, which prunes it"):
                kept.dismiss("t")
            running = threading.Thread(
                target=lambda: ends.append(graph.invoke(said(), on("t"))["outcome"]["status"])
            )
            running.start()
            while not is_waited_for((kept.locks.domain, "t")):
                time.sleep(0.01)
            go_on.set()
            running.join()
            holding.join()
    assert ends == ["complete"] * 2


def held_until(locks, begun, go_on):
    with lock_thread_blocking(lambda: locks, "t", PRUNES):
        begun.set()
        go_on.wait(PATIENCE)
