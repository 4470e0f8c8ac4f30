"""What a model is told to do next is no part of what a human is told of a failed call."""

import pytest

from loopwright.calls.results import ADVICE, failure, without_advice
from loopwright.state.told import say


@pytest.mark.parametrize("name", ADVICE)
def test_every_advice_is_left_out_and_the_reason_stays(name):
    text = say(name)
    assert (
        without_advice(f"Not run: the shop is closed.\n {text}") == "Not run: the shop is closed."
    )
    assert without_advice(text) == ""


def test_what_a_tool_says_stays():
    assert without_advice(failure("pay failed: Send it\nagain tomorrow").text) == (
        "pay failed: Send it again tomorrow."
    )
