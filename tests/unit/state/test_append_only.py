"""Lists that grow at their end: whatever versions there are of one, each stays what it was."""

import copy
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

from loopwright.state.calls import merge_records
from loopwright.state.channels import IndexedList
from loopwright.state.messages import Messages, find_request, merge_messages
from loopwright.state.plan import merge_tasks

IDS = st.sampled_from("abcdef")
messages = st.one_of(
    st.builds(
        lambda text, name: HumanMessage(text, id=name), st.sampled_from("xy"), IDS | st.none()
    ),
    st.builds(lambda text, name: AIMessage(text, id=name), st.sampled_from("xy"), IDS),
    st.sampled_from(["a", "b", REMOVE_ALL_MESSAGES]).map(lambda name: RemoveMessage(id=name)),
)
records = st.fixed_dictionaries({"id": IDS, "result": st.sampled_from("xy")})
tasks = st.fixed_dictionaries(
    {"id": IDS}, optional={"status": st.sampled_from("xy"), "result": IDS, "gone": st.just(True)}
)


def one_by_one(left, writes, *, join=lambda _, new: new):
    """The same with a dict, as anybody would write it."""
    merged = {item["id"]: item for item in left}
    for item in (item for write in writes for item in write):
        merged[item["id"]] = join(merged.get(item["id"], {}), item)
        if item.get("gone"):
            del merged[item["id"]]
    return [*merged.values()]


def folded_messages(left, writes):
    merged = {message.id: message for message in left}
    for message in (message for write in writes for message in write):
        if message.id == REMOVE_ALL_MESSAGES:
            merged.clear()
        elif isinstance(message, RemoveMessage):
            merged.pop(message.id, None)
        else:
            new = merge_messages([*merged.values()], [[message]])
            merged = {one.id: one for one in new}
    return [*merged.values()]


@pytest.mark.parametrize(
    ("reducer", "plain", "items"),
    [
        (merge_messages, folded_messages, messages),
        (merge_records, one_by_one, records),
        (merge_tasks, partial(one_by_one, join=lambda old, new: {**old, **new}), tasks),
    ],
    ids=["messages", "records", "tasks"],
)
@given(data=st.data())
def test_every_version_is_what_its_own_writes_make_of_it(reducer, plain, items, data):
    versions, meant = [reducer([], [])], [[]]
    for _ in range(data.draw(st.integers(1, 8))):
        # From any version: a router reads one that is never saved, a fork goes on from an old one.
        at = data.draw(st.integers(0, len(versions) - 1))
        writes = data.draw(st.lists(st.lists(items, max_size=3), max_size=3))
        base = data.draw(st.sampled_from([versions[at], [*versions[at]], copy.copy(versions[at])]))
        versions.append(reducer(base, writes))
        meant.append(plain(meant[at], writes))
    assert versions == meant


def test_an_id_is_found_in_what_somebody_else_has_made():
    grown = IndexedList([HumanMessage("x", id="a"), HumanMessage("x", id="b")])
    assert find_request(grown, "a") == 0
    grown = merge_messages(grown, [])
    grown.append(HumanMessage("x", id="c"))
    assert find_request(grown, "c") == 2


def test_a_long_thread_is_saved_whole_a_few_times_and_read_from_the_last():
    class Talk(TypedDict):
        messages: Messages

    graph = StateGraph(Talk)
    graph.add_node("more", lambda state: {"messages": [AIMessage(str(len(state["messages"])))]})
    graph.add_edge(START, "more")
    graph.add_conditional_edges("more", lambda s: END if len(s["messages"]) > 600 else "more")
    saver, on = InMemorySaver(), {"configurable": {"thread_id": "t"}, "recursion_limit": 700}
    built = graph.compile(saver)
    ended = built.invoke({"messages": []}, on)
    lists = [one.checkpoint["channel_values"].get("messages") for one in saver.list(on)]
    whole = [len(one.value) for one in lists if isinstance(one, _DeltaSnapshot)][::-1]
    assert whole[-1] > 300
    assert all(later - one >= max(100, later // 2) - 2 for one, later in pairwise(whole))
    assert built.get_state(on).values["messages"] == ended["messages"]
