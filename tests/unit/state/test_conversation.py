"""The talk as a model may see it, and the bounded memory of earlier calls."""

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from loopwright.state.history import (
    MOST_KEPT,
    TEXT_KEPT,
    build_call_index,
    make_earlier_records,
    merge_earlier,
)
from loopwright.state.messages import ENDS, conversation_of, make_signature


def ours(text, role, id_, **marks):
    return AIMessage(text, id=id_, additional_kwargs=make_signature(role) | marks)


@pytest.mark.req("W-07")
def test_only_words_of_the_user_and_answers_are_talk():
    calls = [{"name": "look", "args": {}, "id": "c"}]
    messages = [
        SystemMessage("obey", id="0"),
        HumanMessage("first", id="1"),
        ours("I plan.", "planner", "p1"),
        AIMessage("", id="e1", tool_calls=calls, additional_kwargs=make_signature("executor")),
        ToolMessage("found", tool_call_id="c", id="t1"),
        ours("It is done, I think.", "executor", "e2"),
        ours("The answer.", "verifier", "answer-1-1"),
        HumanMessage("second", id="2"),
        ours("I look.", "thought", "a.1"),
        ours("A thought that answers.", "thought", "a.2", **{ENDS: True}),
        HumanMessage("third", id="3"),
        ours("Not done.", "loopwright", "b.1"),
        AIMessage("of another graph", id="x"),
        HumanMessage("  ", id="4"),
        HumanMessage("now", id="5"),
        AIMessage("later", id="y"),
    ]
    assert [(e["role"], e["text"]) for e in conversation_of(messages, "5")] == [
        ("user", "first"),
        ("assistant", "The answer."),
        ("user", "second"),
        ("assistant", "A thought that answers."),
        ("user", "third"),
        ("assistant", "Not done."),
        ("assistant", "of another graph"),
    ]
    assert conversation_of([], "") == []


def record(number, size=10, **more):
    return {
        "id": f"{number}.1.0", "task": str(number), "tool": "look", "arguments": {},
        "status": "success", "result": "r" * size, "seconds": 0.0, "call_id": "c", **more,
    }  # fmt: skip


@pytest.mark.req("W-07")
@given(
    st.lists(st.lists(st.integers(0, TEXT_KEPT // 2), max_size=6), max_size=8),
    st.integers(0, 8),
)
def test_what_is_kept_of_earlier_turns_depends_on_no_batch(sizes, cut):
    writes = [
        make_earlier_records(turn, [record(place, size) for place, size in enumerate(turn_sizes)])
        for turn, turn_sizes in enumerate(sizes)
    ]
    at_once = merge_earlier([], writes)
    assert at_once == merge_earlier(merge_earlier([], writes[:cut]), writes[cut:])
    assert at_once == [r for write in writes for r in write][-len(at_once) :] if at_once else True
    assert sum(len(r["result"]) for r in at_once) <= TEXT_KEPT


@pytest.mark.req("W-07")
def test_the_newest_calls_are_kept_each_under_an_id_of_its_own():
    known = merge_earlier(
        [], [make_earlier_records(t, [record(1)]) for t in range(1, 2 * MOST_KEPT)]
    )
    assert len(known) == MOST_KEPT
    assert known[-1]["id"] == f"t{2 * MOST_KEPT - 1}:1.1.0"
    assert len({r["id"] for r in known}) == MOST_KEPT
    reused = record(2, reused_from="1.1.0")
    assert make_earlier_records(1, [reused]) == []


@pytest.mark.req("W-07")
def test_an_index_says_what_it_leaves_out_and_what_can_be_cited():
    read = record(1, read_only=True)
    lines = build_call_index(
        make_earlier_records(1, [read, record(2), record(3, status="error")]), citing=True
    )
    assert [line["citable"] for line in lines] == [True, False, False]
    assert "left_out" in build_call_index([record(n, 500) for n in range(100)])[0]
    assert "id" in build_call_index([record(1, arguments={"text": "x" * 100_000})])[0]
