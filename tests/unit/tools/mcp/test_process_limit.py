"""Servers of which there are many: what rests ends, few processes serve all, and none is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import ScriptedModel, build_react
from loopwright.calls.toolbox import Toolbox
from loopwright.state.context import STARTUP
from loopwright.tools.mcp.processes import VARIABLE
from support.mcp_servers import children, gone, process, serving, soon
from support.mcp_servers.calling import failure, run, text
from support.patience import PATIENCE
from support.reacting import THREAD, said
from support.scripts import call, thought

TESTS = Path(__file__).parents[3]


def boxed(**servers: Any) -> Toolbox:
    return Toolbox(mcp={"mcpServers": servers})


def held(box: Toolbox, user: str | None = None) -> Any:
    here = box._home.current_servers
    return here and here.find_known_listings(user, box.servers)


async def test_neither_a_call_nor_an_open_question_is_ended_for_rest_or_for_others(
    tmp_path, monkeypatch
):
    monkeypatch.setenv(VARIABLE, "1")
    box = boxed(desk=process("desk", idle=0.1))
    pid = await text(box, "pid")
    path, marker = tmp_path / "notes", tmp_path / "marker"
    assert await text(box, "note", path=str(path), text="x", seconds=0.4, marker=str(marker))
    assert path.read_text() == "x\n", "a call of four times the limit"
    await box.aclose()

    graph = build_react(
        model=ScriptedModel({
            "thought": [thought("I sign.", more=True, reason="r"), thought("Signed.")],
            "action": [[call("sign", path=str(tmp_path / "signed"))]],
            "observation": ["It is signed."],
        }),
        mcp={"mcpServers": {"desk": process("desk", idle=0.1)}}, policy="allow",
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    assert (await graph.ainvoke(said(), THREAD))["__interrupt__"]
    await asyncio.sleep(0.4)
    other, known = boxed(faulty=process("faulty")), STARTUP.set(0.3)
    (warning,) = (await other.catalog()).warnings
    STARTUP.reset(known)
    assert "it waited 0.3 s for its turn" in warning
    result = await graph.ainvoke(Command(resume="respond: Ada"), THREAD)
    assert result["outcome"]["status"] == "complete"
    assert (tmp_path / "signed").read_text().count("asked") == 1
    assert pid
    for _ in range(int(PATIENCE / 0.05)):
        if "echo" in (await other.catalog()).tools:  # tried again behind the scenes
            break
        await asyncio.sleep(0.05)
    assert await text(other, "echo", n=1) == "1", "there is room behind who rests"
    await other.aclose()


async def test_a_session_over_http_that_rests_is_closed_and_a_users_server_forgotten():
    with serving() as (_, url):
        box = boxed(
            each={"url": url, "idle": 0.2, "headers": lambda user: {"Authorization": f"of {user}"}},
            all={"url": url, "idle": 0.2},
        )
        for user in ("ann", "bob"):
            (record,) = await run(box, ("each_whoami", {}), user=user)
            assert record["result"] == f"of {user}"
        servers = box._home.current_servers._servers
        assert await soon(lambda: list(servers) == [("all", None)])
        assert held(box, "ann") is None, "over HTTP tools may be others by now: listed anew"
        (record,) = await run(box, ("each_whoami", {}), user="ann")
        assert record["result"] == "of ann"
        await box.aclose()


def servers_of(before: set[int]) -> set[int]:
    """The children that run the server, and not what watches over them for a moment."""
    command = {pid: Path(f"/proc/{pid}/cmdline") for pid in children() - before}
    found = set()
    for pid, path in command.items():
        with contextlib.suppress(OSError):
            found |= {pid} if b"faulty.py" in path.read_bytes() else set()
    return found


def team(count: int) -> dict[str, Any]:
    return {f"s{n}": process("faulty") for n in range(count)}


async def test_fifty_threads_that_need_all_servers_at_once_get_on_with_fewer_processes(monkeypatch):
    """Each run calls every server in one step, as each of the others does."""
    most, servers = 2, 3
    monkeypatch.setenv(VARIABLE, str(most))
    before, seen = children(), [0]
    names = [f"s{n}_echo" for n in range(servers)]

    def thinks(messages: Any, offered: Any) -> Any:
        if any(message.type == "tool" for message in messages):
            return thought("Done.")
        return thought("I ask.", more=True, reason="r")

    graph = build_react(
        model=ScriptedModel({
            "thought": thinks,
            "action": [[call(name, f"c{n}", n=n) for n, name in enumerate(names)]] * 50,
            "observation": ["There."] * 50,
        }),
        mcp={"mcpServers": team(servers)}, policy="allow",
    )  # fmt: skip
    over = asyncio.Event()

    async def count() -> None:
        while not over.is_set():
            seen[0] = max(seen[0], len(servers_of(before)))
            await asyncio.sleep(0.02)

    counting = asyncio.create_task(count())
    results = await asyncio.gather(*(graph.ainvoke(said(f"Go {n}.")) for n in range(50)))
    over.set()
    await counting
    for result in results:
        assert result["outcome"]["spend"]["tool_calls"] == servers
        assert result["outcome"]["warnings"] == []
        got = [m for m in result["messages"] if m.type == "tool"]
        assert {m.status for m in got} == {"success"}
        assert [m.text for m in got] == [str(n) for n in range(servers)]
    assert 0 < seen[0] <= most


async def test_who_waits_too_long_for_a_process_is_told_so_and_served_later(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, "1")
    before = children()
    box = boxed(busy=process("faulty"), late=process("faulty"))
    await box.catalog()
    path = tmp_path / "notes"
    long = asyncio.create_task(run(box, ("busy_hold", {"path": str(path)})))
    assert await soon(path.exists), "it holds the only process until it is cancelled"
    known = STARTUP.set(0.3)
    told = await failure(box, "late_echo", n=1)
    STARTUP.reset(known)
    assert "this program runs 1 server processes at most" in told
    assert VARIABLE in told
    assert len(servers_of(before)) == 1
    late = asyncio.create_task(text(box, "late_echo", n=1))
    await asyncio.sleep(0.1)
    assert not late.done()
    long.cancel()
    assert await late == "1"
    await box.aclose()
    assert await gone(before) == set()


KILLED = """
import asyncio, os, signal, sys, time
sys.path.insert(0, {tests!r})
from support.mcp_servers import process
from support.mcp_servers.calling import text
from loopwright.calls.toolbox import Toolbox
box = Toolbox(mcp={{"mcpServers": {{"s": process("faulty", "stubborn", "fork")}}}})
print(asyncio.run(text(box, "pid")), asyncio.run(text(box, "child")), flush=True)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_no_process_is_left_of_a_worker_that_was_killed_also_where_it_had_forked():
    """Neither the server, deaf to the end of its input and to SIGTERM, nor what it has started."""
    ran = subprocess.Popen(
        [sys.executable, "-c", KILLED.format(tests=str(TESTS))], stdout=subprocess.PIPE, text=True
    )
    assert ran.stdout is not None
    pids = [int(word) for _ in range(2) for word in ran.stdout.readline().split()]
    *left, forked = pids
    try:
        assert ran.wait(PATIENCE) == -signal.SIGKILL
        assert asyncio.run(soon(lambda: not any(map(alive, left))))
        assert alive(forked), "it was there all the time"
    finally:
        os.kill(forked, signal.SIGKILL)
        ran.stdout.close()
