"""Questions at the terminal and answers given as text."""

import io

import pytest
from langgraph.types import Interrupt
from rich.console import Console

from loopwright.calls.forms import build_form_question
from loopwright.cli.approvals import Asker, Question
from loopwright.state.questions import make_question


def tool_question(args=None, id_="a" * 32, tool="write"):
    value = make_question(tool, args or {"path": "x"}, "Run write?", tool_call_id="call_1")
    return Question.from_interrupt(Interrupt(value=value, id=id_))


def uncertain_question():
    value = make_question(
        "pay", {"amount": 5}, "It may have run.", answers="settle", tool_call_id="c"
    )
    return Question.from_interrupt(Interrupt(value=value | {"type": "uncertain_call"}, id="d" * 32))


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


@pytest.mark.parametrize(
    "args",
    [
        {"note\namount: 1": "x"},
        {"note": f"{'x' * 85} amount: 1"},
        {"note": f"{'x' * 300}\n"},
        {"note": f"first\n{'y ' * 45}amount: 1"},
        {"note": {"more\namount: 1": "a\nb"}},
    ],
)
def test_no_name_and_no_text_of_an_argument_looks_like_another_argument(args):
    _, shown = asked(tool_question({**args, "amount": 5000}, tool="pay\namount: 1"), "q")
    told = [row.strip("│ ") for row in shown.splitlines()]
    assert [row for row in told if row.startswith("· amount")] == ["· amount: 5000"]
    assert "pay\\namount: 1" in told
    assert shown.count("x") == str(args).count("x"), "nothing is cut off"


@pytest.mark.req("W-52")
@pytest.mark.parametrize(
    "padding",
    [
        " ",
        "\t",
    ],
)
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
    editor.write_text("#!/bin/sh\nrm $1\n")
    assert asked(tool_question(), "e", '{"path": "y"}')[0] == {
        "type": "edit",
        "args": {"path": "y"},
    }


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        (("a",), {"type": "approve"}),
        (("f", "f", "q"), None),
        (("e", '{"steps": []}'), {"type": "edit", "args": {"steps": []}}),
        (("", "a new step, please"), {"type": "respond", "message": "a new step, please"}),
    ],
)
@pytest.mark.parametrize("about", [flow_question(), plan_question()], ids=lambda q: q.name)
def test_a_plan_can_be_approved_rejected_edited_or_talked_about(about, lines, reply, monkeypatch):
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    assert asked(about, *lines)[0] == reply


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        (("y",), {"type": "approve"}),
        (("no",), {"type": "reject", "message": ""}),
        (("q",), None),
    ],
)
def test_a_form_without_fields_is_answered_by_yes_or_no(lines, reply):
    call = {
        "id": "1", "task": "1", "name": "wipe", "server": "disk",
        "form": {"message": "Delete it all?", "schema": {"properties": {}}},
    }  # fmt: skip
    question = Interrupt(value=build_form_question(call, ""), id="f" * 32)
    answer, shown = asked(Question.from_interrupt(question), *lines)
    assert answer == reply
    assert "[y]es  [n]o" in shown


def write_question(content, tool="write_file"):
    return tool_question({"path": "notes.md", "content": content, "overwrite": True}, tool=tool)


def test_a_diff_shows_the_ends_of_lines_that_a_write_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_bytes(b"one\r\ntwo\r\nthree\r\nfour\r\nfive\r\nsix")
    _, shown = asked(write_question("one\ntwo\nthree\nfour\nfive\nSIX\n"), "a")
    for line in ("-one", "+one", "-five", "+five", "-six", "+SIX"):
        assert f"│ {line} " in shown


def test_what_is_approved_is_the_diff_that_was_shown(tmp_path, monkeypatch):
    """Somebody saves the file while the question is open: a write would take their words away."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "notes.md"
    file.write_text("one\n")

    def read():
        if file.read_text() == "one\n":
            file.write_text("one\nhours of work\n")
            return "a"
        return "r"

    shown = io.StringIO()
    console = Console(file=shown, width=100)
    reply = Asker(console, read).ask(write_question("one\ntwo\n"))
    assert reply == {"type": "reject", "message": "r"}
    first, _, second = shown.getvalue().partition("The file has changed")
    assert "hours of work" not in first
    assert "-hours of work" in second


@pytest.mark.parametrize(
    ("about", "lines"),
    [(tool_question(), ("r",)), (uncertain_question(), ("i",)), (tool_question(), ("e",))],
)
def test_the_end_of_the_input_leaves_a_question_open_also_behind_a_choice(
    about, lines, monkeypatch
):
    monkeypatch.delenv("EDITOR", raising=False)
    typed = iter(lines)

    def read():
        if (line := next(typed, None)) is None:
            raise EOFError
        return line

    assert Asker(Console(file=io.StringIO()), read).ask(about) is None
