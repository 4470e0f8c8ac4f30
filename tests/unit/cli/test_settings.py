"""What the user set."""

import re

import pytest

from loopwright.cli.run import run_goal
from loopwright.cli.settings import (
    Settings,
    check_thread_id,
)
from loopwright.cli.terminal import Output
from loopwright.state.errors import SettingsError


@pytest.mark.req("W-49")
@pytest.mark.parametrize("empty", ["", " "])
@pytest.mark.parametrize(
    "name",
    [
        "graph",
        "model",
    ],
)
def test_an_option_that_says_nothing_is_refused(name, empty):
    with pytest.raises(SettingsError, match=r"--\w+ is empty: give it a value"):
        Settings(**{name: empty})


@pytest.mark.req("W-49")
@pytest.mark.parametrize("name", ["MCP", "POLICY", "MODEL", "DATABASE_URL"])
def test_a_variable_that_says_nothing_is_refused(name):
    environ = {f"LOOPWRIGHT_{name}": ""}
    with pytest.raises(SettingsError, match=f"LOOPWRIGHT_{name} is empty"):
        run_goal(Settings(environ=environ), Output(), "Think", "t")


def test_the_resume_command_carries_what_was_given_but_no_consent():
    settings = Settings(
        mcp="my servers.json", policy="rules.json", model="openai:x", max_parallel=2, yes=True,
        review=True,
    )  # fmt: skip
    told = settings.build_resume_command("t", "sqlite:///.loopwright/threads.db")
    assert told == (
        "loopwright resume t --mcp 'my servers.json' --policy rules.json --model openai:x"
        " --max-parallel 2 --review"
    )


def test_the_resume_command_names_the_database_without_its_password():
    settings = Settings(database="postgresql://me:secret@host/db")
    told = settings.build_resume_command("t", "postgresql://me@host/db")
    assert told == "loopwright resume t --db postgresql://me@host/db"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x1bb"])
def test_a_thread_needs_a_printable_name(name):
    with pytest.raises(SettingsError, match="thread id"):
        check_thread_id(name)


@pytest.mark.req("S0-151")
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings(graph="nope"), "plan_execute_verify"),
        (Settings(model="openai:gpt-5"), "OPENAI_API_KEY"),
        (Settings(mcp="broken.json"), "no valid JSON"),
        (Settings(policy="maybe"), "'maybe' is neither a word (default, allow, ask, deny)"),
        (Settings(environ={"LOOPWRIGHT_POLICY": "odd.json"}), "This is no policy rule"),
        (Settings(database="sqlite:///broken.json/threads.db"), "broken.json"),
        (Settings(database="sqlite:///broken.json"), "broken.json"),
    ],
)
def test_a_wrong_setting_is_one_sentence_before_anything_runs(tmp_path, settings, says):
    (tmp_path / "broken.json").write_text("{not json" * 100)
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "odd.json").write_text('[{"action": "deny", "tols": "x"}]')
    output = Output()
    with pytest.raises(SettingsError, match=re.escape(says)) as told:
        run_goal(settings, output, "x", None)
    assert "\n" not in str(told.value)
    assert output.resume == ""
