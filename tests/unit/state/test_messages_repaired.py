import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from loopwright.state.messages import PLACEHOLDER, make_repairs, merge_messages

CALLS = ["call_0", "call_1", "call_2"]


def said(*calls, id="a"):
    return AIMessage(
        "", id=id, tool_calls=[{"name": "x", "args": {}, "id": call} for call in calls]
    )


def tool(call, *, id=None, real=True):
    signed = {"evidence": "react.1.0"} if real else {}
    return ToolMessage("done", tool_call_id=call, id=id or f"t-{call}", additional_kwargs=signed)


def missing(call):
    return ToolMessage("not run", tool_call_id=call, id=f"new-{call}", status="error")


def mended(messages, open_calls=()):
    return merge_messages(messages, [make_repairs(messages, missing, open_calls=open_calls)])


def is_whole(messages):
    """Each call is answered once, directly behind its message; nothing else is an answer."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif isinstance(message, AIMessage):
            waiting = [str(call["id"]) for call in message.tool_calls]
    return not waiting


@pytest.mark.req("P-05", "P-26")
def test_an_unanswered_call_is_answered_before_the_new_message():
    talk = [HumanMessage("do", id="h"), said("call_0", "call_1"), tool("call_1"),
            HumanMessage("stop", id="i")]  # fmt: skip
    assert [m.id for m in mended(talk)] == ["h", "a", "new-call_0", "t-call_1", "i"]


@pytest.mark.req("P-05")
@pytest.mark.parametrize("id_", [f"{PLACEHOLDER}1", "made-up"])
def test_an_answer_made_up_by_a_front_end_is_replaced(id_):
    talk = [said("call_0"), tool("call_0", id=id_, real=False), HumanMessage("hello", id="i")]
    assert [m.content for m in mended(talk, ["call_0"])][1:] == ["not run", "hello"]


messages_of = st.lists(
    st.one_of(
        st.just("human"),
        st.lists(st.sampled_from(CALLS), max_size=3, unique=True),
        st.tuples(st.sampled_from(CALLS), st.booleans()),
    ),
    max_size=12,
)


@pytest.mark.req("P-26")
@given(messages_of, st.lists(st.sampled_from(CALLS)))
def test_whatever_the_history_tool_pairs_are_whole(drawn, open_calls):
    talk = []
    for place, one in enumerate(drawn):
        if one == "human":
            talk.append(HumanMessage("words", id=f"h{place}"))
        elif isinstance(one, tuple):
            talk.append(tool(one[0], id=f"t{place}", real=one[1]))
        else:
            talk.append(said(*one, id=f"a{place}"))
    made = iter(range(100))

    def answer(call):
        return missing(call).model_copy(update={"id": f"new-{next(made)}"})

    after = merge_messages(talk, [make_repairs(talk, answer, open_calls=open_calls)])
    assert is_whole(after)
    assert [m.id for m in after if m.type != "tool"] == [m.id for m in talk if m.type != "tool"]
    assert make_repairs(after, answer) == []
