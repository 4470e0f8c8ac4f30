"""One real graph with a real MCP server, through every door it can be called by."""

import asyncio
import os
import subprocess
import sys
import time

import pytest

from loopwright import ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_section
from support.patience import PATIENCE
from support.places import TESTS, reach
from support.scripts import call, passed, plan, report, todo

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


def test_a_process_that_used_a_server_leaves_none_behind(folder):
    code = (
        f"{reach(__file__)}import asyncio, os, subprocess\n"
        "from test_doors_on_graphs import *\n"
        "graph = build_plan_execute_verify(model=reader(), mcp=workspace(sys.argv[1]))\n"
        "check(graph.invoke(ask()))\n"
        "check(asyncio.run(graph.ainvoke(ask())))\n"
        "found = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(os.getpid())],\n"
        "    capture_output=True, text=True).stdout.splitlines()\n"
        "print(*[line.split()[0] for line in found if 'loopwright.servers' in line])\n"
    )
    env = {**os.environ, **QUIET, "PYTHONPATH": str(TESTS)}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(folder)],
        env=env, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    server = int(ran.stdout)
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
