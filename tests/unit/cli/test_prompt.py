"""Lines at a prompt, and keys that are typed while a turn runs."""

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from loopwright.cli.prompt import Keyboard, Prompt, PromptLeft


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
    with create_pipe_input() as source:
        for pressed in keys:
            source.send_text(pressed)
            keyboard.handle_keys(source.read_keys())
    assert (heard, keyboard.drain_text(), keyboard.text) == (sent, left, "")


def test_ctrl_c_leaves_a_prompt_also_one_that_came_before_it():
    kept = [True]
    with create_pipe_input() as source, create_app_session(input=source, output=DummyOutput()):
        prompt = Prompt(lambda: kept and kept.pop())
        with pytest.raises(PromptLeft):
            prompt.read_line()
        source.send_text("\x03")
        with pytest.raises(PromptLeft):
            prompt.read_line()
        source.send_text("llo\n")
        assert prompt.read_line("he") == "hello"
        source.send_text("\x04")
        with pytest.raises(EOFError):
            prompt.read_line()
