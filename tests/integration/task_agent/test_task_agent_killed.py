"""kill -9 in any node of task_agent: another process goes on, and what is done stays done."""

import pytest

from support import agent_killed, killed, todos_killed
from support.budget import alongside
from support.patience import PATIENCE
from support.visiting import FIRST, Book, places

WHOLE, LIMITED = 30, 2
"""Turns: enough for the three visits and the end, and too few."""
NODES = [
    (WHOLE, "intake", 1), (WHOLE, "agent_turn", 2), (WHOLE, "approve", 2),
    (WHOLE, "call_tools", 2), (WHOLE, "finish", 1),
    (LIMITED, "check_limits", 1), (LIMITED, "final_warning", 1),
]  # fmt: skip


@pytest.mark.req("S3-14", "S3-16", "S3-17", "S3-21", "S3-43", "P-06")
@pytest.mark.parametrize(("turns", "node", "nth", "at"), alongside(NODES, [("start",), ("end",)]))
def test_a_killed_agent_goes_on_where_it_was(turns, node, nth, at, tmp_path):
    place = {"node": node, "at": at, "nth": nth}
    process = killed.spawn(agent_killed.die, str(tmp_path), turns, place)
    process.join(PATIENCE)
    assert process.exitcode == -9
    outcome = agent_killed.go_on(str(tmp_path), turns)["outcome"]
    visits = Book(tmp_path).told("visits")
    if turns == WHOLE:
        assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
        assert visits == places(FIRST)
        assert outcome["spend"]["tool_calls"] == 3
        return
    assert (outcome["status"], outcome["reason"]) == ("partial", "MAX_TURNS")
    assert visits == places(FIRST)[:LIMITED]
    asked = Book(tmp_path).told("events").count("BeforeModel")
    assert asked <= LIMITED + 1 + 1, "two turns, the last one, and that again which was cut off"


@pytest.mark.req("S4-80", "S3-16", "S3-17")
@pytest.mark.parametrize(
    ("node", "at", "nth"),
    [("call_tools", "end", 1), ("review_plan", "end", 1), ("check_loop", "end", 1)],
)
def test_a_list_its_review_and_a_warning_survive_a_kill(node, at, nth, tmp_path):
    process = killed.spawn(todos_killed.die, str(tmp_path), {"node": node, "at": at, "nth": nth})
    process.join(PATIENCE)
    assert process.exitcode == -9
    values = todos_killed.go_on(str(tmp_path))
    outcome = values["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert [task["status"] for task in outcome["tasks"]] == ["completed"] * 3
    assert (tmp_path / "moved").read_text() == "lamp\n"
    told = [m.additional_kwargs.get("told", "") for m in values["messages"]]
    assert sum("approved the plan" in one for one in told) == 1
    assert sum("not getting on" in one for one in told) == 1
