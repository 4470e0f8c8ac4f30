"""Small MCP servers for tests, and how to start them."""

import asyncio
import contextlib
import http.server
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from support.forked import Command, server
from support.patience import PATIENCE

HERE = Path(__file__).parent


def stdio(program, *args, **more) -> Any:
    """The configuration of a server over stdio, which is forked and need not do its imports."""
    return process(program, *args, **more) | {"command": server().python}


def process(program, *args, **more) -> Any:
    """The same with a new interpreter, for tests of what becomes of the server's processes."""
    return {"command": sys.executable, "args": [str(HERE / f"{program}.py"), *args], **more}


def free_port() -> Any:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(port=None, *args, program="desk") -> Any:
    """Run the desk, or another one, over streamable HTTP, forked; yields its process and URL."""
    port = port or free_port()
    given = ("--port", str(port), *args)
    with Command(server(), given, env=os.environ, script=HERE / f"{program}.py") as process:
        _await_port(port)
        yield process, f"http://127.0.0.1:{port}/mcp"


class _Refuse(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def refusing() -> Any:
    """An HTTP server that answers everything with 401; yields its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


def _await_port(port) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(port)


def children() -> Any:
    """Ids of this process's living children, but for the one that servers are forked from."""
    found = set()
    always = {server().process.pid} if server.cache_info().currsize else set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(stat.parent.name))
    return found - always


async def gone(before) -> Any:
    """Wait a moment until no child is left that was not there before; returns the rest."""
    await soon(lambda: not children() - before)
    return children() - before


async def soon(holds) -> Any:
    """Wait until something holds; says whether it does."""
    for _ in range(int(PATIENCE / 0.05)):
        if holds():
            return True
        await asyncio.sleep(0.05)
    return holds()
