"""The benchmark of killed runs, in short: writes are made once, whatever the moment of the kill."""

import json
import subprocess
import sys

import pytest

from support.patience import PATIENCE


@pytest.mark.req("P-06", "P-04")
def test_no_write_is_made_twice_or_lost_when_the_process_is_killed(repository):
    script = repository / "benchmarks" / "kill_nine.py"
    run = subprocess.run(
        [sys.executable, "-u", str(script), "1", "3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    told = json.loads(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (told["done_twice"], told["lost"], told["ended"]) == (0, 0, 1)
    assert told["asked"] == told["uncertain"]
    assert told["killed"] >= 1, "a run must be killed for this to prove anything"
