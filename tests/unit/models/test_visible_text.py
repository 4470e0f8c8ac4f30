"""What may become a hidden tag is never shown, however a text comes."""

import re

import pytest
from hypothesis import example, given, strategies as st

from loopwright.models.hidden_tags import VisibleText, strip_tags

PARTS = [
    "Hello ", "world. ", "<agent_meta>", "</agent_meta>", '{"shouldContinue": true, "reason": "x"}',
    "<think>", "</think>", "<thinking>", "```", "```json\n", "\n", "  ", "`code`", "{", "}",
    "a < b ", "[1] ", "&lt;agent-meta&gt;", "agent", "_meta", "agent_meta: ", "＜agent meta＞",
    "[agent_meta](http://x)", "<agent_metadata>", "数据", "😀", "x = {1, 2} ", "\\<agent_meta>",
    "if (a) { return b; } ", "<|agent_meta|>", "**", "'", "# ", "<b>bold</b> ", "/", "end",
    '"shouldContinue": false',
]  # fmt: skip


def read(text: str, sizes: list[int]) -> tuple[list[str], VisibleText]:
    visible_text, shown, place = VisibleText(), list[str](), 0
    while place < len(text):
        size = sizes[len(shown) % len(sizes)]
        visible_text.read(text[place : place + size])
        shown.append(visible_text.shown)
        place += size
    return shown, visible_text


@pytest.mark.req("S1-30", "S1-33")
@given(st.lists(st.sampled_from(PARTS), max_size=9), st.lists(st.integers(1, 9), min_size=1))
@example(["```", "&lt;agent-meta&gt;"], [1])
@example(["Hello ", "<agent_meta>", '{"shouldContinue": true, "reason": "x"}'], [1])
def test_what_is_shown_is_the_beginning_of_what_will_be_visible(parts, sizes):
    text = "".join(parts)
    shown, visible_text = read(text, sizes)
    if "</think" not in text:  # one that nobody opened takes back what was shown
        assert all(strip_tags(text).startswith(one) for one in shown)
        assert shown == sorted(shown, key=len)
    assert not any(re.search(r"<agent[_-]meta>|</?think>", one) for one in shown)
    assert visible_text.thoughts == read(text, [len(text) or 1])[1].thoughts


@pytest.mark.parametrize(
    ("text", "shown", "thoughts"),
    [
        ("<think>so, 1 < 2</think>\n\nIt is so.", "It is so.", "so, 1 < 2"),
        ("It is so. <agent_meta>{", "It is so.", ""),
        ("x < y, [1] and {2} & more", "x < y, [1] and {2} & more", ""),
        ("Do:\n```json\n", "Do:", ""),
    ],
)
def test_words_are_shown_as_soon_as_they_can_be_nothing_else(text, shown, thoughts):
    for size in (1, 2, len(text)):
        _, visible_text = read(text, [size])
        assert (visible_text.shown, visible_text.thoughts) == (shown, thoughts)
