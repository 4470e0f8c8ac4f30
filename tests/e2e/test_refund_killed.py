"""A refund is made once and a ticket too, whatever is killed, and whoever asks at the same time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support import refunding
from support.dialogues import opened
from support.forked import server
from support.patience import PATIENCE
from support.shops import desk_server

STEPS = (refunding.IN_THE_TOOL, 11, 12, 21)
"""Of 27: `benchmarks/refund_kill.py` has the process killed after each of them."""


@pytest.mark.req("S4-69", "P-36")
def test_a_killed_refund_is_one_refund_and_one_ticket(tmp_path):
    opened(shop := tmp_path / "shop.db")
    mcp = {"desk": desk_server(server().python, shop)}
    done = subprocess.run(
        [sys.executable, "-m", "support.refunding", tmp_path, json.dumps(mcp), *map(str, STEPS)],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
        cwd=Path(refunding.__file__).parents[1],
    )  # fmt: skip
    told = json.loads(done.stdout)
    both = told.pop("-1")
    assert told == {str(step): [-9, 0, [149.0], 1] for step in STEPS}, done.stderr
    assert both == [0, 0, [149.0], 2], done.stderr
