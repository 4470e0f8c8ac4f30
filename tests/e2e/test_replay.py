"""`loopwright replay`: a thread on record runs again without a call, also one that was killed."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from support.forked import Command, Done, server
from support.patience import PATIENCE
from support.scripts import call, thought

FAULTY = Path(__file__).parents[1] / "support" / "mcp_servers" / "faulty.py"


def cli(*args, **env):
    with Command(server(), args, stdin="", env=os.environ | env) as command:
        return Done(command.wait(PATIENCE), *command.said())


def write_json(name, content):
    Path(name).write_text(json.dumps(content))
    return name


def pay_and_die(book, record):
    """A run that is killed after its payment took effect and before anybody heard of it."""
    mcp = {"mcpServers": {"bank": {"command": sys.executable, "args": [str(FAULTY)]}}}
    script = {"thought": [thought("I pay.", more=True)], "action": [[call("hold", path=str(book))]]}
    given = ("run", "--graph", "react", "--thread", "t", "--yes", "--record", record,
             "--mcp", write_json("mcp.json", mcp), "--script", write_json("pay.json", script),
             "Pay once.")  # fmt: skip
    with Command(server(), given, stdin="", env=dict(os.environ)) as running:
        until = time.monotonic() + PATIENCE
        while not book.exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert book.exists(), running.said()
        running.kill()


@pytest.mark.parametrize("word", ["respond: It is paid.", "reject"])
def test_a_payment_that_was_killed_and_resumed_is_replayed_without_a_call(
    word, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    pay_and_die(book := tmp_path / "book", "rec")
    rest = write_json("rest.json", {"observation": ["Paid."], "thought": [thought("Paid once.")]})
    go_on = ("--mcp", "mcp.json", "--script", rest, "--record", "rec")
    assert cli("resume", "t", "--yes", *go_on).returncode == 5
    resumed = cli("resume", "t", word, *go_on)
    assert resumed.returncode in (0, 3), resumed.stderr
    for left in ("rest.json", "pay.json"):
        Path(left).unlink()
    write_json("mcp.json", {"mcpServers": {"bank": {"command": "/nowhere/bank"}}})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    same = cli("replay", "t", "--mcp", "mcp.json", "--record", "rec", "--json")
    assert same.returncode == 0, same.stdout
    told = json.loads(same.stdout)
    assert (told["status"], told["runs"], told["model_answers"]) == ("equal", 4, 4)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert book.read_text() == "noted\n"
    Path("rules").mkdir()
    Path("rules/AGENTS.md").write_text("Pay nobody.\n")
    env = {"LOOPWRIGHT_RECORD": "rec", "LOOPWRIGHT_INSTRUCTIONS": "rules"}
    other = cli("replay", "t", "--mcp", "mcp.json", **env)
    assert (other.returncode, "\n+Pay nobody.\n" in other.stdout) == (1, True)


@pytest.mark.parametrize("files", [2, 3, 5, 6])
def test_wherever_a_run_was_killed_its_replay_does_the_same(files, tmp_path, monkeypatch):
    """With so many files on record: before any model answer, after one, and around the "yes"."""
    monkeypatch.chdir(tmp_path)
    wrote = [call("write_file", path="a.txt", content="x")]
    script = {
        "thought": [thought("I write.", more=True), thought("It is written.")],
        "action": [wrote], "observation": ["Written."],
    }  # fmt: skip
    given = ("run", "--graph", "react", "--thread", "t", "--yes", "--record", "rec",
             "--script", write_json("script.json", script), "Write x to a.txt")  # fmt: skip
    with Command(server(), given, stdin="", env=dict(os.environ)) as running:
        until = time.monotonic() + PATIENCE
        while len([*Path("rec").glob("*.json")]) < files and time.monotonic() < until:
            time.sleep(0.001)
        running.kill()
    answers = [json.loads(path.read_text()) for path in Path("rec").glob("*-model.json")]
    used = [answer["role"] for answer in answers]
    script["thought"] = script["thought"][min(used.count("thought"), 1) :] + script["thought"][1:]
    script["action"], script["observation"] = [wrote] * 2, ["Written."] * 2
    go_on = ("--yes", "--record", "rec", "--script", write_json("script.json", script))
    if cli("resume", "t", *go_on).returncode == 5:
        cli("resume", "t", "respond: It is written.", *go_on)
    same = cli("replay", "t", "--record", "rec")
    assert (same.returncode, same.stdout.splitlines()[-1]) == (0, "Today's code does the same.")
