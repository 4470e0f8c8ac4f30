import pytest
from pydantic import ValidationError

from loopwright.state.answers import Answer


@pytest.mark.parametrize(
    ("shape", "kind", "message", "args"),
    [
        ("approve", "approve", "", None),
        ("yes", "approve", "", None),
        ("reject", "reject", "", None),
        ("reject: too dear", "reject", "too dear", None),
        ("respond: in May: the 4th", "respond", "in May: the 4th", None),
        ('{"type": "edit", "args": {"a": 1}}', "edit", "", {"a": 1}),
        ({"type": "approve"}, "approve", "", None),
        ({"decisions": [{"type": "reject", "message": "no"}]}, "reject", "no", None),
        (
            {"decisions": [{"type": "edit", "edited_action": {"name": "t", "args": {"a": 1}}}]},
            "edit",
            "",
            {"a": 1},
        ),
        ([{"type": "accept", "args": None}], "approve", "", None),
        ([{"type": "response", "args": "words"}], "respond", "words", None),
        ([{"type": "edit", "args": {"action": "t", "args": {"a": 1}}}], "edit", "", {"a": 1}),
        ([{"type": "ignore", "args": None}], "reject", "", None),
    ],
)
def test_every_known_shape_is_read(shape, kind, message, args):
    answer = Answer.model_validate(shape)
    assert (answer.type, answer.message, answer.args) == (kind, message, args)
    assert Answer.model_validate(answer.model_dump()) == answer


@pytest.mark.req("P-22")
@pytest.mark.parametrize(
    "shape", ["oops", "", "not enough", [], {}, {"type": "maybe"}, {"decisions": []},
              [{"type": "approve"}, {"type": "approve"}], {"type": "edit"}, None, 7, "approve: but",
              "{broken"],
)  # fmt: skip
def test_anything_else_is_refused(shape):
    with pytest.raises(ValidationError):
        Answer.model_validate(shape)
