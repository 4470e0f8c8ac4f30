"""The end of a run as it is told."""

from typing import Any

import pytest

from loopwright.cli.settings import NO_MODEL
from loopwright.cli.terminal import Output, choose_exit_code
from loopwright.cli.view import list_closing_lines

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
        "headline": "Stopped: the limit of repairs was reached. A part is done.",
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
    assert "Stopped: the limit of repairs was reached. A part is done." in told
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


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("complete", 0), ("partial", 3), ("blocked", 3), ("exhausted", 3), ("stuck", 3),
        ("cancelled", 3), ("failed", 4), ("something new", 4),
    ],
)  # fmt: skip
def test_exit_codes(status, code):
    assert choose_exit_code(status) == code
