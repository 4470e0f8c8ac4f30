"""A plan that is taken: what is wrong with it in bounds, and the state that follows it."""

import pytest

from loopwright import Context
from loopwright.calls.policy import Policy
from loopwright.nodes.flow.check_flow import adopt_plan, flaws_of, repeats_a_plan
from loopwright.state.flow import FlowState
from support.flow_nodes import parts_with
from support.flow_steps import plan
from support.flows import step

LOOK = step("a", arguments={"what": "x"})


async def catalog():
    return await parts_with().toolbox.catalog()


async def taken(*planned, state=None, **variables):
    """The steps and the update of a plan that is taken."""
    before, tools = state or FlowState(), await catalog()
    return adopt_plan(plan(*planned, **variables), before, tools, Policy(), tainted=False)


async def test_findings_beyond_count_and_without_end_are_told_in_bounds():
    many = [step(f"s{n}", f"tool{n}") for n in range(250)]
    told = flaws_of(
        plan(*many), FlowState(), await catalog(), Context(max_steps=1_000), hides=False
    )
    assert len(told) == 201
    assert told[-1].startswith("and ")
    (one,) = flaws_of(
        plan(step("a", "x" * 5_000)), FlowState(), await catalog(), Context(), hides=False
    )
    assert len(one) < 700


@pytest.mark.req("P-31")
@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"id": "z", "description": "other words", "expectedOutput": "a list"}, True),
        ({"arguments": {"what": "y"}}, False),
        ({"timeout": 30}, False),
        ({"retryCount": 1}, False),
        ({"optional": True}, False),
        ({"expect": "of exists"}, False),
    ],
    ids=str,
)
async def test_a_plan_is_repeated_where_its_calls_are_made_and_may_fail_alike(change, same):
    todos, first = await taken(LOOK)
    assert not repeats_a_plan(first)
    _, again = await taken({**LOOK, **change}, state=FlowState(todos=todos, prints=first["prints"]))
    assert len(again["prints"]) == 2
    assert repeats_a_plan(again) == same
