"""What a policy sums up is ruled and changed by one call at a time, in whatever thread and process."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.forked import Command, server
from support.guarded import Shop
from support.killed import spawn
from support.mcp_servers import HERE, _await_port, free_port
from support.patience import PATIENCE
from support.rushing import rush

PROCESSES = THREADS = 8


@contextmanager
def till(folder):
    """A real server of the shop in this folder; yields what a graph is given of it."""
    port = str(free_port())
    with Command(server(), (str(folder), port), env={}, script=HERE / "till.py"):
        _await_port(int(port))
        yield {"mcp": {"till": {"url": f"http://127.0.0.1:{port}/mcp"}}}


@pytest.mark.req("W-121")
def test_no_more_is_paid_back_than_was_paid_however_many_ask_at_once(url, tmp_path):
    shop = Shop(tmp_path)
    with till(tmp_path) as tools:
        rushing = [
            spawn(rush, url, str(tmp_path), str(n), 40.0, THREADS, tools) for n in range(PROCESSES)
        ]
        for process in rushing:
            process.join(PATIENCE)
    assert [process.exitcode for process in rushing] == [0] * PROCESSES
    told = [one.read_text() for one in tmp_path.glob("*.told")]
    assert len(told) == PROCESSES * THREADS
    assert shop.refunds == [("A-1", 40.0)] * 3  # of 149
    assert sum("Nobody gets back more than was paid" in one for one in told) == len(told) - 3, told
