from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from loopwright.state.messages import merge_messages

one = st.one_of(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["a", "b", None])).map(
        lambda drawn: HumanMessage(drawn[0], id=drawn[1])
    ),
    st.tuples(st.sampled_from("xy"), st.sampled_from(["a", "b", None])).map(
        lambda drawn: AIMessage(drawn[0], id=drawn[1])
    ),
    st.sampled_from(["a", "b", REMOVE_ALL_MESSAGES]).map(lambda i: RemoveMessage(id=i)),
)
writes = st.lists(st.lists(one, max_size=3), max_size=4)


@given(writes, writes)
def test_merging_does_not_depend_on_batches(first, second):
    whole = merge_messages([], [*first, *second])
    assert merge_messages(merge_messages([], first), second) == whole
    ids = [m.id for m in whole]
    assert None not in ids
    assert len(ids) == len(set(ids))


def test_a_known_id_replaces_in_place_and_remove_all_empties():
    state = merge_messages([], [[HumanMessage("a", id="1"), AIMessage("b", id="2")]])
    assert [m.text for m in merge_messages(state, [[AIMessage("c", id="1")]])] == ["c", "b"]
    assert merge_messages(state, [[RemoveMessage(id=REMOVE_ALL_MESSAGES)]]) == []
    assert merge_messages(state, [[RemoveMessage(id="unknown")]]) == state
