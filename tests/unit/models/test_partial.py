"""Structured answers while they are written."""

import json

import pytest
from hypothesis import given, strategies as st

from loopwright.models.drafts import PartialJson
from loopwright.state.contracts import PlannerResponse

TEXTS = st.text(alphabet='ab"\\{}[], é\n', max_size=8)
ITEMS = st.fixed_dictionaries({"id": TEXTS, "dependsOn": st.lists(TEXTS, max_size=2)})
ANSWERS = st.fixed_dictionaries(
    {"summary": TEXTS, "todos": st.lists(ITEMS, max_size=4)},
    optional={
        "missingInformation": st.lists(TEXTS, max_size=3),
        "needsMorePlanning": st.booleans(),
    },
)


@pytest.mark.req("S0-84", "S0-92")
@given(
    ANSWERS, st.sampled_from(["", "```json\n", "Here: ", "<think>{}, [</think>"]),
    st.integers(1, 9), st.sampled_from([None, 2]),
)  # fmt: skip
def test_what_stands_of_an_answer_is_read_and_it_only_grows(answer, before, size, indent):
    text = f"{before}{json.dumps(answer, indent=indent)} that is all"
    partial, found = PartialJson(PlannerResponse), {}
    for end in range(size, len(text) + size, size):
        fields = partial.fields(text[:end])
        if fields is None:
            continue
        for name, value in fields.items():
            whole = answer[name]
            assert value == (whole[: len(value)] if isinstance(whole, list) else whole)
        assert found.keys() <= fields.keys()
        assert all(len(v) <= len(fields[k]) for k, v in found.items() if isinstance(v, list))
        found = fields
    assert found == answer


def test_a_second_try_begins_anew_and_of_two_objects_the_later_one_counts():
    partial = PartialJson(PlannerResponse)
    assert partial.fields('{"summary": "one", "todos": [{"id": "1"}, {') == {
        "summary": "one", "todos": [{"id": "1"}],
    }  # fmt: skip
    assert partial.fields('{"summary": "two",') == {"summary": "two"}
    assert partial.fields('{"summary": "two", "todos": []} or {"summary": "thr') == {}
    text = '{"summary": "two", "todos": []} or {"summary": "three", "todos": [{"id"'
    assert partial.fields(text) == {"summary": "three", "todos": []}
    assert partial.fields(text) is None
