"""`loopwright eval`: what it starts, what it shows, and AgentDojo by it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loopwright.cli import app
from loopwright.cli.evals import build_commands


def test_a_command_line_becomes_those_of_inspect():
    found = build_commands(
        "goals", "logs", graphs=["react", "task_agent"], models=["openai/gpt-5.4", "xai/grok"],
        prompts=["/a/en"], more=["-S", "person=reject", "--epochs", "2"],
    )  # fmt: skip
    shared = ["loopwright/goals", "--log-dir", "logs", "--model", "openai/gpt-5.4,xai/grok"]
    tail = ["-S", "prompts=/a/en", "-S", "person=reject", "--epochs", "2"]
    assert [*found] == [
        [*shared, "--solver", "loopwright/loop", "-S", f"graph={graph}", "--tags", graph, *tail]
        for graph in ("react", "task_agent")
    ]
    (mine, ours) = build_commands("goals", "l", prompts=[".", "en"])
    assert (mine[-1], ours[-1]) == (f"prompts={Path.cwd()}", "prompts=en")
    own = ["--solver", "loopwright/loop", "-S", "graph=customer_service"]
    own += ["--tags", "customer_service"]
    assert [*build_commands("desk", "l")] == [["loopwright/desk", "--log-dir", "l", *own]]


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr("loopwright.cli.evals.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["eval", "goals"])
    assert result.exit_code == 2
    assert "pip install '.[eval]'" in result.output


@pytest.mark.parametrize("wrong", [("--graph", "nowhere"), ("--prompts", "/nowhere")])
def test_what_is_not_there_is_one_sentence_before_anything_runs(wrong):
    result = CliRunner().invoke(app, ["eval", "goals", "--graph", "react", *wrong])
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert "nowhere" in result.output
    assert not Path("logs").exists()


def test_a_folder_of_prompts_may_be_named_from_where_one_is():
    Path("shop").mkdir()
    Path("shop/planner.md").write_text("Plan. {{businessContext}}")
    result = CliRunner().invoke(app, ["eval", "nowhere.py", "--prompts", "shop"])
    assert result.exit_code == 4, "Inspect was started, and has no such task"
