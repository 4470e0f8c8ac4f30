"""The support desk as a process: over stdio, over HTTP, and when it cannot begin."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from unit.servers.test_workspace_process import HELLO

from support.patience import PATIENCE
from support.shops import DESK, SHOP, main, make_shop

COMMAND = [sys.executable, str(DESK)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.db"
    make_shop(SHOP / "yunling", path)
    return path


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def a_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def asked_over(url: str) -> object:
    async with streamable_http_client(url) as pipes, ClientSession(*pipes[:2]) as session:
        await session.initialize()
        answer = await session.call_tool("get_order", {"order_id": "A-1001"})
        assert answer.structuredContent is not None
        return answer.structuredContent["customer_id"]


def test_it_serves_over_http_to_this_machine_only(shop: Path) -> None:
    port = a_port()
    command = [*COMMAND, "--shop", str(shop), "--http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        patient = time.monotonic() + PATIENCE
        while not listens(port):
            assert process.poll() is None
            assert time.monotonic() < patient
            time.sleep(0.1)
        url = f"http://127.0.0.1:{port}/mcp"
        assert anyio.run(asked_over, url) == "C-1001"
        elsewhere = httpx.post(url, json=HELLO, headers={"Host": "evil.example"})
        assert elsewhere.status_code == 421, "a page of the web cannot reach it by another name"
        second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert second.returncode == 2
        assert second.stderr == f"support_desk: Port {port} is in use: choose another one.\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) in (0, -signal.SIGTERM)


WRONG = {
    "--shop nowhere.db": "There is no shop at 'nowhere.db'",
    "--shop text.db": "'text.db' is no shop",
    "--shop .": "There is no shop at '.'",
    "": "--shop",
    "--shop shop.db --http 99999": "--http",
    "--shop shop.db --http x": "--http",
    "--shop new.db --seed nowhere": "nowhere/catalogue.yaml' cannot be read",
    "--shop no/folder/new.db --seed SHOP": "cannot be written to",
}


def test_what_keeps_it_from_beginning_is_one_sentence(
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("no database, " * 100)
    Path("shop.db").symlink_to(shop)
    for arguments, why in WRONG.items():
        given = arguments.replace("SHOP", str(SHOP / "yunling")).split()
        monkeypatch.setattr("sys.argv", ["support_desk", *given])
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        assert (left.value.code, told.out) == (2, ""), arguments
        assert told.err.startswith("support_desk: ")
        assert told.err.count("\n") == 1
        assert why in told.err


def test_it_ends_when_stdin_closes(shop: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--shop", str(shop)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
