"""The talk as a model may see it, and the bounded memory of earlier calls."""

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from loopwright.state.history import (
    TEXT_KEPT,
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
