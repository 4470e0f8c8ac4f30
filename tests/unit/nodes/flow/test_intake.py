"""The start of a turn of prompt_flow: what is reset, what is kept, what ends it at once."""

from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from loopwright.nodes.flow.turn import adopt_steps, extend_intake
from loopwright.nodes.turns import intake
from loopwright.store.journal.port import Intent
from loopwright.turn.begin import build_request_id
from support.flow_nodes import Turn, parts_with
from support.flow_steps import steps
from support.flows import GOAL, step

PLANNED = (step("a", arguments={"what": "a"}), step("b", "put", arguments={"what": "{{a}}"}))
REQUEST = HumanMessage(GOAL, id="m1")
OUTCOME = {"status": "failed", "reason": "ERROR"}


def left_behind(**state):
    """A thread whose last turn finished step a of two."""
    todos = steps(*PLANNED, done={"a": "found"})
    todos[1] |= {"status": "failed", "failure": "tool_error", "feedback": "no", "denied": "denied"}
    return {
        "messages": [REQUEST],
        "request_id": build_request_id([REQUEST]),
        "turn": 1,
        "turn_id": "1-a",
        "allowance": 1,
        "todos": todos,
        "plan": {"global_variables": {"x": 1}},
        "outcome": OUTCOME,
        **state,
    }


async def entered(parts=None, **state):
    enter = partial(intake, adopt=adopt_steps, extend=extend_intake)
    return (await Turn(enter, parts or parts_with()).enter(**state)).state


async def test_the_same_request_goes_on_with_what_is_finished():
    used = {
        "prints": ["p"], "recoveries": {"retry_step": 1}, "failures_seen": ["f"], "causes": [{}],
        "drafts": [{"text": "", "plan": None, "findings": []}], "strategy": "give_up",
        "unmet": ["b"], "objection": ["o"], "reviewed": [{"id": "a"}], "calls": [{"id": "b.1.0"}],
        "decisions": {"k": {"type": "approve"}}, "objections": {"k": "no"}, "halt": "ERROR",
        "improvements": ["The user says: shorter"], "warnings": ["old"], "denied": "denied",
    }  # fmt: skip
    state = await entered(**left_behind(**used))
    a, b = state["todos"]
    assert (a["status"], a["result"]) == ("completed", "found")
    assert (b["status"], b["failure"], b["denied"], b["feedback"]) == ("pending", "", "", "no")
    assert (state["turn"], state["allowance"], state["outcome"]) == (2, 2, None)
    assert state["plan"] == {"global_variables": {"x": 1}}
    assert state["improvements"] == ["The user says: shorter"], "a wish holds for the request"
    fresh = ("prints", "failures_seen", "causes", "drafts", "unmet", "objection", "reviewed",
             "calls", "decisions", "objections", "recoveries", "warnings")  # fmt: skip
    assert {key: state[key] for key in fresh if state[key]} == {}
    assert (state["strategy"], state["halt"], state["denied"]) == ("", None, "")


async def test_another_request_after_a_turn_that_was_cut_off_knows_what_was_done():
    """Step b ended inside the pass under way: only its recorded end says so."""
    record = {"id": "b.1.0", "task": "b", "tool": "put", "arguments": {}, "status": "success"}
    end = {
        "step": {"id": "b", "status": "completed", "result": "put", "shape": "text"},
        "evidence": [record], "waiting": [], "spend": {}, "warnings": [],
    }  # fmt: skip
    other = HumanMessage("And now?", id="m2")
    state = await entered(
        **left_behind(messages=[REQUEST, AIMessage("…"), other], outcome=None, cut_off=[end])
    )
    assert [(s["id"], s["status"], s["result"]) for s in state["todos"]] == [
        ("a", "completed", "found"),
        ("b", "completed", "put"),
    ]
    assert [r["id"] for r in state["evidence"]] == ["b.1.0"]
    assert (state["cut_off"], state["allowance"]) == ([], 1)
    assert state["plan"] == {"global_variables": {"x": 1}}, "kept steps refer to its variables"


def begun(parts):
    """The journal's word on the call of step b."""
    intent = Intent(
        name="n", turn="1-a", task="b", call="b.1.0", tool="put", arguments={"what": "found"},
        content="put found", key="k",
    )  # fmt: skip
    return parts.journal.begin("t", intent)


@pytest.mark.req("P-06")
async def test_a_step_says_which_call_was_begun_for_it_before_a_crash():
    parts = parts_with()
    await begun(parts)
    other = HumanMessage("And now?", id="m2")
    state = await entered(parts, **left_behind(messages=[REQUEST, other], outcome=None))
    b = state["todos"][1]
    assert b["status"] == "pending"
    assert "began put(" in b["feedback"]
    assert "may have taken effect: check before you repeat it" in b["feedback"]
    (record,) = state["evidence"]
    assert (record["id"], record["reason"]) == ("b.1.0", "uncertain")
