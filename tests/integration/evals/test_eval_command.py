"""`loopwright eval`: what it starts, what it shows, and AgentDojo by it."""

import json

from typer.testing import CliRunner

from loopwright.cli import app
from loopwright.cli.evals import build_commands


def test_a_command_line_becomes_those_of_inspect():
    found = build_commands(
        "goals", "logs", graphs=["react", "task_agent"], models=["openai:gpt-5.4", "xai/grok"],
        prompts=["/a/en"], limit=3, values=["person=reject"], more=["--epochs", "2"],
    )  # fmt: skip
    shared = ["loopwright/goals", "--log-dir", "logs", "--model", "openai/gpt-5.4,xai/grok"]
    tail = ["-S", "prompts=/a/en", "-S", "person=reject", "--epochs", "2"]
    assert [*found] == [
        [*shared, "--limit", "3", "--solver", "loopwright/loop", "-S", f"graph={graph}", *tail]
        for graph in ("react", "task_agent")
    ]
    assert [*build_commands("desk", "logs")] == [["loopwright/desk", "--log-dir", "logs"]]


def test_a_task_of_another_package_is_measured_by_our_scores_too():
    dojo = "inspect_evals/agentdojo"
    (found,) = build_commands(
        dojo, "l", key="utility", task_values=["workspace=banking", "user_task_ids=[0]"]
    )
    assert found[:4] == ["loopwright/measure", "-T", f"task={dojo}", "-T"]
    inner = json.loads(found[4].removeprefix("task_args="))
    assert inner == {"workspace": "banking", "user_task_ids": [0]}
    assert found[5:7] == ["-T", "key=utility"]
    assert found[-2:] == ["--solver", "loopwright/loop"]


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr("loopwright.cli.evals.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["eval", "goals"])
    assert result.exit_code == 2
    assert "pip install '.[eval]'" in result.output
