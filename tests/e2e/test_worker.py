"""`loopwright worker` as a process: it rests on a signal, and what it held when it died goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from langgraph.types import Command
from typer.testing import CliRunner

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.cli.app import app
from support.forked import Command as Process, server
from support.patience import PATIENCE
from support.scripts import thought

THREAD = {"configurable": {"thread_id": "t"}}
NAMES = {"wait", "more", "last"}
HERE = Path(__file__).parent
MODULE = f"import sys\nsys.path[:0] = [{str(HERE)!r}]\nfrom test_worker import build\n"


def build(durability):
    """A shop that pays what the user says; the payment of `wait` and `more` ends by a file."""

    def pay(what: str) -> str:
        """Pay for something."""
        with Path("paid").open("a") as book:
            book.write(f"{what}\n")
        while what != "last" and not Path(f"end {what}").exists():
            time.sleep(0.02)
        return f"paid {what}"

    def answer(messages, offered):
        what = [m.text for m in messages if m.type == "human" and m.text in NAMES][-1]
        done = any(m.type == "tool" and m.text == f"paid {what}" for m in messages)
        if not offered:
            return thought(f"{what} is paid" if done else f"pay {what}", more=not done)
        return [] if done else [{"name": "pay", "args": {"what": what}}]

    return build_react(
        model=ScriptedModel(answer), tools=[pay], policy="allow", durability=durability,
        observe="direct", name="shop",
    )  # fmt: skip


def until(holds):
    by = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < by
        time.sleep(0.05)


def paid():
    return Path("paid").read_text().split() if Path("paid").exists() else []


@contextmanager
def worker(url):
    """A worker, which is killed at the end of the block, and what it tells until then."""
    told = []
    args = ("worker", "--db", url, "--module", "shop:build", "--lease", "2", "--json")
    with Process(server(), args, env={**os.environ}) as process:
        yield process, told
        process.kill()
        told += map(json.loads, process.said()[0].splitlines())


@pytest.fixture
def url(postgres_url):
    Path("shop.py").write_text(MODULE)
    return postgres_url


@pytest.fixture
def graph(url):
    with open_durability(url) as durability:
        yield build(durability)


@pytest.mark.postgres
def test_a_signal_rests_what_runs_and_a_kill_loses_nothing(url, graph):
    for name in ("wait", "more", "last"):
        graph.enqueue(THREAD, name, id=name, context={"max_iterations": 9})
    with worker(url) as (first, told):
        until(lambda: paid() == ["wait"] or first.poll())
        first.send_signal(signal.SIGTERM)  # the payment ends, and the turn rests
        Path("end wait").touch()
        assert first.wait(PATIENCE) == 0
    assert [one["event"] for one in told] == ["started", "taken", "leaving", "paused", "left"]
    assert (told[1]["thread"], told[1]["turn"], told[1]["graph"]) == ("t", "wait", "shop")
    assert graph.enqueued(THREAD, "wait").state == "begun"
    with worker(url) as (second, then):
        until(lambda: paid() == ["wait", "more"] or second.poll())
    assert [e["event"] for e in then] == ["started", "taken again", "ended", "taken"]
    with worker(url) as (third, _):
        until(lambda: graph.enqueued(THREAD, "more").state == "asks" or third.poll())
        [question] = graph.get_state(THREAD).interrupts
        assert question.value["type"] == "uncertain_call"
        reply = {"type": "respond", "message": "paid more"}
        graph.enqueue(THREAD, Command(resume=reply), id="look")
        assert graph.enqueued(THREAD, "last", wait=PATIENCE).outcome["answer"] == "last is paid"
        third.send_signal(signal.SIGTERM)
        assert third.wait(PATIENCE) == 0
    assert graph.enqueued(THREAD, "more").outcome["answer"] == "more is paid"
    assert paid() == ["wait", "more", "last"]


@pytest.mark.postgres
def test_a_thread_of_a_graph_of_ones_own_is_attended_to_from_the_command_line(url, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("asking.py").write_text(ASKING)

    def told(*args):
        options = ["--module", "asking:build", "--db", url, "--json"]
        done = CliRunner().invoke(app, [*args, *options])
        return done.exit_code, json.loads(done.stdout)

    code, turn = told("enqueue", "t", "apples", "--id", "one")
    assert (code, turn["graph"], turn["state"]) == (0, "asking", "waiting")
    with open_durability(url) as durability:
        graph = sys.modules["asking"].build(durability)
        graph.invoke({"messages": [("user", "pay")]}, THREAD)
        code, turn = told("enqueue", "t", "approve", "--answer", "--id", "yes")
        assert (code, [one.kind for one in durability.turns()]) == (0, ["message", "answer"])
        code, ended = told("stop", "t")
        assert (code, ended["outcome"]["status"]) == (0, "cancelled")
    code, refused = told("enqueue", "t", "approve", "--answer")
    assert (code, "no question waiting" in refused["error"]) == (2, True)


ASKING = """
from loopwright import ScriptedModel, build_react
def build(durability):
    def pay(): "Pay."
    model = ScriptedModel({
        "thought": ['Pay.<agent_meta>{"shouldContinue": true, "reason": "x"}</agent_meta>'],
        "action": [[{"name": "pay", "args": {}}]],
    })
    return build_react(
        model=model, tools=[pay], policy="ask", durability=durability, name="asking"
    )
