"""One real graph with a real MCP server, through every door it can be called by."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_section
from loopwright.state.messages import Messages
from support.patience import PATIENCE
from support.scripts import call, failed, passed, plan, report, todo

QUIET = {"OPENAI_API_KEY": "", "LOOPWRIGHT_MODEL": ""}


def workspace(folder):
    arguments = ["-m", "loopwright.servers.workspace", "--root", str(folder)]
    return {"mcpServers": {"workspace": {"command": sys.executable, "args": arguments}}}


def reader(name="notes.txt"):
    """Reads a file, then quotes it; stateless, so that any number of runs may share it."""

    def turn(messages, offered):
        role = messages[0].text.split()[3].rstrip(".")
        found = [m.text for m in messages if m.type == "tool"]
        if role == "planner":
            return plan(todo("1", "Read the notes"))
        if role == "verifier":
            human = messages[1].text
            return passed(f"Read: {read_section(human, 'request')}", t1=["1.1.0"])
        return report(found[-1]) if found else [call("read_file", path=name)]

    return ScriptedModel(turn)


def writer():
    """Writes a file, which a policy asks about, then says so."""

    def turn(messages, offered):
        role = messages[0].text.split()[3].rstrip(".")
        if role == "planner":
            return plan(todo("1", "Write the notes"))
        if role == "verifier":
            if '"success"' not in messages[1].text:
                return failed("write the notes", t1=False)
            return passed("The notes are written.", t1=["1.1.0"])
        last = messages[-1]
        if last.type == "tool":
            written = last.status == "success"
            return report(last.text, taskCompleted=written)
        return [call("write_file", path="new.txt", content="hello\n")]

    return ScriptedModel(turn)


def children():
    """Command lines of the servers this process has started and that still live."""
    listed = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [line for line in listed.stdout.splitlines() if "loopwright.servers" in line]


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "notes.txt").write_text("Ada owns it.\n")
    return root


@pytest.fixture
def toolboxes(monkeypatch):
    """Closes, as a program would, the servers of the graphs a test built; none may be left."""
    from loopwright.calls.toolbox import _close_all  # noqa: PLC0415 - what the interpreter calls at its end

    _close_all()  # what earlier tests of this process left open
    yield
    _close_all()
    patient = time.monotonic() + PATIENCE  # that of a graph which is gone by now closes by itself
    while left := children():
        assert time.monotonic() < patient, left
        time.sleep(0.05)


def ask(text="Read the notes."):
    return {"messages": [{"role": "user", "content": text}]}


def on(thread):
    return {"configurable": {"thread_id": thread}}


def check(result, text="Read the notes."):
    outcome = result["outcome"]
    assert outcome["status"] == "complete", outcome
    assert outcome["answer"] == f"Read: {text}"
    assert "Ada owns it." in outcome["tasks"][0]["result"]


@pytest.mark.usefixtures("toolboxes")
def test_one_graph_through_two_loops_and_the_sync_door_with_one_server(folder, tmp_path):
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        graph = build_plan_execute_verify(
            model=reader(), mcp=workspace(folder), durability=durability
        )
        for thread in ("loop one", "loop two"):
            check(asyncio.run(graph.ainvoke(ask(), on(thread))))
        check(graph.invoke(ask(), on("sync")))
        check(asyncio.run(graph.ainvoke(ask("Again."), on("sync"))), "Again.")
        assert graph.get_state(on("sync")).values["turn_state"]["turn"] == 2
        assert len(children()) == 1, "one server process for all of them"


@pytest.mark.usefixtures("toolboxes")
def test_two_threads_and_a_batch_at_once(folder, tmp_path):
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        graph = build_plan_execute_verify(
            model=reader(), mcp=workspace(folder), durability=durability
        )
        barrier = threading.Barrier(2)

        def run(number):
            barrier.wait()
            if number:
                return asyncio.run(graph.ainvoke(ask(), on(f"t{number}")))
            return graph.invoke(ask(), on(f"t{number}"))

        with ThreadPoolExecutor(2) as pool:
            for result in pool.map(run, range(2)):
                check(result)
        words = [f"Read number {n}." for n in range(4)]
        results = graph.batch([ask(w) for w in words], [on(w) for w in words])
        for word, result in zip(words, results, strict=True):
            check(result, word)
        results = asyncio.run(graph.abatch([ask(w) for w in words], [on(w) for w in words]))
        assert [r["outcome"]["status"] for r in results] == ["complete"] * 4
        streamed = list(graph.stream(ask(), on("stream"), stream_mode=["updates", "values"]))
        check(streamed[-1][1])


@dataclass(kw_only=True)
class Outer:
    """State of a program that embeds the graph."""

    messages: Messages = field(default_factory=list)
    outcome: dict[str, Any] | None = None
    log: list[str] = field(default_factory=list)


def parent(inner, saver):
    def before(state: Outer) -> dict[str, Any]:
        return {"log": [*state.log, "before"]}

    def after(state: Outer) -> dict[str, Any]:
        return {"log": [*state.log, state.outcome["status"] if state.outcome else "none"]}

    builder = StateGraph(Outer)
    builder.add_node("before", before)
    builder.add_node("inner", inner)
    builder.add_node("after", after)
    builder.add_edge(START, "before")
    builder.add_edge("before", "inner")
    builder.add_edge("inner", "after")
    builder.add_edge("after", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.odd_types  # the parent's own state, which LangGraph allows a strict saver itself
@pytest.mark.req("S0-36")
@pytest.mark.usefixtures("toolboxes")
def test_a_sync_parent_asks_and_resumes_through_itself(folder, tmp_path):
    with closing(sqlite3.connect(tmp_path / "outer.db", check_same_thread=False)) as connection:
        inner = build_plan_execute_verify(model=writer(), mcp=workspace(folder))
        outer = parent(inner, SqliteSaver(connection))
        waiting = outer.invoke(ask(), on("t"))["__interrupt__"]
        assert waiting[0].value["action_requests"][0]["name"] == "write_file"
        assert not (folder / "new.txt").exists()
        result = outer.invoke(Command(resume={"type": "approve"}), on("t"))
    assert result["log"] == ["before", "complete"]
    assert (folder / "new.txt").read_text() == "hello\n"
    assert result["messages"][-1].text == "The notes are written."


@pytest.mark.usefixtures("toolboxes")
def test_an_async_parent_asks_and_resumes_in_another_loop(folder):
    inner = build_plan_execute_verify(model=writer(), mcp=workspace(folder))
    outer = parent(inner, InMemorySaver())
    assert asyncio.run(outer.ainvoke(ask(), on("t")))["__interrupt__"]
    result = asyncio.run(outer.ainvoke(Command(resume={"type": "reject"}), on("t")))
    assert result["log"] == ["before", "blocked"]
    assert not (folder / "new.txt").exists()


def test_a_process_that_used_a_server_leaves_none_behind(folder):
    code = (
        "import asyncio, os, subprocess, sys\n"
        "from integration.test_doors_on_graphs import *\n"
        "graph = build_plan_execute_verify(model=reader(), mcp=workspace(sys.argv[1]))\n"
        "check(graph.invoke(ask()))\n"
        "check(asyncio.run(graph.ainvoke(ask())))\n"
        "found = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(os.getpid())],\n"
        "    capture_output=True, text=True).stdout.splitlines()\n"
        "print(*[line.split()[0] for line in found if 'loopwright.servers' in line])\n"
    )
    env = {**os.environ, **QUIET, "PYTHONPATH": str(Path(__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(folder)],
        env=env, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    server = int(ran.stdout)
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
