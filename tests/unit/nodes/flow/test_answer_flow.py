"""The final answer: what it is written from, which citations hold, and what comes in its place."""

import pytest

from loopwright import ScriptedModel
from loopwright.nodes.flow.answer_flow import answer_flow
from support.flow_nodes import run_node
from support.flow_steps import flow_step
from support.flows import GOAL

STEPS = [flow_step("s1"), flow_step("s2", depends_on=["s1"])]


async def answered(*turns, steps=STEPS, **more):
    return await run_node(answer_flow, *steps, model=ScriptedModel({"answerer": turns}), **more)


def final(ran):
    return ran.state.messages[-1]


@pytest.mark.req("S2-18")
async def test_the_answer_is_written_from_the_results_and_cites_them():
    ran = await answered("They cost 7 euro [s1] in all [s2].")
    assert ran.shown("request") == GOAL
    assert [(s["id"], s["result"]) for s in ran.shown("steps")] == [
        ("s1", "result of s1"), ("s2", "result of s2")
    ]  # fmt: skip
    assert ran.shown("failures") is None
    assert final(ran).text == "They cost 7 euro [s1] in all [s2]."
    assert final(ran).additional_kwargs["agent_type"] == "answerer"
    assert (ran.state.task_completed, ran.state.warnings) == (True, [])
    assert ran.state.spend["by_role"]["answerer"]["model_calls"] == 1
    assert ran.of_type("phase") == [
        {"type": "phase", "role": "answerer", "action": "answering", "round": 1}
    ]
    assert ran.asked[0].messages[0].text.startswith("You are the answerer ")


async def test_a_turn_that_a_limit_ended_gets_one_last_call_and_is_not_completed():
    steps = [flow_step("s1"), flow_step("s2", "pending")]
    spent = {"model_calls": 3, "by_role": {}}
    ran = await answered(
        "It is 7 [s1]; the rest was not done.", steps=steps, halt="BUDGET", spend=spent,
        settings={"max_model_calls": 3},
    )  # fmt: skip
    assert ran.shown("failures") == [
        "Not run: s2 (do s2).", "The allowance was used up before the request was done."
    ]  # fmt: skip
    assert final(ran).text == "It is 7 [s1]; the rest was not done."
    assert (ran.state.task_completed, ran.state.halt) == (False, "BUDGET")
