import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from loopwright.cli.approvals import Question
from loopwright.state.questions import DECISIONS, Answer, AnswerKind, make_question
from support.front_ends import chat_ui_rejects, chat_ui_shows, inbox_shows

KINDS = get_args(AnswerKind)
DOCS = Path(__file__).parents[3] / "docs" / "approvals-and-policy.md"
ARGUMENTS: list[dict[str, Any]] = [{}, {"path": "a.md"}, {"n": 7, "deep": {"list": [1, None, "x"]}}]
QUESTIONS = [
    make_question("save", args, "Save?", answers=answers)
    for answers in DECISIONS
    for args in ARGUMENTS
]


@pytest.mark.req("P-20")
@pytest.mark.parametrize("asked", QUESTIONS)
def test_both_front_ends_show_every_question(asked):
    assert chat_ui_shows(asked)
    assert inbox_shows(asked)


@pytest.mark.req("W-67")
@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_rejection_without_a_reason_is_an_approval_in_chat_ui_and_the_manual_says_so(asked):
    allowed = asked["review_configs"][0]["allowed_decisions"]
    assert chat_ui_rejects(asked, "") == ("approve" if "approve" in allowed else None)
    assert chat_ui_rejects(asked, "not now") == "reject"
    manual = (DOCS.parent / "studio-and-chat.md").read_text(encoding="utf-8")
    assert '"Submit rejection" sends an approval if no reason was typed' in manual
    assert "(studio-and-chat.md" in DOCS.read_text(encoding="utf-8")


def test_every_kind_of_answer_can_be_given_is_offered_and_stands_in_the_docs():
    assert {kind for kinds in DECISIONS.values() for kind in kinds} == set(KINDS)
    for kind in KINDS:
        assert Answer.model_validate({"type": kind, "args": {}, "message": "x"}).type == kind
        for about in ("call", "uncertain"):
            assert kind in Question("i", {}, "?", kind=about, allowed=(kind,)).answer_hint
    with pytest.raises(ValidationError) as unknown:
        Answer.model_validate({"type": "?"})
    listed = DOCS.read_text(encoding="utf-8").partition("\n- `approve`")
    rows = re.findall(r'^- `(?:\{"type": ")?(\w+)', "".join(listed[1:]).partition("\n\n")[0], re.M)
    assert set(rows) == set(KINDS)
    assert all(kind in str(unknown.value) for kind in KINDS)
