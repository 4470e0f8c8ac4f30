import json

import pytest
from hypothesis import example, given, strategies as st
from pydantic import ValidationError

from loopwright.state.questions import Answer, TextAnswer, Words


@pytest.mark.parametrize(
    ("shape", "kind", "message", "args"),
    [
        ("approve", "approve", "", None),
        ("reject", "reject", "", None),
        ("respond: in May: the 4th", "respond", "in May: the 4th", None),
        ({"type": "approve"}, "approve", "", None),
        (
            {"decisions": [{"type": "edit", "edited_action": {"name": "t", "args": {"a": 1}}}]},
            "edit",
            "",
            {"a": 1},
        ),
        ([{"type": "response", "args": "words"}], "respond", "words", None),
        ([{"type": "ignore", "args": None}], "reject", "", None),
    ],
)
def test_every_known_shape_is_read(shape, kind, message, args):
    answer = Answer.model_validate(shape)
    assert (answer.type, answer.message, answer.args) == (kind, message, args)
    assert Answer.model_validate(answer.model_dump()) == answer


@pytest.mark.req("P-22")
@pytest.mark.parametrize(
    "shape", [
        "oops", "not enough",
        {},
        {"decisions": []},
        {"type": "edit"},
        7, "{broken",
    ],
)  # fmt: skip
def test_anything_else_is_refused(shape):
    with pytest.raises(ValidationError):
        Answer.model_validate(shape)


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ({"type": "approve", "tool_call_id": "call_1"}, "call_1"),
        ({"decisions": [{"type": "approve", "id": "call_1"}]}, "call_1"),
        ({"decisions": [{"type": "approve"}], "tool_call_id": "call_1"}, "call_1"),
        ({"decisions": [{"type": "approve", "id": "call_2"}], "tool_call_id": "call_1"}, "call_1"),
        ("approve", ""),
    ],
)
def test_an_answer_may_say_which_call_it_is_for(shape, named):
    assert Answer.model_validate(shape).tool_call_id == named


@pytest.mark.req("P-42")
@pytest.mark.parametrize(
    ("given", "remembered"),
    [
        ("call", "call"),
        ("session", "tool"),
        ({"path": "^notes/"}, {"path": "^notes/"}),
        (None, ""),
        ("no", ""),
    ],
)
def test_an_approval_may_be_remembered(given, remembered):
    plain = {"type": "approve", "remember": given}
    around = {"decisions": [{"type": "approve"}], "remember": given}
    for shape in (plain, [plain], {"decisions": [plain]}, around, json.dumps(plain)):
        answer = Answer.model_validate(shape)
        assert answer.remember == remembered
        assert Answer.model_validate(answer.model_dump()) == answer


@pytest.mark.parametrize("given", ["forever", 7, {}, {"path": 1}, ["tool"]])
def test_what_cannot_be_remembered_is_refused_before_anything_is_decided(given):
    with pytest.raises(ValidationError, match="remember"):
        Answer.model_validate({"type": "approve", "remember": given})


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("respond: in May", "in May"),
        ([{"type": "response", "args": "in May"}], "in May"),
        ({"decisions": [{"type": "reject", "args": "in May"}]}, "in May"),
        (
            {
                "decisions": [
                    {
                        "type": "edit",
                        "edited_action": {
                            "name": "ask_user",
                            "args": {"questions": ["When?"], "answer": "in May"},
                        },
                    }
                ]
            },
            "in May",
        ),
    ],
)
def test_words_are_read_wherever_a_front_end_puts_them(shape, words):
    answer = Words.model_validate(shape)
    assert (answer.type != "reject", answer.words) == (True, words)


@pytest.mark.req("W-25")
@pytest.mark.parametrize("kind", [TextAnswer, Words])
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("res-1", "res-1"),
        ("  two words ", "two words"),
        ("yes", "yes"),
        ("No", "No"),
        ("approved: by the board", "approved: by the board"),
        ("approve: by the board", "approve: by the board"),
        ("edit", "edit"),
        ("https://a.example/b?c=d", "https://a.example/b?c=d"),
        ("{", "{"),
        ("[1, 2]", "[1, 2]"),
        ('{"id": "res-1"}', '{"id": "res-1"}'),
        ('{"type": "server"}', '{"type": "server"}'),
        ("资源一", "资源一"),
        (["res-1"], "res-1"),
        ({"answer": "res-1"}, "res-1"),
        ({"resource": "res-1"}, "res-1"),
        (7, "7"),
        (0, "0"),
        (1.5, "1.5"),
        (False, "false"),
        ("respond: approve", "approve"),
        ('{"type": "respond", "message": "res-1"}', "res-1"),
        ({"decisions": [{"type": "respond", "message": "res-1"}]}, "res-1"),
        ([{"type": "response", "args": "res-1"}], "res-1"),
    ],
)
def test_a_question_for_words_takes_plain_text(kind, shape, words):
    answer = kind.model_validate(shape)
    assert (answer.type, answer.message.strip()) == ("respond", words)


@pytest.mark.req("W-25")
@pytest.mark.parametrize(
    ("text", "type_"),
    [
        *(("approve", "approve"), ("Accept", "approve"), ("reject", "reject")),
        *(("reject: later", "reject"), ("ignore", "reject")),
    ],
)
def test_the_words_of_a_decision_stay_one(text, type_):
    assert TextAnswer.model_validate(text).type == Answer.model_validate(text).type == type_


KEYS = ["type", "args", "message", "name", "decisions", "edited_action", "remember", "id"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.sampled_from(["approve", "edit", "reject", "respond", "tool", "(", "", "{", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.req("P-37")
@pytest.mark.parametrize("kind", [Answer, TextAnswer, Words])
@given(given_answer=JSON)
@example("respond")
@example(" ")
@example('{"type": "respond", "message": ""}')
def test_whatever_is_answered_is_taken_whole_or_refused(kind, given_answer):
    try:
        answer = kind.model_validate(given_answer)
    except ValidationError:
        return
    assert kind.model_validate(answer.model_dump()) == answer
    assert kind.model_validate(json.dumps(answer.model_dump())) == answer
