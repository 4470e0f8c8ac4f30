"""What MCP servers cost: a process over stdio, a session over HTTP, and few processes for many.

Usage: python benchmarks/mcp_servers.py [--sessions 200] [--calls 400]
"""

import argparse
import asyncio
import gc
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from loopwright.calls.toolbox import Toolbox
from support.mcp_servers import serving, stdio


def resident(pid: int | str = "self") -> float:
    """MB of memory that a process has to itself: what it shares with others is not counted."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def tell(line: str) -> None:
    """Print a result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def descendants() -> list[int]:
    """The processes of the servers."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = stat.read_text().rsplit(")", 1)[1].split()
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


async def call(box: Toolbox, name: str, user: str | None = None, **args: Any) -> Any:
    """Call a tool past the gate: only the server's side counts here."""
    tool = (await box.catalog(user)).tools[name]
    return await box.call_server(tool, args, user_id=user, meta={})


async def of_process(times: int = 5) -> None:
    """A process over stdio: until its first answer, its memory, and a call on it."""
    opened, memory = [], 0.0
    warm = Toolbox(mcp={"mcpServers": {"faulty": stdio("faulty")}})
    await call(warm, "echo", n=1)  # our own imports are not the server's
    await warm.aclose()
    for _ in range(times):
        box = Toolbox(mcp={"mcpServers": {"desk": stdio("desk")}})
        began = time.perf_counter()
        await call(box, "pid")
        opened.append(time.perf_counter() - began)
        memory = max(resident(pid) for pid in descendants())
        began = time.perf_counter()
        for _ in range(100):
            await call(box, "pid")
        each = (time.perf_counter() - began) / 100
        await box.aclose()
    tell(f"stdio: {statistics.median(opened):.2f} s until the first answer,"
          f" {memory:.0f} MB a process, {each * 1000:.1f} ms a call")  # fmt: skip


async def of_sessions(count: int) -> None:
    """A session over HTTP for each of many users: its memory here and there, and its opening."""
    with serving() as (process, url):
        headers = {"headers": lambda user: {"Authorization": f"Bearer {user}"}}
        box = Toolbox(mcp={"mcpServers": {"desk": {"url": url, **headers}}})
        await call(box, "pid", "nobody")
        gc.collect()
        here, there = resident(), resident(process.pid)
        opened = []
        for user in range(count):
            began = time.perf_counter()
            await call(box, "pid", f"user {user}")
            opened.append(time.perf_counter() - began)
        gc.collect()
        began = time.perf_counter()
        for _ in range(100):
            await call(box, "pid", "nobody")
        each = (time.perf_counter() - began) / 100
        ours, theirs = (resident() - here) / count, (resident(process.pid) - there) / count
        tell(f"HTTP: {statistics.median(opened) * 1000:.0f} ms until a user's first answer,"
              f" {ours * 1024:.0f} kB a session here and {theirs * 1024:.0f} kB at the server,"
              f" {each * 1000:.1f} ms a call")  # fmt: skip
        await box.aclose()


async def of_seats(calls: int) -> None:
    """Calls of 8 servers in turn, with a process for each and with fewer."""
    servers = {f"s{n}": stdio("faulty") for n in range(8)}
    whole = 0.0
    for most in (8, 4, 1):
        os.environ["LOOPWRIGHT_MCP_PROCESSES"] = str(most)
        box = Toolbox(mcp={"mcpServers": servers})
        await box.catalog()
        began = time.perf_counter()
        await asyncio.gather(*(call(box, f"s{n % 8}_echo", n=n) for n in range(calls)))
        took = time.perf_counter() - began
        whole = whole or took
        tell(f"{calls} calls of 8 servers with {most} processes: {took:.2f} s,"
              f" {took / whole:.1f} times as long as with 8")  # fmt: skip
        await box.aclose()


async def main() -> None:
    """Measure all three."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--sessions", type=int, default=200)
    asked.add_argument("--calls", type=int, default=400)
    given = asked.parse_args()
    await of_process()
    await of_sessions(given.sessions)
    await of_seats(given.calls)


if __name__ == "__main__":
    asyncio.run(main())
