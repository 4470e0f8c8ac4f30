"""Questions at the terminal and answers given as text."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.types import Interrupt
from rich.console import Console

from loopwright.cli.approvals import Asker, Question
from loopwright.state.questions import make_question


def tool_question(args=None, id_="a" * 32):
    value = make_question("write", args or {"path": "x"}, "Run write?", tool_call_id="call_1")
    return Question.from_interrupt(Interrupt(value=value, id=id_))


def uncertain_question():
    value = make_question(
        "pay", {"amount": 5}, "It may have run.", answers="settle", tool_call_id="c"
    )
    return Question.from_interrupt(Interrupt(value=value | {"type": "uncertain_call"}, id="d" * 32))


def test_what_a_tool_asks_is_answered_or_declined():
    value = make_question("ask_user", {"seat": ""}, "Which seat?", answers="respond")
    about = Question.from_interrupt(Interrupt(value=value | {"type": "elicitation"}, id="f" * 32))
    reply, shown = asked(about, "", '{"seat": "7a"}')
    assert reply == {"type": "respond", "message": '{"seat": "7a"}'}
    assert "Which seat?" in shown
    assert asked(about, "no")[0] == {"type": "respond", "message": "no"}
    assert asked(about, "d")[0] == {"type": "reject", "message": ""}
    assert asked(about, "q")[0] is None


def plan_question():
    return Question.from_interrupt(
        Interrupt(value=make_question("review_plan", {}, "Run this plan?"), id="c" * 32)
    )


def flow_question(**args):
    """A plan of tool calls under review, in the words of the phase that asks."""
    steps = [{"id": "s1", "tool": "look"}, {"id": "s2", "tool": "put"}]
    told = (
        "Run this plan?\ns1. Look it up: look({})\ns2. Put it there: put({}) (after s1)\n\n"
        "Changed since you saw it:\n+ s2: put — Put it there"
    )
    value = make_question("review_flow", {"goal": "g", "steps": steps, **args}, told)
    return Question.from_interrupt(Interrupt(value=value, id="e" * 32))


def asked(about, *lines, place=""):
    """What is answered when these lines are typed, and what was shown."""
    shown = io.StringIO()
    console = Console(file=shown, width=100)
    typed = iter(lines)
    return Asker(console, lambda: next(typed)).ask(about, place), shown.getvalue()


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        (("i", "paid 5"), {"type": "respond", "message": "paid 5"}),
        (("it ran", ""), {"type": "respond", "message": "It ran; its result is not known."}),
        (("o",), {"type": "approve"}),
        (("once more",), {"type": "approve"}),
        (("g",), {"type": "reject", "message": ""}),
        (("g too risky",), {"type": "reject", "message": "too risky"}),
        (("yes", "a", "approve", "r", "reject", "run", "", "q"), None),
    ],
)
def test_an_uncertain_call_is_settled_by_a_choice_of_its_own(lines, reply):
    about = uncertain_question()
    answer, shown = asked(about, *lines)
    assert answer == reply
    assert "Uncertain call" in shown
    assert "It may have run." in shown
    assert "[i]t ran" in shown
    assert "[o]nce more" in shown
    assert "[s]ession" not in shown


def expiring(when):
    value = make_question("write", {"path": "x"}, "Run write?", tool_call_id="call_1")
    return Question.from_interrupt(Interrupt(value=value | {"expires_at": when}, id="a" * 32))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (30, "in 30 s"), (600, "in 10 min"), (7_200, "in 2 hours"), (200_000, "in 2 days"),
    ],
)  # fmt: skip
def test_until_when_an_answer_counts_is_shown(seconds, told):
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    about = expiring((now + timedelta(seconds=seconds)).isoformat())
    assert about.describe_expiry(now).endswith(told)
    assert about.describe_expiry(now + timedelta(seconds=seconds)).startswith("expired at 20")


@pytest.mark.req("W-52")
@pytest.mark.parametrize("padding", [" ", "x", "\n", "\t", "x\n"])
@pytest.mark.parametrize("times", [500, 3_000, 100_000])
def test_the_end_of_a_long_value_is_seen_before_it_is_approved(padding, times):
    about = tool_question({"command": "ls" + padding * times + "; rm -rf /home"})
    shown = "".join(asked(about, "a")[1].replace("│", "").split())
    assert "rm-rf/home" in shown
    assert "charactersleftout" in shown


@pytest.mark.req("W-52")
def test_the_end_of_a_long_value_is_seen_where_no_terminal_is():
    about = tool_question({"command": "ls" + "x" * 9_000 + "; rm -rf /home"})
    assert "rm -rf /home" in about.render_text()
    assert "characters left out" in about.render_text()


def test_arguments_cannot_steer_the_terminal():
    shown = asked(tool_question({"x": "[bold]\x1b[2J\x9b1m\u202e"}), "f", "a")[1]
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert "[bold]" in shown


def test_edit_in_an_editor(monkeypatch, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/x/edited/ $1\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    assert asked(tool_question(), "e")[0] == {"type": "edit", "args": {"path": "edited"}}


def test_a_plan_of_tool_calls_is_shown_with_its_steps_and_changes():
    shown = asked(flow_question(), "a")[1]
    assert "· s2. Put it there: put({}) (after s1)" in shown
    assert "Changed since you saw it:" in shown
    assert "· + s2: put — Put it there" in shown
    assert not flow_question().is_call, "--yes must not approve it"


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        (("a",), {"type": "approve"}),
        (("r", "too slow"), {"type": "reject", "message": "too slow"}),
        (("f", "f", "q"), None),
        (("e", "{oops", "a"), {"type": "approve"}),
        (("e", '{"steps": []}'), {"type": "edit", "args": {"steps": []}}),
        (("read the other file",), {"type": "respond", "message": "read the other file"}),
        (("", "a new step, please"), {"type": "respond", "message": "a new step, please"}),
    ],
)
@pytest.mark.parametrize("about", [flow_question(), plan_question()], ids=lambda q: q.name)
def test_a_plan_can_be_approved_rejected_edited_or_talked_about(about, lines, reply, monkeypatch):
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    assert asked(about, *lines)[0] == reply


def test_an_edit_of_a_plan_begins_from_what_may_be_changed(monkeypatch, tmp_path):
    copy = tmp_path / "edited.json"
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\ncp $1 {copy}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    shown_only = {"finished": [{"id": "s0"}], "changes": ["+ s2"], "problems": ["no tool"]}
    reply = asked(flow_question(globalVariables={"x": 1}, **shown_only), "e")[0]
    assert set(json.loads(copy.read_text())) == {"goal", "steps", "globalVariables"}
    assert reply == {"type": "edit", "args": json.loads(copy.read_text())}
