"""The commands in this process: their options, and the parts that need no model."""

import ast
import json
import os
import signal
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loopwright.cli import app
from loopwright.cli.settings import NO_MODEL
from loopwright.cli.terminal import send_signals_to


def invoked(*args, **more):
    return CliRunner().invoke(app, list(args), **more)


def test_the_doctor_finds_everything(tmp_path):
    shown = invoked("doctor")
    assert shown.exit_code == 0
    assert "✓ offline (plan_execute_verify: planner, executor, verifier; react: " in shown.stdout
    assert "react: thought, action, observation; prompt_flow: flow_planner, " in shown.stdout
    assert f"! {NO_MODEL}" in shown.stdout
    assert "✓ workspace: 5 tools" in shown.stdout
    assert "ask write_file" in shown.stdout
    assert "A run would work here." in shown.stdout


def test_the_doctor_finds_what_is_broken(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DATABASE_URL", "nonsense")
    (tmp_path / "broken.json").write_text("{")
    shown = invoked(
        "doctor", "--mcp", "broken.json", "--model", "nope:model"
    )  # fmt: skip
    assert shown.exit_code == 2
    assert shown.stdout.count("✗") == 3
    assert "A run would not work here." in shown.stdout


def test_the_doctor_finds_a_server_that_does_not_start(tmp_path, monkeypatch):
    gone = {"mcpServers": {"gone": {"command": "/no/such/binary"}}}
    (tmp_path / "gone.json").write_text(json.dumps(gone))
    monkeypatch.setenv("LOOPWRIGHT_DATABASE_URL", "sqlite:////proc/x.db")
    shown = invoked("doctor", "--mcp", "gone.json")
    assert shown.exit_code == 2
    assert "'/no/such/binary' was not found" in shown.stdout
    assert "/proc/x.db" in shown.stdout


@pytest.mark.req("W-168")
def test_the_doctor_looks_at_a_database_alone(tmp_path):
    shown = invoked("doctor", "--db", "sqlite:///x.db")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("Database\n  ✓ version: SQLite ")
    assert "! file: " in shown.stdout
    assert "This database would work here." in shown.stdout
    assert not (tmp_path / "x.db").exists()
    (tmp_path / "x.db").write_text("no database at all, but long enough to be read as one" * 9)
    shown = invoked("doctor", "--db", "sqlite:///x.db", "--json")
    assert shown.exit_code == 2
    told = json.loads(shown.stdout)
    assert told["status"] == "broken"
    (one,) = [one for one in told["findings"] if one["level"] == "broken"]
    assert (one["part"], one["text"].split(": ")[0]) == ("Database", "file")
    assert "put back a copy" in one["text"]


def test_signals_are_heard_meanwhile_and_given_back():
    heard = []
    before = signal.getsignal(signal.SIGINT)
    with send_signals_to(lambda number, _: heard.append(number)):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is before


def test_who_does_the_work_of_a_command_takes_what_it_declares():
    file = Path(import_module("loopwright.cli.app").__file__)
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        for mark in getattr(node, "decorator_list", ()):
            for runs in (k.value.value for k in getattr(mark, "keywords", ()) if k.arg == "runs"):
                module, _, function = runs.partition(".")
                body = getattr(import_module(f"loopwright.cli.{module}"), function)
                _, _, *takes = signature(body).parameters
                assert takes == [argument.arg for argument in node.args.args], runs
