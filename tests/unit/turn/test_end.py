"""Status and reason of a turn, decided once for every graph."""

from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from loopwright.state.outcome import OutcomeStatus, Reason
from loopwright.turn.end import Facts

DONE: Any = {"id": "1", "description": "a", "status": "completed", "result": "r"}
DOUBT: Any = {"id": "x", "tool": "pay", "arguments": {}}
FAILED: Any = {"id": "2", "description": "b", "status": "failed", "feedback": "no file"}

# DESIGN's table: the reasons that may stand beside a status.
TABLE = {
    "complete": {"GOAL"},
    "partial": {"GOAL", "MAX_TURNS", "MAX_ROUNDS", "TIMEOUT", "BUDGET"},
    "blocked": {"MISSING_INFORMATION", "DENIED", "NOT_INTERACTIVE"},
    "exhausted": {"MAX_TURNS", "MAX_ROUNDS", "TIMEOUT", "BUDGET"},
    "stuck": {"LOOP_DETECTED", "SAME_PLAN", "SAME_BLOCKERS"},
    "cancelled": {"ABORTED"},
    "failed": {"ERROR", "ERROR_NO_COMPLETE_TASK_CALL"},
}
HALTS = sorted(set(get_args(Reason)) - {"GOAL"})


def call(status="success", tool: str | None = "look", **more) -> Any:
    return {"id": "1.1.0", "task": "1", "tool": tool, "arguments": {}, "status": status,
            "result": "r", **more}  # fmt: skip


def test_every_status_and_every_reason_stands_in_the_table():
    assert set(TABLE) == set(get_args(OutcomeStatus))
    assert set.union(*TABLE.values()) == set(get_args(Reason))


@pytest.mark.req("W-21")
@given(
    halt=st.sampled_from([None, *HALTS]),
    complete=st.booleans(),
    succeeded=st.booleans(),
    refused=st.sampled_from([None, "DENIED", "NOT_INTERACTIVE", "LOOP_DETECTED"]),
    uncertain=st.booleans(),
)
def test_every_turn_ends_by_a_row_of_the_table(halt, complete, succeeded, refused, uncertain):
    tasks, doubts = [DONE] if succeeded else [], [DOUBT] if uncertain else []
    facts = Facts(halt=halt, done=complete, tasks=tasks, refused=refused, uncertain=doubts)
    status, reason = facts.end
    assert reason in TABLE[status]
    assert reason == halt or halt is None
    assert (status == "complete") is (halt is None and complete)
    if status == "partial":
        assert succeeded
    if status == "exhausted":
        assert not succeeded
    if succeeded and halt is None:
        assert reason == "GOAL"


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        ({"done": True, "tasks": [DONE]}, ("complete", "GOAL")),
        ({"done": True, "tasks": [DONE], "unmet": ["c"]}, ("partial", "GOAL")),
        ({"halt": "BUDGET", "tasks": [DONE, FAILED]}, ("partial", "BUDGET")),
        ({"halt": "TIMEOUT"}, ("exhausted", "TIMEOUT")),
        ({"halt": "MAX_TURNS", "evidence": [call("error")]}, ("exhausted", "MAX_TURNS")),
        ({"unmet": ["b"], "evidence": [call("error")]}, ("stuck", "SAME_BLOCKERS")),
        ({"refused": "DENIED", "evidence": [call(), call("cancelled")]}, ("partial", "GOAL")),
        ({"done": True, "doubts": [DOUBT], "tasks": [DONE]}, ("partial", "GOAL")),
        ({"halt": "DENIED", "tasks": [DONE]}, ("blocked", "DENIED")),
        ({"halt": "ERROR", "tasks": [DONE]}, ("failed", "ERROR")),
    ],
)
def test_the_end_follows_from_what_a_graph_knows(facts, end):
    assert Facts(**facts).end == end
