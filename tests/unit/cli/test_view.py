"""The end of a run as it is told."""

import json
from typing import Any

import pytest

from loopwright.cli.settings import NO_MODEL
from loopwright.cli.terminal import Code, Output, choose_exit_code
from loopwright.cli.view import PlainView, list_closing_lines

EVIDENCE: list[dict[str, Any]] = [
    {
        "id": "1.1.0",
        "task": "1",
        "tool": "read",
        "arguments": {"p": "a\x1b[2J"},
        "status": "success",
    },
    {"id": "2.report", "task": "2", "tool": None, "arguments": {}, "status": "success"},
]


def outcome(**changes):
    return {
        "status": "partial",
        "reason": "MAX_ROUNDS",
        "answer": "# Half\n\nof it",
        "tasks": [
            {"id": "1", "description": "read", "status": "completed", "evidence": ["1.1.0"]},
            {"id": "2", "description": "think", "status": "completed", "evidence": ["2.report"]},
            {"id": "3", "description": "write", "status": "failed", "evidence": []},
        ],
        "unmet": ["write is missing"],
        "uncertain_calls": [],
        "spend": {"model_calls": 3, "tool_calls": 1, "input_tokens": 10, "output_tokens": 5},
        "models": {"planner": "big", "executor": "small", "verifier": "big"},
        "resume": {"thread_id": "t"},
    } | changes


def lines(**changes):
    output = Output(thread="t", resume="loopwright resume t")
    return list_closing_lines(output, outcome(**changes), EVIDENCE)


def test_everything_is_told():
    told = "\n".join(lines())
    assert "Outcome: partial (MAX_ROUNDS)" in told
    assert "- write is missing" in told
    assert "1  read (completed)" in told
    assert '✓ [1.1.0] read {"p": "a' in told
    assert "✓ [2.report] the task's own report" in told
    assert "3  write (failed)" in told
    assert "Models: big (planner, verifier); small (executor)" in told
    assert "Spend: 3 model calls · 1 tool call · 15 tokens" in told
    assert "Thread: t" in told
    assert "Go on with: loopwright resume t" in told
    assert "\x1b" not in told
    assert NO_MODEL not in told


def test_a_run_without_tasks_lists_its_calls():
    records = [
        {"id": "react.1.0", "tool": "read", "arguments": {"p": "a"}, "status": "success"},
        {"id": "react.2.0", "tool": "pay", "arguments": {}, "status": "cancelled"},
    ]
    told = list_closing_lines(Output(thread="t"), outcome(tasks=[]), records)
    assert '  ✓ [react.1.0] read {"p": "a"}' in told
    assert "  ⊘ [react.2.0] pay" in told


def test_uncertain_calls_are_named():
    call = {"id": "1.1.0", "task": "1", "tool": "pay", "arguments": {"a": 5}, "why": "cut off"}
    told = lines(uncertain_calls=[call])
    assert told[told.index("Uncertain:") + 1] == '  ? pay {"a": 5}: cut off'


def test_a_complete_run_is_not_told_to_be_resumed():
    assert not any("Go on with" in line for line in lines(status="complete", resume=None))


def test_an_offline_run_says_so_in_one_line():
    assert lines(models={"planner": "offline"})[-1] == NO_MODEL
    assert "\n" not in NO_MODEL


def test_what_the_answer_lists_as_missing_is_not_listed_twice():
    told = lines(answer="Not done:\n- write is missing")
    assert not any("Unmet" in line for line in told)


def test_json_is_the_outcome_and_the_thread(capsys):
    PlainView(Output(json=True, thread="t")).show_end(outcome(), EVIDENCE)
    assert json.loads(capsys.readouterr().out) == outcome(thread="t")


def test_plain_text_stays_as_it_is(capsys):
    PlainView(Output(thread="t")).show_end(outcome(), EVIDENCE)
    assert "# Half\n\nof it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("complete", 0), ("partial", 3), ("blocked", 3), ("exhausted", 3), ("stuck", 3),
        ("cancelled", 3), ("failed", 4), ("something new", 4),
    ],
)  # fmt: skip
def test_exit_codes(status, code):
    assert choose_exit_code(status) == code


def test_the_codes_have_their_numbers():
    assert (Code.USAGE, Code.WAITING, Code.PAUSED) == (2, 5, 130)
