"""The benchmarks of killed plans and agents, in short: each ends as if nothing had happened."""

import json
import subprocess
import sys

import pytest

from support.patience import PATIENCE


@pytest.mark.parametrize(
    ("script", "same"),
    [
        pytest.param("flow_kill.py", "same_ending", marks=pytest.mark.req("S2-16", "P-06")),
        pytest.param("tree_kill.py", "told_all", marks=pytest.mark.req("S4-45", "P-06")),
    ],
)
def test_what_is_killed_ends_the_same_and_no_write_is_made_twice_or_lost(script, same, repository):
    script = repository / "benchmarks" / script
    run = subprocess.run(
        [sys.executable, "-u", str(script), "1", "3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    told = json.loads(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (told["done_twice"], told["lost"]) == (0, 0)
    assert (told["ended"], told[same]) == (1, 1)
    assert told["asked"] == told["uncertain"]
    assert told["killed"] >= 1, "a run must be killed for this to prove anything"
