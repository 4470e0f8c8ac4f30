"""Under LANGGRAPH_STRICT_MSGPACK, where LangGraph reads nothing back but what it knows to be safe.

In all other tests `nothing_but_safe_types_is_saved` sees what would be refused. Here LangGraph does
what it does under the variable alone: it gives each saver a list of types.
"""

import os
import subprocess
import sys

import pytest

from loopwright.graphs.registry import REGISTRY
from support.patience import PATIENCE
from support.places import TESTS

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
from langgraph.checkpoint.serde import event_hooks
event_hooks.register_serde_event_listener(lambda event: print(event))
from support.strictly import run
for name, saver, ends in run(sys.argv[1]):
    print(name, saver, *ends)
"""


@pytest.mark.req("P-46")
def test_every_graph_runs_and_goes_on_under_strict_rules(tmp_path):
    tests = str(TESTS)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": tests},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4_000:]
    ends = [
        f"{name} {saver} complete complete" for name in REGISTRY for saver in ("memory", "sqlite")
    ]
    assert done.stdout.splitlines() == ends
    assert "Blocked deserialization" not in done.stderr
    assert "unregistered" not in done.stderr
