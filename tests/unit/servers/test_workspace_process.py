"""The workspace server as a process: many calls at once, runaway searches, start and end."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession
from unit.servers.workspace_client import COMMAND, Client, in_memory, text_of

from support.patience import PATIENCE

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def test_a_runaway_regex_is_ended_and_does_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server is in memory because one in a process of its own could not be given another limit.
    monkeypatch.setattr("loopwright.servers.workspace.SECONDS", 3.0)  # the server allows 5
    (tmp_path / "a.txt").write_text("x" * 5_000)
    finished: list[str] = []

    async def call(session: ClientSession, tool: str, **arguments: Any) -> None:
        result = await session.call_tool(tool, arguments)
        finished.append(text_of(result))

    async def run() -> None:
        async with in_memory(tmp_path) as session, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(session, "search_text", query="(x+x+)+y", regex=True))
            await anyio.sleep(0.3)
            tasks.start_soon(lambda: call(session, "list_files"))

    anyio.run(run)
    assert finished[0] == "a.txt (file, 5000 bytes)"
    assert finished[1].startswith("The search took longer than 3 s")


def test_twenty_calls_at_once(client: Client) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                arguments = {"path": "log.txt", "content": f"line {number}\n"}
                tasks.start_soon(client.session.call_tool, "append_file", arguments)
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                arguments = {"query": "line", "regex": "true"}
                tasks.start_soon(client.session.call_tool, "search_text", arguments)

    client.portal.call(run)
    lines = (client.root / "log.txt").read_text().splitlines()
    assert sorted(lines) == sorted(f"line {number}" for number in range(20))


def run_server(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_it_ends_when_stdin_closes(tmp_path: Path) -> None:
    done = run_server("--root", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    pipe = subprocess.PIPE
    command = [*COMMAND, "--root", str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdin.write(json.dumps(HELLO).encode() + b"\n")
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        server.send_signal(number)
        assert server.wait(timeout=PATIENCE) == 128 + number
        assert server.stderr.read() == b""
