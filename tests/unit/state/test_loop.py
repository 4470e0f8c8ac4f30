"""Reducers: what several branches write at once must not depend on how LangGraph batches it."""

from copy import deepcopy

import pytest
from hypothesis import given, strategies as st

from loopwright.state.calls import MOST_FOUND, join_texts, keep_found, keep_newest
from loopwright.state.plan import merge_tasks

words = st.sampled_from(["a", "b", "c", "d"])
lists = st.lists(st.integers(0, 3), max_size=3)
tasks = st.lists(
    st.fixed_dictionaries(
        {"id": words},
        optional={"status": st.sampled_from(["pending", "completed"]), "result": st.text("xyz")},
    ),
    max_size=4,
)


names = st.lists(st.integers(0, 90).map(str), max_size=80)


@given(names, names)
def test_found_names_keep_their_places_and_of_too_many_the_newest_half_stays(a, b):
    before = keep_found([], a)
    joined = keep_found(before, b)
    assert len(joined) == len(set(joined)) <= MOST_FOUND
    assert set(joined) <= {*before, *b}
    if len({*before, *b}) <= MOST_FOUND:
        assert joined == join_texts(before, b)
    else:
        assert joined[-1] == join_texts([], b)[-1]
    assert keep_found(joined, []) == keep_found(joined, joined[:3]) == joined


@pytest.mark.parametrize(
    ("reducer", "values", "empty"),
    [
        (keep_newest, st.text(max_size=5), ""),
        (keep_newest, lists, []),
        (merge_tasks, tasks, []),
    ],
    ids=["newest text", "newest list", "merge_tasks"],
)
@given(data=st.data())
def test_a_batch_may_be_cut_anywhere(reducer, values, empty, data):
    before = reducer(empty, [data.draw(values)])
    writes = data.draw(st.lists(values, max_size=6))
    cut = data.draw(st.integers(0, len(writes)))
    given_before, given_writes = deepcopy(before), deepcopy(writes)
    whole = reducer(before, writes)
    assert reducer(reducer(before, writes[:cut]), writes[cut:]) == whole
    assert reducer(before, []) == before
    assert (before, writes) == (given_before, given_writes), "what is given stays as it is"