"""

MISTAKES = {
    "nowhere:graph": "gives no graph (ModuleNotFoundError",
    "mistaken:nothing": "gives no graph (AttributeError",
    "mistaken:takes_none": "gives no graph (TypeError",
    "mistaken:fails": "gives no graph (RuntimeError: my own)",
    "unfinished:graph": "gives no graph (SyntaxError",
    "mistaken:fleeting": "gives no graph of this package with durability=",
    "mistaken:elsewhere": "other.db', and this worker takes",
}
MISTAKEN = """
from loopwright import build_react, open_durability
def takes_none(): pass
def fails(durability): raise RuntimeError("my own")
fleeting = build_react(model="offline")
elsewhere = build_react(model="offline", durability=open_durability("sqlite:///other.db"))
"""


@pytest.mark.postgres
@pytest.mark.parametrize(("module", "told"), MISTAKES.items())
def test_a_module_without_a_graph_for_this_worker_is_told_in_a_sentence(
    module, told, postgres_url, monkeypatch
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("mistaken.py").write_text(MISTAKEN)
    Path("unfinished.py").write_text("graph = (")
    done = CliRunner().invoke(app, ["worker", "--db", postgres_url, "--module", module])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"loopwright: --module {module} " in done.stderr
    assert told in done.stderr
    sys.modules.pop("mistaken", None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "--db is empty"),
        ("agents", "sqlite:///agents for a file"),
        ("postgresql+psycopg://u:geheim@h/d", "give sqlite:///FILE"),
        ("sqlite:///:memory:", "no other process can open it"),
        ("sqlite:///file.db", "is a file, and has no queue"),
        ("postgres://u:geheim@127.0.0.1:1/d", "refused"),
    ],
)
def test_a_wrong_url_is_told_in_a_sentence(given, told):
    done = CliRunner().invoke(app, ["worker", "--db", given])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert told in done.stderr
    assert "geheim" not in done.stderr


@pytest.mark.postgres
def test_what_dies_or_freezes_is_taken_over_and_nothing_is_done_twice(repository):
    """The benchmark in short, through a transaction pool."""
    script = repository / "benchmarks" / "workers.py"
    run = subprocess.run(
        [sys.executable, "-u", str(script), "10", "2", "5", "1.2", "bouncer"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    told = json.loads(run.stdout)
    assert (told["doubled"], told["lost"], told["wrong_threads"], told["not_ended"]) == (0,) * 4
    assert told["kill"] >= 1, "one must die for this to prove anything"
