"""Reducers: what several branches write at once must not depend on how LangGraph batches it."""

from copy import deepcopy

import pytest
from hypothesis import given, strategies as st

from loopwright.state.calls import MOST_FOUND, join_texts, keep_found, keep_latest, keep_newest
from loopwright.state.plan import merge_tasks

words = st.sampled_from(["a", "b", "c", "d"])
texts = st.lists(words, max_size=5)
mappings = st.dictionaries(words, st.integers(0, 3), max_size=4)
lists = st.lists(st.integers(0, 3), max_size=3)
tasks = st.lists(
    st.fixed_dictionaries(
        {"id": words},
        optional={"status": st.sampled_from(["pending", "completed"]), "result": st.text("xyz")},
    ),
    max_size=4,
)


@given(mappings, mappings, mappings)
def test_the_later_value_of_a_key_wins_in_any_grouping(a, b, c):
    joined = keep_latest(keep_latest(a, b), c)
    assert joined == keep_latest(a, keep_latest(b, c))
    assert joined == {key: c.get(key, b.get(key, a.get(key))) for key in {*a, *b, *c}}
    assert keep_latest(a, {}) == keep_latest({}, a) == keep_latest(a, a) == a


@given(texts, texts, texts)
def test_texts_are_joined_once_each_in_order_of_appearance_in_any_grouping(a, b, c):
    joined = join_texts(join_texts(a, b), c)
    assert joined == join_texts(a, join_texts(b, c))
    assert len(joined) == len(set(joined))
    assert set(joined) == {*a, *b, *c}
    places = [[*a, *b, *c].index(text) for text in joined]
    assert places == sorted(places)
    assert join_texts(joined, joined) == joined


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


@given(st.text(), st.lists(st.text(), min_size=1), lists, st.lists(lists, min_size=1))
def test_the_newest_write_is_what_counts(text, texts, items, writes):
    assert keep_newest(text, texts) == texts[-1]
    assert keep_newest(items, writes) == writes[-1]


@given(tasks, st.lists(tasks, max_size=4))
def test_each_task_is_there_once_with_the_newest_value_of_each_key(before, writes):
    every = [task for write in (before, *writes) for task in write]
    newest = {}
    for task in every:
        newest[task["id"]] = {**newest.get(task["id"], {}), **task}
    merged = merge_tasks(merge_tasks([], [before]), writes)
    assert merged == [newest[key] for key in dict.fromkeys(task["id"] for task in every)]
