"""From exceptions to sentences and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.cli.terminal import LOG_FILE, Output, run_guarded
from loopwright.state.errors import (
    AnswerRejected,
    DatabaseError,
    ModelCallFailed,
    SettingsError,
    ThreadNotFound,
)


def raising(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("wrong"), 2),
        (ThreadNotFound("gone"), 2),
        (AnswerRejected("no"), 2),
        (ModelCallFailed("down"), 4),
        (ZeroDivisionError("oops"), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error, code, capsys):
    assert run_guarded(Output(thread="t", resume="loopwright resume t"), raising(error)) == code
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    assert "loopwright resume t" in told.out + told.err


@pytest.mark.req("S0-76", "S0-151")
def test_the_details_of_the_unexpected_go_to_the_log_file(capsys):
    assert run_guarded(Output(), raising(ZeroDivisionError("oops"))) == 4
    assert "ZeroDivisionError: oops. The details are in" in capsys.readouterr().err
    assert "Traceback" in Path(LOG_FILE).read_text()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SettingsError("a\nb"), {"status": "error", "error": "a b"}),
        (ModelCallFailed("down"), {"status": "failed", "error": "down"}),
        (KeyboardInterrupt(), {"status": "paused", "thread": "", "resume": ""}),
    ],
)
def test_json_says_it_in_one_object(error, told, capsys):
    run_guarded(Output(json=True), raising(error))
    assert json.loads(capsys.readouterr().out) == told


@pytest.mark.req("W-66")
def test_a_database_that_fails_in_mid_run_is_no_wrong_use(capsys):
    error = DatabaseError("Nothing can be saved.")
    assert run_guarded(Output(), raising(error)) == 2
    assert run_guarded(Output(thread="t", resume="loopwright resume t"), raising(error)) == 4
    assert "go on with: loopwright resume t" in capsys.readouterr().err


STOPPED_AGAIN = """
import atexit, os, signal, sys, time
from loopwright.cli.terminal import Output, run_guarded
def clean_up():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
def action():
    atexit.register(clean_up)
    raise KeyboardInterrupt
sys.exit(run_guarded(Output(resume="loopwright resume t"), action))
"""


def test_one_more_interrupt_ends_a_stopped_process_without_a_traceback():
    ran = subprocess.run([sys.executable, "-c", STOPPED_AGAIN], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (130, "")
    assert "Nothing is lost" in ran.stdout
