"""Scripted customers at the real desk, graded on its database and on what they were told."""

import socket
import subprocess
import time

import pytest

from loopwright import open_durability
from support import forked
from support.budget import THOROUGH
from support.dialogues import WAYS, all_of, dialogues, opened
from support.patience import PATIENCE
from support.shops import DESK


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    shop = opened(path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [forked.server().python, str(DESK), "--shop", str(path)]
    with subprocess.Popen([*command, "--http", str(port)], stderr=subprocess.DEVNULL) as server:
        for _ in range(int(PATIENCE / 0.05)):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield shop, {"desk": {"url": f"http://127.0.0.1:{port}/mcp", "trust": True}}
        server.terminate()


@pytest.mark.req("P-36", "S1-51")
def test_customers_get_what_the_policy_gives_and_nothing_else(world, tmp_path):
    place, mcp = world
    chosen = [
        (one, WAYS[n % len(WAYS)]) for n, one in enumerate(dialogues()[:: 1 if THOROUGH else 3])
    ]
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        ended = all_of(chosen, place, mcp, kept)
    assert {f"{one.dialogue['name']} ({one.way})": one.wrong for one in ended if one.wrong} == {}
