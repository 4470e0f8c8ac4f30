import json

from hypothesis import given, strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from loopwright.state.canonical import DEEPEST, storable, storable_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_every_json_value_becomes_one_a_checkpoint_keeps(value):
    kept = storable_json(value)
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(kept)) == kept
    assert storable_json(kept) == kept


def test_what_cannot_be_kept_becomes_text():
    assert storable("a\ud83d\0b") == "a\ufffd\ufffdb"
    assert storable_json({"n": 10**22, "ok": 2**63}) == {"n": "1" + "0" * 22, "ok": 2**63}
    deep = []
    for _ in range(500):
        deep = [deep]
    kept = storable_json(deep)
    depth = 0
    while isinstance(kept, list):
        kept, depth = kept[0], depth + 1
    assert depth == DEEPEST
    assert json.loads(kept)
