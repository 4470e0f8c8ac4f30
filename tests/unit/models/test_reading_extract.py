import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.models.reading import extract, parse_executor, parse_planner, parse_verifier

KEYS = ("summary", "taskCompleted", "todos")


@given(st.text(alphabet=st.characters() | st.sampled_from('{}[]",:\\<>/`'), max_size=300))
@pytest.mark.req("P-11")
def test_no_text_makes_it_raise(text: str) -> None:
    value, problem = extract(text, KEYS)
    assert (value is None) <= bool(problem)
    for parse in (parse_planner, parse_executor, parse_verifier):
        with contextlib.suppress(ValueError):
            parse(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1), st.text("abc .\n", max_size=40))
def test_whole_objects_come_back_as_they_are(value: dict[str, Any], prose: str) -> None:
    text = json.dumps(value)
    assert extract(text, KEYS)[0] == value
    assert extract(f"{prose}\n```json\n{text}\n```\n{prose}", KEYS)[0] == value


@given(st.data())
def test_a_text_that_ends_too_early_gives_a_problem_or_whole_fields(data: st.DataObject) -> None:
    value = {"summary": 'a {b} "c"', "taskCompleted": True, "todos": [{"id": "1"}, {"id": "2"}]}
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text) - 2))
    found, problem = extract(text[:cut], KEYS)
    assert problem or (found and found.items() <= value.items())


@pytest.mark.parametrize(
    "text",
    [
        "{" * 300_000,
        '{"a":' * 100_000,
        "}" * 300_000,
        "{'" * 100_000,
        "<think>" * 50_000,
        "[" * 300_000,
        '{"a": "' + "\\" * 300_000,
        "{x} " * 100_000,
    ],
)
def test_hostile_texts_take_no_minutes(text: str) -> None:
    value, problem = extract(text, KEYS)
    assert value is None
    assert problem


def test_the_fullest_object_wins_and_of_equals_the_last() -> None:
    assert extract('{"a": 1} {"summary": "x"} {"b": 2}', KEYS)[0] == {"summary": "x"}
    assert extract('{"summary": "x"} {"summary": "y"}', KEYS)[0] == {"summary": "y"}
    assert extract('{"answer": {"summary": "x", "todos": []}}', KEYS)[0] == {
        "summary": "x",
        "todos": [],
    }


@pytest.mark.parametrize(
    "text",
    [
        '<think>I plan.\n{"summary": "x"}',
        'hm</think><reasoning>I plan. ```json\n{"summary": "x"}\n```',
    ],
)
def test_an_object_behind_thoughts_that_never_end_is_the_answer(text: str) -> None:
    assert extract(text, KEYS) == ({"summary": "x"}, "")
