"""A draft is proven sound and taken, or sent back with all that is wrong; nothing is run."""

import pytest

from loopwright import Hook
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.nodes.flow.check_flow import check_flow
from support.flow_nodes import Turn, parts_with
from support.flow_steps import steps
from support.flows import flow, step

A = step("a", arguments={"what": "a"})
B = step("b", "put", arguments={"what": "{{a}}"})
BAD = flow(step("a", "lok"), step("b", "put", arguments={"what": "{{x.y}}"}))


def draft(plan):
    return {"text": "…", "plan": ExecutionPlan.model_validate(plan).model_dump(), "findings": []}


async def checked(*plans, saved=True, parts=None, settings=None, **state):
    turn = Turn(check_flow, parts or parts_with(), saved=saved, **(settings or {}))
    return await turn.enter(drafts=[draft(plan) for plan in plans], **state)


def brief(todos):
    return [(one["id"], one["status"]) for one in todos]


@pytest.mark.req("S2-06")
async def test_an_unsound_plan_goes_back_with_every_finding_and_changes_nothing():
    todos = steps(A, done={"a": "found"})
    turn = await checked(BAD, todos=todos)
    state = turn.state
    assert (state["planning"], state["halt"]) == ("again", None)
    findings = " ".join(state["drafts"][0]["findings"])
    assert "lok" in findings
    assert "look" in findings, "the nearest tool is named"
    assert "{{x.y}}" in findings
    assert (state["todos"], state["plan"], state["prints"]) == (todos, {}, [])
    (event,) = turn.events
    assert (event["type"], event["round"]) == ("flaws", 1)
    assert event["findings"] == state["drafts"][0]["findings"]


@pytest.mark.req("S2-30")
async def test_finished_steps_are_carried_into_the_new_plan_and_not_run_again():
    todos = steps(A, B, done={"a": "found"})
    todos[1] |= {"status": "failed", "failure": "timeout"}
    renamed = {**A, "id": "first"}
    other = step("c", "put", arguments={"what": ["{{first}}"]})
    error = {"status": "error", "result": "down"}
    evidence = [{"id": "c.4.0", "task": "c", "tool": "put", "arguments": {}, **error}]
    state = (await checked(flow(renamed, other), todos=todos, evidence=evidence)).state
    assert brief(state["todos"]) == [("first", "completed"), ("c", "pending")]
    assert state["todos"][0]["result"] == "found"
    assert state["todos"][1]["rounds"] == 4, "ids of calls are never used twice"


@pytest.mark.req("P-31")
async def test_the_same_plan_again_ends_the_turn_as_stuck_under_other_ids_and_words_too():
    turn = await checked(flow(A, B))
    prints, todos = turn.state["prints"], steps(A, B, done={"a": "found"})
    other = flow(
        {**A, "id": "x", "description": "other words"},
        {**B, "id": "y", "arguments": {"what": "{{x}}"}},
    )
    for plan in (other, flow(B)):
        state = (await checked(plan, prints=prints, todos=todos)).state
        assert state["halt"] == "SAME_PLAN"
        assert "was not run again" in state["unmet"][0]
        assert brief(state["todos"]) == brief(todos)


async def test_a_plan_waits_for_its_review_and_hooks_hear_of_it():
    heard = []
    parts = parts_with(hooks=[Hook(event="Notification", run=heard.append)])
    state = (await checked(flow(A), parts=parts, settings={"review_plan": True})).state
    assert (state["planning"], state["halt"]) == ("review", None)
    (told,) = heard
    assert told["notification_type"] == "PlanReview"
    assert brief(told["details"]["todos"]) == [("a", "pending")]
