"""The live view's board, its drawing, and the plain lines: driven by hand-made events."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from loopwright.cli.progress import Board, render_event
from loopwright.cli.terminal import Output
from loopwright.cli.view import LiveView, draw_board

PLAN = {
    "type": "plan",
    "round": 1,
    "todos": [
        {"id": "1", "description": "read", "status": "completed"},
        {"id": "2", "description": "write", "status": "pending"},
        {"id": "3", "description": "check", "status": "pending"},
    ],
}
RETRY = {
    "type": "retry", "role": "planner", "model": "m", "attempt": 2, "delay": 1.5, "error": "busy",
}  # fmt: skip
FALLBACK = {"type": "fallback", "role": "planner", "model": "m", "to": "n", "error": "down"}
BUDGET = {"type": "budget", "limit": "tokens", "used": 1600, "of": 2000}


def board_after(*events):
    board = Board()
    for event in events:
        board.apply(event)
    return board


def drawn(board, rows=1_000, height=30):
    shown = io.StringIO()
    console = Console(file=shown, width=80, height=height, force_terminal=False)
    console.print(draw_board(board, 3.0, Text("*"), rows))
    return shown.getvalue()


@pytest.mark.req("S3-13")
def test_tasks_have_an_icon_each_a_percentage_and_the_reason_of_a_failure():
    board = board_after(PLAN, {"type": "task", "id": "3", "status": "in_progress"})
    board.apply({"type": "task", "id": "2", "status": "failed", "result": "disk full"})
    shown = drawn(board)
    assert " 33 %  1 of 3 tasks done" in shown
    assert "✓ 1  read" in shown
    assert "✗ 2  write  failed: disk full" in shown
    assert "▶ 3  check" in shown


FLOW = {
    "type": "plan",
    "round": 1,
    "todos": [
        {"id": "a", "description": "look", "tool": "find", "status": "pending", "depends_on": []},
        {"id": "b", "description": "", "tool": "find", "status": "pending", "depends_on": ["a"]},
        {"id": "c", "description": "write", "tool": "put", "status": "pending",
         "depends_on": ["a", "b", "gone"]},
    ],
}  # fmt: skip
ENDED = {
    "type": "prompt_flow_step_result", "step_id": "a", "success": True, "status": "completed",
    "output": "found", "seconds": 1.25, "attempts": 2,
}  # fmt: skip


def rows_of(board, width=80):
    """The row of each step, by its id, without the icon."""
    shown = io.StringIO()
    Console(file=shown, width=width).print(draw_board(board, 3.0, Text("*")))
    rows = [line.split(None, 2) for line in shown.getvalue().splitlines() if line[:2] == "  "]
    return {row[1]: (row[0], " ".join(row[2].split())) for row in rows if len(row) == 3}


@pytest.mark.req("S2-17")
def test_a_step_shows_its_tool_and_what_it_still_waits_for():
    board = board_after({"type": "phase", "role": "flow_planner"}, FLOW)
    assert "planning" in drawn(board)
    assert "  0 %  0 of 3 steps done" in drawn(board)
    rows = rows_of(board)
    assert rows["a"] == ("○", "find look")
    assert rows["b"] == ("○", "find waits for a")
    assert rows["c"] == ("○", "put write waits for a, b")
    board.apply(ENDED)
    assert rows_of(board)["c"] == ("○", "put write waits for b")


def test_warnings_are_shown_once_each():
    warning = {"type": "warning", "text": "server x is down"}
    screen = io.StringIO()
    view = LiveView(Output(), Console(file=screen, width=80))
    for event in (warning, warning, RETRY, FALLBACK, BUDGET):
        view.show_event(event)
    shown = screen.getvalue()
    assert shown.count("! server x is down") == 1
    assert "! m (planner) failed, retry 2 in 1.5 s: busy" in shown
    assert "! m (planner) failed: down; asking n instead" in shown
    assert "! 1,600 of 2,000 tokens are used" in shown


def test_a_long_plan_is_cut_to_where_the_work_is():
    todos = [
        {"id": str(i), "description": f"d{i}", "status": "completed" if i < 50 else "pending"}
        for i in range(100)
    ]
    shown = drawn(board_after({"type": "plan", "todos": todos}), rows=10)
    assert "… 49 above" in shown
    assert "d50" in shown
    assert "… 41 more" in shown
    assert len(shown.splitlines()) < 20


def test_unknown_and_odd_events_change_nothing():
    board = board_after({"type": "unheard"}, {}, {"type": "plan"}, {"type": "plan", "todos": [7]})
    assert board == Board()


def test_markup_and_escape_codes_in_a_plan_are_text():
    todo = {"id": "[bold]", "description": "x \x1b[2J [red]y[/red]", "status": "pending"}
    shown = drawn(board_after({"type": "plan", "todos": [todo]}))
    assert "[bold]  x \ufffd[2J [red]y[/red]" in shown


def test_an_answer_is_shown_whole_and_an_entity_in_it_steers_no_terminal():
    shown = io.StringIO()
    view = LiveView(Output(), Console(file=shown, width=80))
    text = "Set <your-name>.&#x202e;gnp\n\n<p>\nkept\n</p>\n\n```\na &lt; b <c>\n```"
    view.show_end(END | {"answer": text}, ())
    rows = [row.strip() for row in shown.getvalue().splitlines()]
    assert "Set <your-name>.\ufffdgnp" in rows
    assert [row for row in rows if row in {"<p>", "kept", "</p>"}] == ["<p>", "kept", "</p>"]
    assert "a &lt; b <c>" in rows


def test_a_million_characters_are_still_one_short_line():
    event = {"type": "task", "id": "1", "status": "failed", "description": "x\n" * 500_000}
    assert len(render_event(event) or "") in range(100, 161)


CALLS = ("  ! careful", '✓ 2  put {"p": 1}  0.2 s', '2  put {"p": 1}  Not run.')
END = {
    "status": "complete", "reason": "GOAL", "headline": "Complete.", "answer": "Done.",
    "unmet": [], "uncertain_calls": [], "tasks": [], "models": {}, "spend": {},
}  # fmt: skip


@pytest.mark.req("W-148")
def test_the_live_view_leaves_each_call_and_warning_once_and_the_plan_once():
    plan = PLAN | {"message_id": "m1"}
    call = {"type": "tool_call", "id": "2.1.0", "task": "2", "tool": "put", "arguments": {"p": 1}}
    ended = call | {"status": "success", "seconds": 0.25}
    shown = io.StringIO()
    console = Console(file=shown, width=80, height=30, force_terminal=True, color_system=None)
    view = LiveView(Output(), console)
    with view.show_run({}):
        view.show_event(plan)
        view.show_text("m1", "1. read 2. write 3. check")
        view.show_event({"type": "warning", "text": "careful"})
        view.show_event(call | {"status": "executing"})
        view.show_event(ended)
        view.show_event(ended)
        view.show_event(call | {"id": "2.1.1", "status": "awaiting_approval"})
        during = shown.getvalue()
    with view.show_run({}):  # after the answer
        view.show_event(call | {"id": "2.1.1", "status": "error", "result": "Not run."})
    assert "1. read 2." not in shown.getvalue(), "the plan's message says what the tasks say"
    assert "\n" in during.partition('✓ 2  put {"p": 1}  0.2 s')[2], "as it happens"
    assert [shown.getvalue().count(text) for text in CALLS] == [1, 1, 1]
    kept = len(shown.getvalue())
    view.show_end(END, ())
    assert shown.getvalue()[kept:].count("1 of 3 tasks done") == 1
