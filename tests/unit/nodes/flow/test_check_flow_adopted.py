"""A plan that is taken: what is wrong with it in bounds, and the state that follows it."""

import pytest

from loopwright import Context
from loopwright.nodes.flow.check_flow import adopt_plan, flaws_of, repeats_a_plan
from loopwright.state.flow import FlowState
from support.flow_nodes import parts_with
from support.flow_steps import plan
from support.flows import step

LOOK = step("a", arguments={"what": "x"})
PUT = step("b", "put", arguments={"what": "{{a}}"})


async def catalog():
    return await parts_with().toolbox.catalog()


async def taken(*planned, state=None, **variables):
    """The steps and the update of a plan that is taken."""
    return adopt_plan(plan(*planned, **variables), state or FlowState(), await catalog())


@pytest.mark.req("S2-06")
async def test_a_sound_plan_has_no_flaws_and_a_step_too_many_is_one():
    found = flaws_of(plan(LOOK, PUT), FlowState(), await catalog(), Context())
    assert found == []
    (found,) = flaws_of(plan(LOOK, PUT), FlowState(), await catalog(), Context(max_steps=1))
    assert "2 steps" in found


async def test_findings_beyond_count_and_without_end_are_told_in_bounds():
    many = [step(f"s{n}", f"tool{n}") for n in range(250)]
    told = flaws_of(plan(*many), FlowState(), await catalog(), Context(max_steps=1_000))
    assert len(told) == 201
    assert told[-1].startswith("and ")
    (one,) = flaws_of(plan(step("a", "x" * 5_000)), FlowState(), await catalog(), Context())
    assert len(one) < 700


@pytest.mark.req("S2-08")
async def test_the_state_follows_the_plan_and_forgets_the_drafts():
    todos, update = await taken(LOOK, PUT, x=1)
    assert update["todos"].value == todos
    assert update["drafts"] == []
    assert update["plan"]["global_variables"] == {"x": 1}
    assert "steps" not in update["plan"]


async def test_every_step_that_is_not_known_to_read_may_change_the_world():
    gone = step("c", "of a server that went away")
    todos, _ = await taken(LOOK, PUT, gone)
    assert {one["id"]: one["changes"] for one in todos} == {"a": False, "b": True, "c": True}


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
