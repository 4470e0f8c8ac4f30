"""Values as canonical JSON, and as texts that can be kept, shown and weighed."""

import json

import pytest
from hypothesis import given, strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from loopwright.text.canonical import (
    canonical,
    estimate_tokens,
    hash_of,
    make_storable_json,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_it_is_json_and_does_not_depend_on_the_order_of_keys(value):
    assert json.loads(canonical(value)) == value
    assert hash_of(value) == hash_of(json.loads(json.dumps(value, sort_keys=True)))


STORABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(STORABLE)
def test_every_json_value_becomes_one_a_checkpoint_keeps(value):
    kept = make_storable_json(value)
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(kept)) == kept
    assert make_storable_json(kept) == kept


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a" * 400, 100),
        ("\u4f60" * 300, 200),  # Chinese
        ("\u3042" * 15, 10),  # Japanese
        ("\ud55c" * 15, 10),  # Korean
        ("a" * 40 + "\u4f60" * 15, 20),
    ],
)
def test_tokens_are_estimated_by_length_and_script(text, tokens):
    assert estimate_tokens(text) == tokens
