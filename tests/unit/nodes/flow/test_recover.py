"""What is done about steps that failed: by whom it is decided, how often, and how it is told."""

import pytest
from langchain_core.tools import StructuredTool

from loopwright import ScriptedModel
from loopwright.nodes.flow.recover import recover
from loopwright.nodes.flow.turn import facts_of
from loopwright.turn.end import collect_unmet
from support.flow_nodes import run_node
from support.flow_steps import broken, flow_step
from support.flows import GOAL


def look(what: str) -> str:
    """Look something up."""
    return what


READ = StructuredTool.from_function(look, metadata={"readOnlyHint": True})


def deciding(*turns):
    return ScriptedModel({"recovery": list(turns)})


def to(strategy, reason="the shop is closed"):
    return {"strategy": strategy, "reason": reason}


async def after(*decisions, steps, **more):
    """Recover on these steps with these answers of the model."""
    return await run_node(recover, *steps, model=deciding(*decisions), tools=[READ], **more)


def decided(ran):
    state = ran.state
    return state.strategy, state.halt, len(ran.asked)


@pytest.mark.req("S2-27")
async def test_the_model_is_shown_what_failed_why_and_what_may_still_be_done():
    steps = [
        flow_step("s1", result="x" * 5_000),
        broken("s2", "the shop did not answer", failure="timeout", attempts=3, depends_on=["s1"],
               arguments={"what": "{{s1.name}}"}),
        flow_step("s3", "pending", depends_on=["s2"]),
    ]  # fmt: skip
    ran = await after(to("retry_step"), steps=steps, hook_context=["Prices are in euro."])
    assert ran.shown("failures") == [
        {
            "step": "s2", "description": "do s2", "tool": "look",
            "arguments": {"what": "{{s1.name}}"}, "failure": "timeout",
            "error": "the shop did not answer", "attempts": 3, "safe_to_repeat": True,
        }
    ]  # fmt: skip
    assert ran.shown("strategies") == {
        "retry_step": 2, "replan_from_failure": 2, "complete_replan": 1
    }  # fmt: skip
    assert [(s["id"], s["status"]) for s in ran.shown("steps")] == [
        ("s1", "completed"), ("s2", "failed"), ("s3", "pending")
    ]  # fmt: skip
    assert len(ran.shown("steps")[0]["result"]) < 600
    assert ran.shown("request") == GOAL
    assert ran.shown("additional_context") == "Prices are in euro."
    assert ran.asked[0].messages[0].text.startswith("You are the recovery ")


@pytest.mark.req("S2-33")
async def test_a_failure_after_a_new_plan_says_that_it_came_after_one():
    replanned = await after(to("replan_from_failure"), steps=[broken("s2", "404")])
    ran = await after(
        to("give_up", "no other shop"), steps=[broken("s5", "410")],
        causes=replanned.state.causes, recoveries=replanned.state.recoveries,
        failures_seen=replanned.state.failures_seen,
    )  # fmt: skip
    assert ran.state.unmet[0] == "After replanning from s2: s5 (do s5) failed: 410"
    assert collect_unmet(facts_of(ran.state)) == ran.state.unmet, "and tells it once"


@pytest.mark.parametrize(
    ("denied", "halt"),
    [("rejected", "DENIED"), ("denied", "DENIED"), ("not_interactive", "NOT_INTERACTIVE"),
     ("expired", "DENIED"), ("uncertain", "NOT_INTERACTIVE")],
)  # fmt: skip
async def test_what_nobody_allows_no_model_can_repair(denied, halt):
    steps = [broken("s1", "the user said no", failure="refused", denied=denied)]
    ran = await after(steps=steps)
    assert decided(ran) == ("give_up", halt, 0)
    assert ran.state.unmet[0] == "s1 (do s1) failed: the user said no"
    assert ran.of_type("phase") == []


@pytest.mark.req("P-31", "W-22")
@pytest.mark.parametrize(
    ("taken", "most", "left"),
    [
        ({"retry_step": 2}, 4, {"replan_from_failure": 2, "complete_replan": 1}),
        ({"replan_from_failure": 2}, 4, {"retry_step": 2, "complete_replan": 1}),
        ({"complete_replan": 1}, 4, {"retry_step": 2, "replan_from_failure": 2}),
        ({"retry_step": 1}, 2, {
            "retry_step": 1, "replan_from_failure": 2, "complete_replan": 1}),
        ({"retry_step": 2, "complete_replan": 1}, 2, {"replan_from_failure": 1}),
    ],
)  # fmt: skip
async def test_each_strategy_and_all_together_are_bounded(taken, most, left):
    ran = await after(
        to("give_up"), steps=[broken("s1")], recoveries=taken, settings={"max_recoveries": most}
    )
    assert ran.shown("strategies") == left


@pytest.mark.parametrize(
    ("tool", "failure", "offered"),
    [
        ("look", "timeout", True),
        ("look", "unexpected_result", True),
        ("look", "missing_input", False),
        ("look", "bad_arguments", False),
        ("put", "tool_error", True),
        ("put", "tool_not_found", True),
    ],
)
async def test_a_retry_is_offered_only_where_it_may_help_and_repeats_no_write(
    tool, failure, offered
):
    steps = [broken("s1", tool=tool, failure=failure), broken("s2")]
    ran = await after(to("give_up"), steps=steps)
    assert ("retry_step" in ran.shown("strategies")) == offered


@pytest.mark.req("W-22")
@pytest.mark.parametrize(
    "failure", ["timeout", "uncertain", "unexpected_result", "execution_error"]
)
@pytest.mark.parametrize(
    ("taken", "strategy"),
    [({}, "replan_from_failure"), ({"replan_from_failure": 2}, "complete_replan")],
)
async def test_a_call_that_may_not_be_made_twice_goes_straight_to_the_planner(
    failure, taken, strategy
):
    steps = [broken("s1", tool="put", failure=failure), broken("s2")]
    ran = await after(steps=steps, recoveries=taken)
    assert decided(ran) == (strategy, None, 0)
    assert "may have taken effect" in ran.state.improvements[0]
    assert [c["step"] for c in ran.state.causes] == ["s1", "s2"]
