"""What Ctrl-C means in a conversation, at every moment of it."""

import signal

import pytest

from loopwright.cli.ctrl_c import Back, CtrlC
from loopwright.cli.terminal import signals_to


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
