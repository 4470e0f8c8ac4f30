"""Unfinished threads: listed with age and progress, offered until they expire, dismissed."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command
from typer.testing import CliRunner

from loopwright import (
    Context,
    ScriptedModel,
    ThreadBusy,
    ThreadNotFound,
    build_plan_execute_verify,
    build_react,
    open_durability,
)
from loopwright.cli.app import app
from loopwright.store.locks.thread_locks import lock_thread_blocking
from loopwright.store.threads import thread_list as threads
from loopwright.store.threads.thread_list import GRAPH_KEY
from support.scripts import call, failed, passed, plan, report, thought, todo


def on(thread):
    named = {"configurable": {"thread_id": thread}}
    return named | {"metadata": {GRAPH_KEY: "plan_execute_verify"}}


def asked(graph, thread, **more):
    return graph.invoke({"messages": [("user", f"Do {thread}")]}, on(thread), **more)


@pytest.fixture
def url(tmp_path):
    """Threads: done, partial (1 of 2), paused in its second task, and one with a question."""
    control, location = RunControl(), f"sqlite:///{tmp_path}/t.db"

    def pause() -> str:
        """Pause."""
        control.request_drain("x")
        return "paused"

    def pay() -> str:
        """Pay."""
        return "paid"

    two = plan(todo("1", "one"), todo("2", "two"))
    half = passed("One of them.", t1=["1.report"]) | {
        "improvements": ["do two"],
        "allCompleted": False, "userNeedsSatisfied": False,
        "tasks": [{"id": "1", "completed": True, "evidence": ["1.report"]},
                  {"id": "2", "completed": False, "evidence": [], "feedback": "no"}],
    }  # fmt: skip
    model = ScriptedModel({
        "planner": [plan(todo("1", "one")), two, two],
        "executor": [report("1"), report("1"), report("2"),
                     report("1"), [call("pause", "p")], report("2")],
        "verifier": [passed("All.", t1=["1.report"]), half, half],
    })  # fmt: skip
    with open_durability(location) as kept:
        graph = build_plan_execute_verify(
            model=model, tools=[pause], policy="allow", mcp={}, durability=kept
        )
        asked(graph, "done")
        asked(graph, "partial", context=Context(max_verify_cycles=1))
        with pytest.raises(GraphDrained):
            asked(graph, "paused", control=control, context=Context(max_parallel_tasks=1))
        loop = build_react(
            model=ScriptedModel({
                "thought": [thought("I pay.", more=True)], "action": [[call("pay", "a")]],
            }),
            tools=[pay], policy="ask", durability=kept,
        )  # fmt: skip
        assert "__interrupt__" in asked(loop, "asks")
    return location


def told(*args):
    done = CliRunner().invoke(app, ["threads", *args])
    return done.exit_code, done.output


@pytest.mark.req("S3-12", "S3-14", "S3-18", "S3-19", "S3-22")
def test_what_is_unfinished_is_offered_until_it_expires_and_is_gone_once_dismissed(
    url, monkeypatch
):
    with open_durability(url) as kept:
        listed = {one.thread_id: one for one in kept.threads()}
        assert [*listed] == ["asks", "paused", "partial", "done"]
        assert [one.thread_id for one in kept.unfinished()] == ["asks", "paused", "partial"]
        assert [one.progress for one in listed.values()] == [(0, 0), (1, 2), (1, 2), (1, 1)]
        assert timedelta() <= listed["paused"].age < timedelta(hours=1)
        # An hour later, what waits for a human is still offered, and nothing was deleted.
        monkeypatch.setattr(threads, "datetime", InTwoHours)
        assert [one.thread_id for one in kept.unfinished()] == ["asks"]
        day = timedelta(days=1)
        assert [one.thread_id for one in kept.unfinished(day)] == ["asks", "paused", "partial"]
        assert len(kept.threads()) == 4
        # What a run holds is neither offered nor dismissed.
        with lock_thread_blocking(lambda: kept.locks, "paused"):
            assert [one.thread_id for one in kept.unfinished(day)] == ["asks", "partial"]
            assert [one.running for one in kept.threads()] == [False, True, False, False]
            with pytest.raises(ThreadBusy):
                kept.dismiss("paused")
        kept.dismiss("paused")
        with pytest.raises(ThreadNotFound):
            kept.dismiss("paused")
        assert {one.thread_id for one in kept.threads()} == {"asks", "partial", "done"}
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        for table in ("checkpoints", "writes"):
            assert not file.execute(f"SELECT 1 FROM {table} WHERE thread_id='paused'").fetchone()


@pytest.mark.req("W-145")
def test_what_was_refused_or_got_stuck_is_listed_and_not_offered(tmp_path):
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({
        "planner": [plan(todo("1", "pay"))] * 3,
        "executor": [[call("pay", "p")], *[report("No.", taskCompleted=False)] * 3],
        "verifier": [failed("pay", t1=False)] * 3,
    })  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_plan_execute_verify(model=model, tools=[pay], policy="ask", durability=kept)
        asked(graph, "rejected")
        graph.invoke(Command(resume="reject"), on("rejected"))
        asked(graph, "stuck")
        ended = {one.thread_id: one.status for one in kept.threads("unfinished")}
        assert ended == {"rejected": "blocked", "stuck": "stuck"}
        assert kept.unfinished() == []
        asked(graph, "stuck", interrupt_before=["planner"])
        assert [one.thread_id for one in kept.unfinished()] == ["stuck"], "cut off in a new turn"


class InTwoHours(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz or UTC) + timedelta(hours=2)


def test_the_command_lists_and_dismisses(url, monkeypatch):
    code, text = told("--unfinished", "--db", url)
    header, *rows = (line.split("\t") for line in text.splitlines())
    assert (code, header) == (0, ["thread", "last change", "status", "done", "request"])
    assert [[row[0], *row[2:]] for row in rows] == [
        ["asks", "waiting", "", "Do asks"],
        ["paused", "unfinished", "1 of 2", "Do paused"],
        ["partial", "partial", "1 of 2", "Do partial"],
    ]
    monkeypatch.setenv("LOOPWRIGHT_EXPIRY", "0m")
    code, text = told("--json", "--db", url)
    listed = json.loads(text)["threads"]
    assert [(one["thread"], one["offered"]) for one in listed] == [
        ("asks", True), ("paused", False), ("partial", False), ("done", False)
    ]  # fmt: skip
    assert (listed[1]["completed"], listed[1]["total"], listed[1]["graph"]) == (
        1, 2, "plan_execute_verify"
    )  # fmt: skip
    # An operator is told of all of them, however old; what is too old is not offered.
    assert told("--unfinished", "--db", url)[1].count("\n") == 4
    assert told("dismiss", "partial", "paused", "asks", "--db", url)[0] == 0
    code, text = told("--unfinished", "--db", url)
    assert "no unfinished threads are saved" in text
    code, text = told("dismiss", "partial", "--db", url)
    assert (code, "No thread 'partial' is saved" in text) == (2, True)
    monkeypatch.setenv("LOOPWRIGHT_EXPIRY", "soon")
    code, text = told("--db", url)
    assert (code, "LOOPWRIGHT_EXPIRY 'soon' is no age" in text) == (2, True)
    assert "Give it behind the command" in told("--json", "dismiss", "x")[1].replace("\n", " ")


@pytest.mark.req("W-93")
def test_the_command_finds_what_operators_ask_for(url):
    for flag, which in (("--waiting", "asks"), ("--expired", "paused")):
        rows = told(flag, "--db", url)[1].splitlines()[1:]
        assert [row.split("\t")[0] for row in rows] == [which]
    _, text = told("--order", "oldest", "--limit", "2", "--db", url)
    assert [row.split("\t")[0] for row in text.splitlines()[1:3]] == ["done", "partial"]
    assert "only the first 2 are shown: --limit shows more." in text
    header, *rows = (
        row.split("\t") for row in told("--order", "largest", "--db", url)[1].splitlines()
    )
    assert header[4] == "size"
    assert len(rows) == 4
    assert rows[-1][0] == "asks"
    assert "order='newer' is not known" in told("--order", "newer", "--db", url)[1]
    assert "Choose one of" in told("--waiting", "--expired", "--db", url)[1]
