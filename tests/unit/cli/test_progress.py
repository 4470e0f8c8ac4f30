"""The live view's board, its drawing, and the plain lines: driven by hand-made events."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from loopwright.cli.progress import Board, render_event, render_item_count
from loopwright.cli.terminal import Output
from loopwright.cli.view import LiveView, PlainView, draw_board

PLAN = {
    "type": "plan",
    "round": 1,
    "todos": [
        {"id": "1", "description": "read", "status": "completed"},
        {"id": "2", "description": "write", "status": "pending"},
        {"id": "3", "description": "check", "status": "pending"},
    ],
}
CALL = {"type": "tool_call", "id": "2.1.0", "task": "2", "tool": "add", "arguments": {"a": 1}}
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
    failed = {"id": "2", "status": "failed", "feedback": "disk full"}
    board = board_after(PLAN, {"type": "task", "id": "3", "status": "in_progress"})
    board.apply({"type": "tasks", "todos": [failed]})
    shown = drawn(board)
    assert " 33 %  1 of 3 tasks done" in shown
    assert "✓ 1  read" in shown
    assert "✗ 2  write  failed: disk full" in shown
    assert "▶ 3  check" in shown


def test_a_new_plan_replaces_the_old_one():
    board = board_after(PLAN, {"type": "plan", "todos": [{"id": "9", "description": "again"}]})
    assert list(board.tasks) == ["9"]
    assert "  0 %" in drawn(board)


def test_a_running_call_is_shown_until_it_ends():
    board = board_after(PLAN, {**CALL, "status": "executing"})
    assert '→ add {"a": 1}' in drawn(board)
    board.apply({**CALL, "status": "success", "seconds": 0.1})
    assert "→" not in drawn(board)
    assert "1 tool call " in drawn(board)


def test_many_calls_are_counted_instead_of_shown():
    calls = [{**CALL, "id": str(i), "status": "executing"} for i in range(9)]
    assert "… 5 more" in drawn(board_after(*calls))


def test_spend_adds_up_and_calls_that_never_ran_do_not_count():
    asked = {"type": "model", "asks": 2, "input_tokens": 1000, "output_tokens": 234}
    denied = [{**CALL, "status": "validating"}, {**CALL, "status": "cancelled"}]
    reused = [{**CALL, "status": "scheduled"}, {**CALL, "status": "success"}]
    assert "2 model calls · 0 tool calls · 1,234 tokens" in drawn(
        board_after(asked, *denied, *reused)
    )


def test_a_call_that_awaits_approval_is_shown_apart():
    board = board_after(PLAN, {**CALL, "status": "awaiting_approval"})
    assert '? add {"a": 1}' in drawn(board)
    board.apply({**CALL, "status": "executing"})
    assert '→ add {"a": 1}' in drawn(board)


STEP = {"type": "tool_call", "id": "react.1.0", "tool": "add", "arguments": {"a": 1}}


def test_a_loop_without_tasks_shows_phase_iteration_calls_and_observations():
    phase = {"type": "phase", "role": "action", "iteration": 2}
    board = board_after(phase, {**STEP, "status": "executing"})
    assert "choosing the next step, iteration 2" in drawn(board)
    assert '→ add {"a": 1}' in drawn(board)
    board.apply({**STEP, "status": "error", "result": "no"})
    board.apply({"type": "observation", "text": "It\x1b[2J failed."})
    shown = drawn(board)
    assert '✗ add {"a": 1}' in shown
    assert "It\ufffd[2J failed." in shown
    assert "→" not in shown
    assert "1 tool call " in shown


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
BEGUN = {
    "type": "prompt_flow_step_start", "step_id": "a", "description": "look", "tool": "find",
    "attempt": 2,
}  # fmt: skip
ENDED = {
    "type": "prompt_flow_step_result", "step_id": "a", "success": True, "status": "completed",
    "output": "found", "seconds": 1.25, "attempts": 2,
}  # fmt: skip
FAILED = {
    "type": "prompt_flow_step_result", "step_id": "b", "success": False, "status": "failed",
    "output": "disk full", "seconds": 0.1, "attempts": 1,
}  # fmt: skip
RECOVERY = {
    "type": "recovery", "strategy": "retry_step", "reason": "it was busy", "steps": ["b"],
}  # fmt: skip
FLAWS = {"type": "flaws", "round": 1, "findings": ["no tool 'x'", "step 'a' depends on itself"]}


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


def test_a_step_that_runs_shows_its_attempt_and_one_that_ended_its_time():
    board = board_after({"type": "phase", "role": "flow_planner"}, FLOW, BEGUN)
    assert rows_of(board)["a"] == ("▶", "find look 2 attempts")
    assert "working" in drawn(board)
    board.apply(ENDED)
    assert rows_of(board)["a"] == ("✓", "find look 2 attempts, 1.2 s")
    assert " 33 %  1 of 3 steps done" in drawn(board)


def test_a_step_that_could_begin_waits_for_its_turn_while_another_runs():
    board = board_after(FLOW, ENDED)
    assert rows_of(board)["b"] == ("○", "find")
    board.apply({"type": "task", "id": "c", "status": "in_progress"})
    assert rows_of(board)["b"] == ("○", "find waits for its turn")


def test_a_failed_step_says_why_and_what_is_done_about_it():
    board = board_after(FLOW, ENDED, FAILED, RECOVERY)
    assert rows_of(board)["b"] == ("✗", "find disk full 0.1 s")
    assert "! b failed, retry_step: it was busy" in drawn(board)
    board.apply({"type": "task", "id": "b", "status": "pending"})
    assert rows_of(board)["b"] == ("○", "find")


def test_a_step_that_is_left_out_says_why():
    why = "it needs the result of 'a'"
    board = board_after(FLOW, {**FAILED, "status": "skipped", "output": why, "attempts": 0})
    assert rows_of(board)["b"] == ("↷", f"find {why}")
    assert " 33 %  1 of 3 steps done" in drawn(board)


def test_a_step_whose_call_awaits_approval_says_so_until_it_runs():
    asking = {**CALL, "id": "a.1.0", "task": "a", "tool": "find", "status": "awaiting_approval"}
    board = board_after(FLOW, BEGUN, asking)
    board.apply({"type": "task", "id": "a", "status": "pending"})
    assert rows_of(board)["a"] == ("?", "find look waits for your approval")
    board.apply({**asking, "status": "executing"})
    assert rows_of(board)["a"][0] == "○"


def test_long_ids_and_waits_leave_room_on_a_narrow_terminal():
    todos = [
        {"id": "x" * 60 + str(i), "description": "what it is for", "tool": "y" * 60,
         "depends_on": ["x" * 60 + "0"] if i else []}
        for i in range(3)
    ]  # fmt: skip
    shown = drawn(board_after({"type": "plan", "todos": todos}))
    assert shown.count("what it") == 3
    assert max(map(len, shown.splitlines())) <= 80


def test_findings_in_a_plan_are_told_once_it_is_sent_back():
    shown = drawn(board_after(FLAWS))
    assert "! the plan could not run and is mended: no tool 'x'; step 'a' depends" in shown


def test_many_steps_are_cut_to_the_latest():
    ended = [{**STEP, "id": str(i), "arguments": {"a": i}, "status": "success"} for i in range(30)]
    shown = drawn(board_after(*ended), rows=5)
    assert "… 25 above" in shown
    assert '{"a": 29}' in shown
    assert '{"a": 24}' not in shown


def test_warnings_are_shown_once_each():
    warning = {"type": "warning", "text": "server x is down"}
    shown = drawn(board_after(warning, warning, RETRY, FALLBACK, BUDGET))
    assert shown.count("server x is down") == 0  # only the latest three fit
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


def test_a_resumed_thread_starts_from_what_is_done():
    board = Board()
    board.load_saved({"todos": PLAN["todos"], "spend": {"model_calls": 7}})
    assert " 33 %" in drawn(board)
    assert "7 model calls" in drawn(board)


def test_a_resumed_loop_starts_from_the_calls_that_were_made():
    board = Board()
    made = {"id": "react.1.0", "tool": "add", "arguments": {"a": 1}, "status": "success"}
    board.load_saved({"evidence": [made], "spend": {"tool_calls": 1}})
    assert '✓ add {"a": 1}' in drawn(board)


def test_an_ended_thread_starts_with_an_empty_board():
    board = Board()
    board.load_saved({"todos": PLAN["todos"], "outcome": {"status": "complete"}})
    assert board.tasks == {}


def test_unknown_and_odd_events_change_nothing():
    board = board_after({"type": "unheard"}, {}, {"type": "plan"}, {"type": "plan", "todos": [7]})
    assert board == Board()


def test_markup_and_escape_codes_in_a_plan_are_text():
    todo = {"id": "[bold]", "description": "x \x1b[2J [red]y[/red]", "status": "pending"}
    shown = drawn(board_after({"type": "plan", "todos": [todo]}))
    assert "[bold]  x \ufffd[2J [red]y[/red]" in shown


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "phase", "role": "planner", "round": 1}, "planner: round 1"),
        (
            {"type": "phase", "role": "executor", "task": "2", "round": 3},
            "executor: task 2, round 3",
        ),
        (PLAN, "plan: 3 tasks: 1 read; 2 write; 3 check"),
        (
            {"type": "task", "id": "2", "status": "failed", "description": "w"},
            "task 2 failed: w",
        ),
        ({**CALL, "status": "executing"}, 'call 2.1.0 add {"a": 1}'),
        (
            {**CALL, "status": "success", "seconds": 0.25, "result": "3\n4"},
            "call 2.1.0 success (0.2 s): 3 4",
        ),
        ({**CALL, "status": "validating"}, None),
        ({**CALL, "status": "scheduled"}, None),
        (
            {**CALL, "status": "awaiting_approval"},
            'call 2.1.0 awaiting approval: add {"a": 1}',
        ),
        (
            {**CALL, "status": "cancelled", "reason": "rejected", "result": "too much"},
            "call 2.1.0 cancelled, rejected (0.0 s): too much",
        ),
        (
            {**CALL, "status": "success", "reused_from": "1.1.0", "result": "7"},
            "call 2.1.0 success, reused from 1.1.0 (0.0 s): 7",
        ),
        ({"type": "phase", "role": "thought", "iteration": 3}, "thought: iteration 3"),
        ({"type": "observation", "text": "It\nis 7."}, "observation: It is 7."),
        (
            {"type": "model", "role": "planner", "model": "m", "input_tokens": 5},
            "planner asked m: 5 tokens in, 0 out",
        ),
        ({"type": "warning", "text": "careful"}, "warning: careful"),
        (RETRY, "warning: m (planner) failed, retry 2 in 1.5 s: busy"),
        (FALLBACK, "warning: m (planner) failed: down; asking n instead"),
        (BUDGET, "warning: 1,600 of 2,000 tokens are used"),
        ({"type": "verdict", "passed": True}, "verdict: passed"),
        (
            {"type": "verdict", "passed": False, "improvements": ["a", "b"]},
            "verdict: not yet: a; b",
        ),
        (
            {"type": "outcome", "status": "stuck", "reason": "SAME_PLAN"},
            "outcome: stuck (SAME_PLAN)",
        ),
        (FLOW, "plan: 3 steps: a look; b find (after a); c write (after a, b, gone)"),
        (BEGUN, "step a begins, attempt 2: look"),
        ({**BEGUN, "attempt": 1}, "step a begins: look"),
        (ENDED, "step a completed (2 attempts, 1.2 s)"),
        (FAILED, "step b failed (1 attempt, 0.1 s): disk full"),
        (RECOVERY, "recovery: b failed, retry_step: it was busy"),
        (
            FLAWS,
            "flaws: the plan could not run and is mended: no tool 'x'; step 'a' depends on itself",
        ),
        ({"type": "unheard"}, None),
    ],
)
@pytest.mark.req("S0-60")
def test_each_event_is_one_short_line(event, line):
    assert render_event(event) == line


def test_a_million_characters_are_still_one_short_line():
    event = {"type": "task", "id": "1", "status": "failed", "description": "x\n" * 500_000}
    assert len(render_event(event) or "") in range(100, 161)


def test_the_plain_view_writes_lines(capsys):
    view = PlainView(Output())
    with view.show_run({}):
        view.show_event(PLAN)
        view.show_event({"type": "unheard"})
        view.show_event({"type": "tasks", "todos": [{"id": "1", "status": "completed"}]})
    assert capsys.readouterr().out == "plan: 3 tasks: 1 read; 2 write; 3 check\n"


def test_with_json_progress_goes_to_standard_error(capsys):
    PlainView(Output(json=True)).show_event(PLAN)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("plan:")


@pytest.mark.req("W-146")
def test_the_live_view_leaves_its_warnings_and_then_its_tasks_on_the_screen():
    shown = io.StringIO()
    console = Console(file=shown, width=80, height=30, force_terminal=True)
    view = LiveView(Output(), console)
    with view.show_run({}):
        view.show_event(PLAN)
        view.show_event({"type": "warning", "text": "careful"})
        view.show_stopping()
    left = shown.getvalue().rpartition("\x1b[?25h")[2]
    assert -1 < left.find("careful") < left.find("1 of 3 tasks done")


def test_a_step_with_items_tells_how_many_are_done():
    board = Board()
    about = {"step_id": "s2", "items": 20}
    board.apply({"type": "prompt_flow_step_start", "tool": "send", "done": 0, **about})
    board.apply(
        item := {"type": "prompt_flow_step_item", "item": 3, "done": 3, "success": True, **about}
    )
    assert render_item_count(board.tasks["s2"]) == "3/20"
    assert render_event(item) == "step s2 item 3 done (3/20)"
    board.apply({"type": "tool_call", "id": "s2[3].1.0", "task": "s2[3]", "tool": "send",
                 "arguments": {}, "status": "awaiting_approval"})  # fmt: skip
    assert board.tasks["s2"]["asks"]
    saved = {"id": "s2", "items": [{"status": "completed"}, {"status": "pending"}]}
    assert (render_item_count(saved), render_item_count({"id": "s1", "items": []})) == ("1/2", "")
