"""Values as questions show them: one line, and nothing that a reader cannot see."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.calls.approval import build_call_question
from loopwright.nodes.desk.desk import Desk
from loopwright.nodes.desk.proposals import hold_for_consent
from loopwright.nodes.flow.check_flow import flow_in_words
from loopwright.nodes.parts import Parts
from loopwright.state.desk import DeskState
from loopwright.state.hand_over import render_call
from loopwright.state.plan import describe_plan
from loopwright.state.undone import format_call
from loopwright.stream.components import text_of
from loopwright.text.display import show_json, show_text, show_value

TRICK = (
    "29\n- amount: 1.0\u2028\r\x85\u202egnp\u2066\u200b\u00ad\ufeff\u034f\u3164\ufe0f\x1b[2J\ud800"
)
CALL: Any = {
    "id": "c", "call_id": "c", "task": "t", "name": "refund", "server": "shop",
    "args": {"a": TRICK}, "about": f"Refund.\n{TRICK}", "action": "ask", "reason": "it writes",
    "read_only": False,
}  # fmt: skip
STEP: Any = {"id": "1", "description": TRICK, "tool": "refund", "arguments": {"a": TRICK},
             "depends_on": [], "when": TRICK, "for_each": TRICK, "status": "pending"}  # fmt: skip


def hidden(text) -> list[str]:
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp", "Mn"}
    return [c for c in text if unicodedata.category(c) in kinds and c != "\n"]


@pytest.mark.req("W-127")
@given(
    st.text() | st.just(TRICK) | st.recursive(st.text(), lambda v: st.dictionaries(st.text(), v))
)
def test_a_value_is_one_line_in_which_everything_is_seen(value):
    shown = show_value(value)
    assert shown.isprintable() or {
        unicodedata.category(c) for c in shown if not c.isprintable()
    } == {"Zs"}
    assert "\n" not in show_json({"a": value})
    assert show_text(shown) == shown


FORM = {"message": TRICK, "schema": {"properties": {"n": {"title": TRICK}}}}


def propose() -> str:
    _, update = hold_for_consent(DeskState(), [CALL], Desk(Parts()))
    proposal = update.get("proposal")
    return proposal["words"] if proposal else ""


def ask(**more: Any) -> str:
    return str(build_call_question(CALL | more)["description"])


@pytest.mark.req("W-127")
@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        (lambda: ask(), 8),
        (lambda: ask(doubt={"why": "it ended", "other": False}), 6),
        (lambda: ask(form=FORM), 10),
        (lambda: ask(form={"message": TRICK, "url": TRICK}), 3),
        (propose, 4),
        (lambda: flow_in_words([STEP]), 1),
        (lambda: describe_plan([STEP]), 1),
        (lambda: render_call("refund", {"a": TRICK}), 1),
        (lambda: format_call({"tool": "refund", "arguments": {"a": TRICK}}), 1),
        (lambda: text_of("tool-call", {"id": "c", "tool": "t", "arguments": {"a": TRICK}}), 3),
    ],
    ids=["approval", "doubt", "form", "url", "proposal", "flow", "plan", "packet", "end", "twin"],
)  # fmt: skip
def test_no_value_draws_a_line_of_its_own_in_a_question(shown, lines):
    text = shown()
    assert hidden(text) == []
    assert text.count("\n") + 1 == lines
    assert "\n- amount" not in text
    assert "\\u202egnp" in text
