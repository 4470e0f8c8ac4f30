"""Two workers on one thread in Postgres: who loses it writes nothing more, and nothing vanishes."""

import signal
import threading
from contextlib import contextmanager

import psycopg
import pytest
from langgraph.checkpoint.base import id as ids

from loopwright import LeaseLost, ScriptedModel, ThreadBusy, build_react, open_durability
from loopwright.store.locks.thread_locks import _here
from support.forked import Program
from support.patience import PATIENCE
from support.places import TESTS
from support.postgres import everything
from support.reacting import DONE, LOOK
from support.scripts import call
from support.toy_graphs import on

pytestmark = pytest.mark.postgres


WORKER = """
import sys, time
sys.path.insert(0, sys.argv[2])
if wrong := float(sys.argv[3]):
    right = time.time
    time.time = lambda: right() + wrong
    time.time_ns = lambda: int(time.time() * 1e9)
from loopwright import LeaseLost, ScriptedModel, build_react, open_durability
from support.reacting import DONE, LOOK
from support.scripts import call
from support.toy_graphs import on

def pay(amount: int) -> str:
    "Pay."
    print("paying", amount, flush=True)
    sys.stdin.readline()
    return "paid"

calls = [[call("pay", "a", amount=3)], [call("pay", "b", amount=4)]]
thought, observation = [LOOK, LOOK, DONE], ["It is paid."] * 9
model = ScriptedModel({"thought": thought, "action": calls, "observation": observation})
with open_durability(sys.argv[1], lease=1.2) as durability:
    graph = build_react(model=model, tools=[pay], durability=durability)
    try:
        result = graph.invoke({"messages": [("user", "Pay.")]}, on(sys.argv[4]))
    except LeaseLost as lost:
        print("lost:", lost, flush=True)
    else:
        print("ended:", result["outcome"]["status"], flush=True)
"""


@pytest.fixture
def server(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@contextmanager
def worker(url, clock=0, thread="t"):
    """Another process that has begun a turn, and is just paying; its clock is off by so much."""
    tests = str(TESTS)
    with Program(WORKER, url, tests, str(clock), thread) as process:
        assert process.stdout.readline() == "paying 3\n"
        yield process


def goes_on(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


def another(url):
    """A graph of this process on the same threads, that has nothing to do but answer."""
    durability = open_durability(url, lease=1.2)
    model = ScriptedModel({"thought": [DONE] * 9})
    return durability, build_react(model=model, tools=[pay], durability=durability)


def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError(amount)


def said(text):
    return {"messages": [("user", text)]}


def requests(graph, thread="t"):
    messages = graph.get_state(on(thread)).values["messages"]
    return [message.text for message in messages if message.type == "human"]


@pytest.mark.req("W-90", "W-92")
def test_a_frozen_worker_is_taken_over_and_writes_nothing_when_it_comes_back(bouncer_url, server):
    durability, graph = another(bouncer_url)
    with durability, worker(bouncer_url) as late:
        with pytest.raises(ThreadBusy, match=rf"\(process {late.pid}\)"):
            graph.invoke(said("And now?"), on("t"))
        late.send_signal(signal.SIGSTOP)
        result = graph.invoke(said("And now?"), on("t"), wait=PATIENCE)
        assert result["outcome"]["uncertain_calls"], "nobody knows whether it has paid"
        graph.invoke(said("And then?"), on("t"))
        before = everything(server)
        late.send_signal(signal.SIGCONT)
        assert goes_on(late).startswith("lost: Another run has taken the thread 't'")
        assert everything(server) == before
        assert requests(graph) == ["Pay.", "And now?", "And then?"]


@pytest.fixture(autouse=True)
def numbers_of_its_own(monkeypatch):
    """Who goes on with a thread from tomorrow numbers after it: no other test is to do so."""
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)


@pytest.mark.req("W-92")
def test_a_clock_that_is_a_day_off_steals_nothing_and_loses_nothing(postgres_url, server):
    url = postgres_url
    durability, graph = another(url)
    ends = "SELECT min(until) FROM loopwright_threads"
    with durability, worker(url, 86400, "t") as ahead, worker(url, -86400, "b") as behind:
        late = {"t": ahead, "b": behind}
        (taken,) = server.execute(ends).fetchone()
        with pytest.raises(ThreadBusy, match=rf"\(process {ahead.pid}\)"):
            graph.invoke(said("And now?"), on("t"), wait=0.1)
        with pytest.raises(ThreadBusy, match=rf"\(process {behind.pid}\)"):
            graph.invoke(said("And now?"), on("b"))
        while server.execute(ends).fetchone()[0] <= taken:  # until they were renewed
            threading.Event().wait(0.05)
        for process in late.values():
            assert goes_on(process) == "paying 4\n"
            assert goes_on(process) == "ended: complete\n"
        for thread in late:
            graph.invoke(said("And now?"), on(thread))
            assert requests(graph, thread) == ["Pay.", "And now?"]


@pytest.mark.req("W-90")
def test_a_run_that_is_told_of_its_loss_begins_nothing_more(postgres_url, server):
    """Its calls only read: what tells it is the heartbeat, before it comes to write anything."""
    seen = []

    def look(place: str) -> str:
        """Look."""
        seen.append(place)
        entry = _here[durability.locks.domain, "t"]
        server.execute("UPDATE loopwright_threads SET owner = 'process 7 on b', token = 42")
        while entry.lost is None:
            threading.Event().wait(0.02)
        return "nothing"

    look.metadata = {"readOnlyHint": True}
    action = [[call("look", "a", place="here")], [call("look", "b", place="there")]]
    thought, observation = [LOOK, LOOK, DONE], ["Nothing."] * 3
    model = ScriptedModel({"thought": thought, "action": action, "observation": observation})
    with open_durability(postgres_url, lease=1.2) as durability:
        graph = build_react(model=model, tools=[look], durability=durability)
        with pytest.raises(LeaseLost, match=r"Another run \(process 7 on b\) has taken"):
            graph.invoke(said("Look."), on("t"))
    assert seen == ["here"]
    assert len(model.asked) == 2
