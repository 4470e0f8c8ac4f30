from typing import get_args

import pytest
from hypothesis import given, strategies as st

from loopwright.state.calls import TRANSITIONS, ToolStatus, advance

STATUSES = get_args(ToolStatus)
ENDS = {"success", "error", "cancelled"}


@pytest.mark.req("S4-27")
def test_the_states_are_those_of_the_scheduler_and_three_of_them_are_ends():
    assert set(TRANSITIONS) == set(STATUSES)
    assert len(STATUSES) == 7
    assert {status for status in STATUSES if not TRANSITIONS[status]} == ENDS


@pytest.mark.req("S4-28")
@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("after", STATUSES)
def test_only_the_steps_of_the_table_are_taken(before, after):
    if after in TRANSITIONS[before]:
        assert advance(before, after) == after
    else:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            advance(before, after)


@given(st.lists(st.sampled_from(STATUSES), max_size=12))
def test_every_way_through_the_table_can_still_end(steps):
    status: ToolStatus = "validating"
    for step in steps:
        if step in TRANSITIONS[status]:
            status = advance(status, step)
    assert status in ENDS or TRANSITIONS[status] & ENDS
