"""Keys that are typed while a turn runs."""

import pytest

from loopwright.cli.keyboard import Keyboard


@pytest.mark.parametrize(
    ("keys", "sent", "left"),
    [
        (["a", "b\n"], ["ab"], ""),
        (["abc\x7f\x08d\r"], ["ad"], ""),
        (["one two\x17three", "\n"], ["one three"], ""),
        (["gone\x15kept"], [], "kept"),
        (["\x1b[A\x1b[1;5C\x1bOPx\x04\x00\n"], ["x"], ""),
        (["first\nsecond\n"], ["first\nsecond"], ""),
        (["日本\x7f\n", "\n", "  \n"], ["日"], ""),
    ],
)
def test_keys_become_messages(keys, sent, left):
    heard: list[str] = []
    keyboard = Keyboard(heard.append)
    for pressed in keys:
        keyboard.handle_keys(pressed)
    assert (heard, keyboard.drain_text(), keyboard.text) == (sent, left, "")
