"""Servers over stdio: real processes."""

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import build_react
from loopwright.calls.toolbox import Toolbox
from loopwright.run.background import await_in_background
from support.mcp_servers import children, gone, process, soon
from support.mcp_servers.calling import run, text
from support.openai_rules import problems
from support.patience import PATIENCE
from support.reacting import THREAD, one_step, said, shelf
from support.scripts import call

HERE = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def desk() -> Any:
    """One server for the tests that leave it in peace."""
    box = Toolbox(mcp={"mcpServers": {"desk": process("desk")}})
    yield box
    box.close()


@pytest.fixture
async def mortal() -> Any:
    """A server that a test may kill: hand-written, so that it is soon there again."""
    box = Toolbox(mcp={"mcpServers": {"mortal": process("faulty")}})
    yield box
    await box.aclose()


@pytest.mark.req("P-12", "S0-51")
async def test_dead_and_silent_servers_cost_a_warning_each():
    before = children()
    servers = {
        "good": process("desk"),
        "missing": {"command": "no-such-binary-anywhere"},
        "silent": process("silent", startupTimeout=1),
        "stubborn": process("silent", "stubborn", startupTimeout=1),
        "failing": process("failing"),
        "wrong": {"comand": "x"},
        "nowhere": process("desk", cwd="/no/such/folder"),
        "closed": {"url": "http://127.0.0.1:9/mcp?key=s3cret"},
    }
    box = Toolbox(mcp={"mcpServers": servers})
    catalog = await box.catalog()
    assert "search" in catalog.tools
    assert {tool.server for tool in catalog.tools.values()} == {"good"}
    told = dict(zip([n for n in servers if n != "good"], catalog.warnings, strict=True))
    assert "'no-such-binary-anywhere' was not found" in told["missing"]
    assert "did not answer within 1 s" in told["silent"]
    assert "DATABASE_URL is not set" in told["failing"]
    assert 'neither "command" nor "url"' in told["wrong"]
    assert "folder /no/such/folder" in told["nowhere"]
    assert "http://127.0.0.1:9/mcp is not reachable" in told["closed"]
    assert "s3cret" not in str(catalog.warnings)
    assert await text(box, "search", query="x") == "desk:x"
    await box.aclose()
    assert await gone(before) == set()


@pytest.mark.req("P-10", "S0-49")
async def test_twenty_calls_share_one_process_which_ends_with_the_toolbox():
    before = children()
    box = Toolbox(mcp={"mcpServers": {"desk": process("desk")}})
    assert {await text(box, "pid") for _ in range(20)} == {await text(box, "pid")}
    assert await text(box, "count") == "1"
    assert await text(box, "count") == "2"
    assert len(children() - before) == 1
    await box.aclose()
    assert await gone(before) == set()
    assert await text(box, "count") == "1"  # opened again
    await box.aclose()


@pytest.mark.req("P-10")
async def test_a_server_that_dies_under_a_call(mortal, tmp_path):
    marker = tmp_path / "marker"
    (write,) = await run(mortal, ("die_once", {"path": str(marker)}))
    assert write["status"] == "error"  # it may have run: a write is not sent again
    assert "may have taken effect" in write["result"]
    marker.unlink()
    assert await text(mortal, "die_once_read", path=str(marker)) == "second time"
    marker.unlink()
    assert await text(mortal, "die_once_idempotent", path=str(marker)) == "second time"
    (always,) = await run(mortal, ("die_read", {}))
    assert always["status"] == "error"
    assert "'mortal' is not available" in always["result"]
    assert await text(mortal, "echo", n=1) == "1"


@pytest.mark.req("P-43", "S0-58")
async def test_every_shape_of_a_servers_answer(desk):
    names = ("structured", "listed", "picture", "linked", "hidden", "failing")
    structured, listed, picture, linked, hidden, failing = await run(
        desk, *((n, {}) for n in names)
    )
    assert structured["message"].artifact["data"] == {"apples": 3, "pears": 4}
    assert listed["message"].artifact["data"] == ["a", "b"]
    assert listed["result"] == "a\nb"
    assert "[image, image/png" in picture["result"]
    assert picture["message"].artifact["media"][0]["mime_type"] == "image/png"
    assert linked["result"].startswith(
        "[link file:///r.pdf report]\n[resource file:///n.txt]\ninside"
    )
    assert hidden["result"] == 'see data\n{"total": 41}'
    assert (failing["status"], failing["message"].status) == ("error", "error")
    assert "no such order: 17" in failing["result"]


@pytest.mark.req("P-09", "S0-54", "S0-65")
async def test_equal_names_on_two_servers_reach_the_right_one():
    servers = {
        "left": process("desk", "--prefix", "L"),
        "right": process("desk", "--prefix", "R"),
        "odd": process("odd_schemas"),
    }
    box = Toolbox(mcp={"mcpServers": servers})
    catalog = await box.catalog()
    assert [problems(one) for one in catalog.specs([*catalog.tools])] == [[]] * (
        len(catalog.tools) + 2
    )
    assert await text(box, "left_search", query="x") == "L:x"
    assert await text(box, "right_search", query="x") == "R:x"
    (failure,) = await run(box, ("right_failing", {}))
    assert failure["message"].status == failure["status"] == "error"
    assert "no such order: 17" in failure["message"].text
    odd = await text(box, "no_type", a="x")
    assert odd == '{"type": "novel", "words": "new block"}'
    assert "search" not in catalog.tools
    await box.aclose()


LEAVES = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from loopwright.calls.toolbox import Toolbox
from support.mcp_servers import children, process
box = Toolbox(mcp={{"mcpServers": {{"one": process("faulty"), "two": process("faulty")}}}})
asyncio.run(box.catalog())
print(*children())
"""


def test_no_process_is_left_when_the_interpreter_ends():
    ran = subprocess.run(
        [sys.executable, "-c", LEAVES.format(tests=str(HERE))],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    pids = ran.stdout.split()
    assert len(pids) == 2
    assert ran.stderr == ""
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.fixture
async def late() -> Any:
    """A timer of somebody else on the background loop, which is not due before a test has ended."""

    async def set_one() -> Any:
        return asyncio.get_running_loop().call_later(1_000, print)

    timer = await await_in_background(set_one())
    yield
    timer.cancel()


@pytest.mark.req("W-48")
@pytest.mark.usefixtures("late")
@pytest.mark.parametrize(
    ("server", "name", "args"),
    [
        ("faulty", "echo", {"n": 1}),
        ("faulty", "look", {"name": "owner"}),
        ("desk", "chatty", {}),
        ("desk", "sign", {"path": os.devnull}),
    ],
    ids=["a call", "a sync tool in a thread", "progress", "an open question"],
)
async def test_a_dropped_graph_ends_its_servers(server, name, args):
    """Neither what a session keeps, nor an idle thread, nor a timer called off holds the run."""
    before = children()
    graph = build_react(
        model=one_step(action=[[call(name, **args)]]),
        tools=[shelf()],
        mcp={"mcpServers": {server: process(server, startupTimeout=2_000)}},
        policy="allow",
        checkpointer=InMemorySaver(),
    )
    result = await graph.ainvoke(said(), THREAD)
    assert ("__interrupt__" in result) == (name == "sign")
    assert children() - before
    del graph, result
    # A task that is just ending may hold it for a moment longer.
    assert await soon(lambda: gc.collect() >= 0 and children() <= before)
