"""Ctrl-C in `make test`: what failed until then is listed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SUITE = """
import time, pytest

def test_that_fails():
    assert "this" == "that"

@pytest.mark.parametrize("n", range(3))
def test_that_takes_its_time(n):
    time.sleep(600)
"""


@pytest.mark.req("W-61")
def test_a_stopped_suite_lists_what_failed_and_shows_nothing_of_its_inside(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_suite.py").write_text(SUITE)
    suite = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-v", "-n", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        told = next(line for line in suite.stdout if "FAILED" in line)
        os.killpg(suite.pid, signal.SIGINT)  # as a terminal does: to make, pytest and its workers
        told += suite.communicate(timeout=PATIENCE)[0]
    finally:
        if suite.poll() is None:
            os.killpg(suite.pid, signal.SIGKILL)
    _, _, listed = told.partition("short test summary info")
    assert "KeyboardInterrupt" in listed
    assert "FAILED" in listed
    assert "test_that_fails" in listed
    assert "Traceback (most recent call last)" not in told
    assert "INTERNALERROR" not in told
