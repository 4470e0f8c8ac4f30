import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from loopwright.calls.approval import (
    build_call_question,
    check_answer,
    make_decision,
)
from loopwright.calls.forms import build_reply
from loopwright.state.questions import Answer
from loopwright.text.canonical import hash_of

NOW = datetime.now(UTC)
CALL: dict[str, Any] = {
    "id": "1.1.0", "task": "1", "call_id": "x", "name": "pay", "server": "bank",
    "about": "Pay somebody.", "args": {"amount": 3}, "action": "ask", "reason": "a write",
    "read_only": False,
}  # fmt: skip
IN_DOUBT = {
    **CALL,
    "doubt": {"why": "it was begun at noon", "key": "k", "sends": 1, "other": False},
    "doubts": 1,
}


def answer(value) -> Any:
    return Answer.model_validate(value)


def test_a_question_about_a_call_in_doubt_says_what_its_answers_mean():
    value = build_call_question(IN_DOUBT)
    assert value["type"] == "uncertain_call"
    assert value["review_configs"][0]["allowed_decisions"] == ["approve", "respond", "reject"]
    assert value["config"]["allow_edit"] is False
    words = value["description"]
    assert "pay of the MCP server 'bank' may have run already: it was begun at noon" in words
    for answered in ("approve runs it again", "respond says that it ran", "reject gives it up"):
        assert answered in words
    assert '"amount": 3' in words
    json.dumps(value)


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
    objection = check_answer(call, answer(value))
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
    decision = make_decision({**CALL, "expires_at": until}, answer(value), NOW)
    assert decision["type"] == kind
    assert decision["arguments"] == hash_of({"amount": 3})
    json.dumps(decision)


def form(**fields):
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"form": {"message": "How many?", "schema": schema}}


@pytest.mark.parametrize(
    ("asked", "answer", "content"),
    [
        (form(n={"type": "integer"}), "respond: 7", {"n": 7}),
        (form(n={"type": "string"}), "respond: 7", {"n": "7"}),
        (form(n={"type": "boolean"}), "respond: true", {"n": True}),
        (form(n={"type": "integer", "default": 3}), "approve", {"n": 3}),
        (form(a={}, b={}), 'respond: {"a": 1, "b": 2}', {"a": 1, "b": 2}),
        (form(a={}), {"type": "edit", "args": {"a": "", "answer": "x"}}, {"a": "x"}),
        ({"form": {"message": "Sign in", "url": "https://x"}}, "approve", None),
    ],
)
def test_a_servers_form_is_filled_in_by_words_json_or_fields(asked, answer, content):
    call = {**asked, "args": {}, "call_id": "c"}
    given = Answer.model_validate(answer)
    assert check_answer(call, given) == ""
    assert build_reply(call, make_decision(call, given, NOW)) == {
        "action": "accept",
        "content": content,
    }
