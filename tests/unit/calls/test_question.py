import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loopwright.calls.question import decided, misplaced, question
from loopwright.state.canonical import hash_of
from loopwright.state.questions import Answer

NOW = datetime.now(UTC)
CALL: dict[str, Any] = {
    "id": "1.1.0", "task": "1", "call_id": "x", "name": "pay", "server": "bank",
    "about": "Pay somebody.", "args": {"amount": 3}, "action": "ask", "reason": "a write",
    "read_only": False,
}  # fmt: skip
IN_DOUBT = {**CALL, "uncertain": "it was begun at noon", "doubts": 1}


def answer(value) -> Any:
    return Answer.model_validate(value)


def test_a_question_about_a_call_in_doubt_says_what_its_answers_mean():
    value = question(IN_DOUBT)
    assert value["type"] == "uncertain_call"
    assert value["review_configs"][0]["allowed_decisions"] == ["approve", "respond", "reject"]
    assert value["config"]["allow_edit"] is False
    words = value["description"]
    assert "pay of the MCP server 'bank' may have run already: it was begun at noon" in words
    for answered in ("approve runs it again", "respond says that it ran", "reject gives it up"):
        assert answered in words
    assert '"amount": 3' in words
    json.dumps(value)


def test_a_question_tells_when_it_expires():
    until = (NOW + timedelta(seconds=60)).isoformat()
    assert question({**CALL, "expires_at": until})["expires_at"] == until
    assert "expires_at" not in question(CALL)
    assert "expires_at" not in question({**CALL, "expires_at": None})


def test_an_objection_stands_before_the_question():
    assert question(CALL, "That was no answer.")["description"].startswith("That was no answer.")


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    ("call", "value", "words"),
    [
        (CALL, {"type": "approve", "tool_call_id": "y"}, "for the call 'y'"),
        (CALL, {"type": "approve", "tool_call_id": "x"}, ""),
        (CALL, "approve", ""),
        (CALL, {"type": "edit", "args": {}}, ""),
        (IN_DOUBT, {"type": "edit", "args": {}}, "cannot be edited"),
        (IN_DOUBT, "respond: it ran", ""),
    ],
)
def test_which_answers_belong_to_a_question(call, value, words):
    objection = misplaced(call, answer(value))
    assert words in objection
    assert bool(objection) == bool(words)


@pytest.mark.req("P-42")
@pytest.mark.parametrize(
    ("seconds", "value", "kind"),
    [
        (None, "approve", "approve"),
        (60, "approve", "approve"),
        (-1, "approve", "expired"),
        (-1, {"type": "edit", "args": {}}, "expired"),
        (-1, "respond: no need", "expired"),
        (-1, "reject", "reject"),
    ],
)
def test_an_answer_in_time_counts_and_a_late_one_only_to_reject(seconds, value, kind):
    until = seconds and (NOW + timedelta(seconds=seconds)).isoformat()
    decision = decided({**CALL, "expires_at": until}, answer(value), NOW)
    assert decision["type"] == kind
    assert decision["arguments"] == hash_of({"amount": 3})
    json.dumps(decision)
