import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from loopwright.models.reading import parse_executor, parse_planner, parse_verifier
from loopwright.text.loose_json import extract

KEYS = ("summary", "taskCompleted", "todos")


@given(st.text(alphabet=st.characters() | st.sampled_from('{}[]",:\\<>/`'), max_size=300))
@pytest.mark.req("P-11")
def test_no_text_makes_it_raise(text: str) -> None:
    value, problem = extract(text, KEYS)
    assert (value is None) <= bool(problem)
    for parse in (parse_planner, parse_executor, parse_verifier):
        with contextlib.suppress(ValueError):
            parse(text)


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


@pytest.mark.parametrize(
    "text",
    [
        '<think>I plan.\n{"summary": "x"}',
        'hm</think><reasoning>I plan. ```json\n{"summary": "x"}\n```',
    ],
)
def test_an_object_behind_thoughts_that_never_end_is_the_answer(text: str) -> None:
    assert extract(text, KEYS) == ({"summary": "x"}, "")
