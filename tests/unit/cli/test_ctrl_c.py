"""What Ctrl-C means in a conversation, at every moment of it."""

import signal

import pytest

from loopwright.cli.ctrl_c import CtrlC, PromptLeft
from loopwright.cli.terminal import send_signals_to
from support.patience import PATIENCE


def pressed():
    signal.raise_signal(signal.SIGINT)


def test_it_leaves_what_is_read_is_handed_to_a_turn_and_kept_between_them():
    ctrl_c, halted = CtrlC(), []

    def typed():
        pressed()
        pytest.fail("the read went on")

    with send_signals_to(ctrl_c):
        with pytest.raises(PromptLeft):
            ctrl_c.read_input(typed)
        pressed()  # twice before the next prompt is once
        pressed()
        with pytest.raises(PromptLeft):
            ctrl_c.read_input(lambda: pytest.fail("it was kept"))
        assert ctrl_c.read_input(lambda: "hello") == "hello"
        with ctrl_c.forward_signals(halted.append):
            pressed()
            pressed()
        assert halted == [signal.SIGINT] * 2
        pressed()
        with pytest.raises(PromptLeft), ctrl_c.forward_signals(halted.append):
            pytest.fail("a turn began")
        with ctrl_c.forward_signals(halted.append):
            signal.raise_signal(signal.SIGTERM)
        assert halted[2:] == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_waits_are_woken_so_that_none_overlooks_a_signal():
    """`input` waits in C: what comes just before that is seen when another signal comes."""
    ctrl_c, woken = CtrlC(), []

    def typed():
        woken.append(signal.getitimer(signal.ITIMER_REAL)[1])
        return "looks"

    with send_signals_to(ctrl_c):
        assert ctrl_c.read_input(typed) == "looks"
    assert woken[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_one_that_comes_while_readline_calls_the_program_is_seen_soon_after():
    """readline drops what is raised in its hooks, so nothing is raised there."""
    ctrl_c, heard = CtrlC(), []

    def typed():
        ctrl_c.run_for_readline(pressed)
        heard.append("went on")
        signal.sigtimedwait([], PATIENCE)  # as `input` waits: a signal ends it
        pytest.fail("nobody looked")

    with send_signals_to(ctrl_c):
        with pytest.raises(PromptLeft):
            ctrl_c.read_input(typed)
        assert ctrl_c.read_input(lambda: "hello") == "hello", "it was heard once"
    assert heard == ["went on"]
