import json

import pytest
from hypothesis import given, strategies as st

from loopwright.state.canonical import canonical, hash_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_keys_are_sorted_and_nothing_is_escaped_or_spaced():
    assert canonical({"b": [1, 2.0, None], "a": "é"}) == '{"a":"é","b":[1,2.0,null]}'


@given(JSON)
def test_it_is_json_and_does_not_depend_on_the_order_of_keys(value):
    assert json.loads(canonical(value)) == value
    assert hash_of(value) == hash_of(json.loads(json.dumps(value, sort_keys=True)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", 1),
        ([], {}),
        (None, "null"),
        ("\ud800", "\ud801"),
        ("\ud800", "?"),
        (["a,b"], ["a", "b"]),
    ],
)
def test_different_values_have_different_hashes(one, other):
    assert hash_of(one) != hash_of(other)
    assert len(hash_of(one)) == 64


def test_what_is_no_json_counts_as_its_text():
    assert canonical({"path": object}) == '{"path":"<class \'object\'>"}'
