import json

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage

from loopwright.models.hidden_tags import (
    AgentMeta,
    read_thought,
    strip_message_tags,
    strip_tags,
)

GO_ON = '<agent_meta>{"shouldContinue": true, "reason": "why"}</agent_meta>'
DONE = '<agent_meta>{"shouldContinue": false}</agent_meta>'


def read(text, **more):
    return read_thought(AIMessage(text), **more)


@pytest.mark.req("S1-28")
@pytest.mark.parametrize(
    "text",
    [
        "Hi <AGENT_META>{'shouldContinue': False,}</AGENT_META>",
        'Hi <agent_meta>{"shouldContinue": false}',
        f"<think>First {GO_ON}</think>Hi {DONE}",
        'Hi &lt;agent_meta&gt;{"shouldContinue": false}&lt;/agent_meta&gt;',
        'Hi \uff1cagent_meta\uff1e{"shouldContinue": false}\uff1c/agent_meta\uff1e',
        'Hi \\<agent_meta\\>{"shouldContinue": false}\\</agent_meta\\>',
    ],
)
def test_a_tag_that_can_only_mean_one_thing_is_read(text):
    reading = read(text)
    assert reading.parsed == AgentMeta(should_continue=False)
    assert reading.message.content == "Hi"


@pytest.mark.req("S1-29", "S1-31", "S1-32")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Hi", "no <agent_meta>"),
        (DONE, "no text before"),
        (f"Hi {GO_ON} {DONE}", "more than one"),
        ('Hi <agent_meta>{"shouldContinue": "yes"}</agent_meta>', "valid boolean"),
        ('Hi <agent_meta>{"shouldContinue": true, "reason": [1]}</agent_meta>', "valid string"),
        ("Hi <agent_meta>yes</agent_meta>", "no whole JSON"),
        ('Hi\nagent_meta: {"shouldContinue": true}', "no <agent_meta>"),
        ("Hi <agent_me", "no <agent_meta>"),
    ],
)
def test_a_thought_that_breaks_the_form_is_none_and_says_why(text, problem):
    reading = read(text)
    told = problem == "no text before"
    assert (reading.parsed is not None) == told
    assert problem in "; ".join(reading.problems)
    assert reading.wanted == "wanted_thought"
    assert reading.message.content in ("Hi", "")


@pytest.mark.req("S1-30")
@given(
    st.lists(
        st.sampled_from(
            ["Hi ", "<agent_meta>", "</agent_meta>", "<AGENT_META", '{"shouldContinue": true}', "<",
             "agent_meta>", "<agent", "_meta>", "```", "\n", " ", "&lt;agent_meta&gt;",
             "[agent_meta]",
             "< agent_meta >", "</ agent-meta>", "<think>", "</think>"]
        ),
        max_size=8,
    )
)  # fmt: skip
def test_no_beginning_of_a_tag_is_ever_shown(pieces):
    shown = strip_tags("".join(pieces)).lower()
    for hidden in ("<agent_meta", "</agent_meta", "< agent_meta", "&lt;agent_meta", "[agent_meta"):
        assert hidden not in shown
    assert strip_tags(shown) == shown
    assert not shown.endswith(("<agent", "<agent_meta"))


@pytest.mark.parametrize(
    "text",
    [
        "<a" * 50_000,
        '{"shouldContinue": true ' * 4_000,
        "{" + '"shouldContinue" ' * 6_000 + "{",
        "agent_meta" + " " * 90_000 + "x",
        "<" + " " * 50_000 + "|" + " " * 40_000,
        "<agent_" * 3_000 + "<agent_meta>x</agent_meta>" + "meta>{}</agent_meta>" * 3_000,
    ],
)
def test_a_hostile_text_is_read_in_seconds_not_minutes(text):
    shown = strip_tags(text)
    assert text.startswith(shown)
    assert "<agent_meta" not in shown


def test_the_tag_is_taken_out_of_content_blocks_and_of_what_comes_with_a_message():
    call = {"name": "look", "args": {}, "id": "1"}
    blocks = [
        {"type": "thinking", "thinking": f"say {GO_ON}"},
        {"type": "text", "text": "I look. <agent_"},
        {"type": "text", "text": 'meta>{"shouldContinue": true}</agent_meta>'},
        {"type": "tool_use", "id": "1", "name": "look", "input": {}},
    ]
    extra = {"reasoning_content": GO_ON, "tool_calls": []}
    shown = strip_message_tags(AIMessage(blocks, tool_calls=[call], additional_kwargs=extra))
    assert shown.text == "I look."
    assert "agent_meta" not in json.dumps(shown.model_dump(), default=str)
    assert any(block["type"] == "tool_use" for block in shown.content)
    assert shown.additional_kwargs == {"tool_calls": []}
