"""Which steps of a pass run, which wait, and which never will."""

import pytest

from loopwright import ScriptedModel
from loopwright.nodes.flow.run_flow import run_flow
from loopwright.tools.python_tools import add_llm_call
from support.flow_nodes import run_node
from support.flow_steps import broken, steps
from support.flows import World, raising, step

ONE_AT_A_TIME = {"max_parallel_tasks": 1}


def known(*planned):
    """Steps of which the plan's check has found out what may change the world."""
    return [{**one, "changes": one["tool"] == "put"} for one in steps(*planned)]


async def passed(*todos, world, **more):
    """A pass over these steps; each by its id."""
    after = await run_node(run_flow, *todos, tools=world.tools(), **more)
    return {one["id"]: one for one in after.state.todos}, after


@pytest.mark.req("S2-26")
async def test_a_step_is_given_what_came_of_others_in_the_same_pass():
    world = World(x=lambda: {"n": [1, 2]})
    planned = steps(step("b", arguments={"what": "{{a.n[1]}}"}), step("a", arguments={"what": "x"}))
    after, _ = await passed(*planned, world=world)
    assert world.done("look") == ["x", 2]
    assert [after[name]["status"] for name in "ab"] == ["completed", "completed"]


@pytest.mark.req("S2-14")
async def test_behind_an_optional_step_that_failed_only_those_that_need_it_are_left_out():
    planned = steps(
        step("needs", arguments={"what": "{{a}}"}),
        step("needs that", arguments={"what": "{{needs}}"}),
        step("follows", after=["a"], arguments={"what": "f"}),
    )
    world = World()
    after, ran = await passed(broken("a", optional=True), *planned, world=world)
    assert world.done("look") == ["f"]
    assert [after[name]["status"] for name in ("needs", "needs that", "follows")] == [
        "skipped", "skipped", "completed",
    ]  # fmt: skip
    assert "the result of 'a'" in after["needs"]["feedback"]
    told = {e["step_id"]: e["status"] for e in ran.of_type("prompt_flow_step_result")}
    assert told == {"needs": "skipped", "needs that": "skipped", "follows": "completed"}


@pytest.mark.req("S2-13")
@pytest.mark.parametrize("optional", [False, True])
async def test_once_a_required_step_has_failed_no_write_is_begun_and_reads_go_on(optional):
    world = World(x=raising(ValueError("gone")))
    planned = known(
        # The longest chain of steps goes first.
        step("a", arguments={"what": "x"}, optional=optional),
        step("c", after=["a"]),
        step("d", after=["c"]),
        step("w", "put", arguments={"what": 1}),
        step("behind", after=["w"]),
        step("r", arguments={"what": "r"}),
    )
    after, _ = await passed(*planned, world=world, settings=ONE_AT_A_TIME)
    assert (after["a"]["status"], after["r"]["status"]) == ("failed", "completed")
    expected = "completed" if optional else "pending"
    assert {after[name]["status"] for name in ("c", "d", "w", "behind")} == {expected}
    assert world.done("put") == ([1] if optional else [])


@pytest.mark.req("S2-37")
@pytest.mark.parametrize(
    ("said", "status", "told"),
    [
        ("<think>two</think> 2", "completed", "2"),
        ("<think>two</think>", "failed", "gave no answer"),
    ],
)
async def test_a_step_may_ask_the_model_which_must_answer(said, status, told):
    model = ScriptedModel({"llm_call": [said]})
    tools = add_llm_call(World().tools())
    planned = steps(step("a", "llm_call", arguments={"prompt": "1 + 1?"}))
    after = await run_node(run_flow, *planned, model=model, tools=tools)
    (a,) = after.state.todos
    assert a["status"] == status
    assert told in (a["result"] or a["feedback"])
    assert after.state.spend["model_calls"] == 1
