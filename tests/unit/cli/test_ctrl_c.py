"""What Ctrl-C means in a conversation, at every moment of it."""

import signal

import pytest

from loopwright.cli.ctrl_c import Back, CtrlC
from loopwright.cli.terminal import signals_to
from support.patience import PATIENCE


def pressed():
    signal.raise_signal(signal.SIGINT)


def test_it_leaves_what_is_read_is_handed_to_a_turn_and_kept_between_them():
    ctrl_c, halted = CtrlC(), []

    def typed():
        pressed()
        pytest.fail("the read went on")

    with signals_to(ctrl_c):
        with pytest.raises(Back):
            ctrl_c.read(typed)
        pressed()  # twice before the next prompt is once
        pressed()
        with pytest.raises(Back):
            ctrl_c.read(lambda: pytest.fail("it was kept"))
        assert ctrl_c.read(lambda: "hello") == "hello"
        with ctrl_c.turn(halted.append):
            pressed()
            pressed()
        assert halted == [signal.SIGINT] * 2
        pressed()
        with pytest.raises(Back), ctrl_c.turn(halted.append):
            pytest.fail("a turn began")
        with ctrl_c.turn(halted.append):
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

    with signals_to(ctrl_c):
        assert ctrl_c.read(typed) == "looks"
    assert woken[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_one_that_comes_while_readline_calls_the_program_is_seen_soon_after():
    """readline drops what is raised in its hooks, so nothing is raised there."""
    ctrl_c, heard = CtrlC(), []

    def typed():
        ctrl_c.beside(pressed)
        heard.append("went on")
        signal.sigtimedwait([], PATIENCE)  # as `input` waits: a signal ends it
        pytest.fail("nobody looked")

    with signals_to(ctrl_c):
        with pytest.raises(Back):
            ctrl_c.read(typed)
        assert ctrl_c.read(lambda: "hello") == "hello", "it was heard once"
    assert heard == ["went on"]
