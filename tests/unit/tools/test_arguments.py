from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.tools.arguments import check_arguments
from loopwright.tools.schemas import sanitize

SCHEMA = sanitize(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}},
            "any": {},
        },
        "required": ["path"],
    }
)


@pytest.mark.req("S0-130")
def test_good_arguments_stay_as_they_are():
    args = {"path": "a", "limit": 3, "tags": [1], "deep": {"on": True}, "any": None}
    assert check_arguments(SCHEMA, args) == (args, "")


def test_nulls_for_optional_arguments_are_left_out():
    assert check_arguments(SCHEMA, {"path": "a", "limit": None, "tags": None}) == (
        {"path": "a"},
        "",
    )


def test_json_in_a_string_is_read_where_no_string_is_wanted():
    sent = {"path": "5", "limit": "5", "tags": "[1, 2]", "deep": '{"on": "true"}', "any": "7"}
    fitted, problem = check_arguments(SCHEMA, sent)
    assert problem == ""
    assert fitted == {"path": "5", "limit": 5, "tags": [1, 2], "deep": {"on": True}, "any": "7"}


@pytest.mark.req("S0-56")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "'path' is a required property"),
        ({"path": "a", "limit": "many"}, "limit: 'many' is not of type 'integer'"),
        (["a"], "must be a JSON object"),
        ({"path": "a", "any": float("nan")}, "NaN"),
        ({"path": "x" * 5_000, "limit": "x" * 5_000}, "…"),
    ],
)
def test_bad_arguments_are_named(args, words):
    _, problem = check_arguments(SCHEMA, args)
    assert words in problem
    assert len(problem) < 3_000


def test_arguments_nested_without_end_are_refused():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested deeper than 64" in check_arguments(SCHEMA, {"path": "a", "any": deep})[1]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.text() | st.sampled_from(sorted(SCHEMA)), i),
        max_leaves=10,
    )
)
def test_no_arguments_raise(args):
    fitted, problem = check_arguments(SCHEMA, args)
    assert isinstance(fitted, dict)
    assert isinstance(problem, str)
