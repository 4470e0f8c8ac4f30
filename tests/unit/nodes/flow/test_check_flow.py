"""A draft is proven sound and taken, or sent back with all that is wrong; nothing is run."""

import pytest

from loopwright import Hook
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.nodes.flow.check_flow import check_flow
from support.flow_nodes import Turn, drafts, parts_with
from support.flow_steps import steps
from support.flows import flow, of_type, step

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


@pytest.mark.req("S2-06", "S2-08")
async def test_a_sound_plan_is_taken():
    turn = await checked(flow(A, B, planId="p7", globalVariables={"x": 1}))
    state = turn.state
    assert (state["planning"], state["halt"], state["drafts"]) == ("ready", None, [])
    assert brief(state["todos"]) == [("a", "pending"), ("b", "pending")]
    assert (state["plan"]["plan_id"], state["plan"]["global_variables"]) == ("p7", {"x": 1})
    assert "steps" not in state["plan"]
    (event,) = turn.events
    assert (event["type"], event["round"], brief(event["todos"])) == (
        "plan", 1, brief(state["todos"]),
    )  # fmt: skip


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


async def test_an_answer_that_is_no_plan_goes_back_with_its_own_findings():
    turn = await Turn(check_flow, parts_with()).enter(drafts=drafts(("no", ["no JSON object"])))
    assert turn.state["planning"] == "again"
    assert of_type(turn.events, "flaws")[0]["findings"] == ["no JSON object"]


async def test_the_third_unsound_plan_ends_the_turn_with_what_is_wrong():
    turn = Turn(check_flow, parts_with())
    many = [f"finding {n}" for n in range(13)]
    state = (await turn.enter(drafts=drafts(("1", ["a"]), ("2", ["b"]), ("3", many)))).state
    assert state["halt"] == "ERROR"
    first, *told = state["unmet"]
    assert "No plan that can run was made in 3 attempts" in first
    assert told == [*many[:10], "and 3 more"]
    assert state["todos"] == []


@pytest.mark.req("S2-30")
async def test_finished_steps_are_carried_into_the_new_plan_and_not_run_again():
    todos = steps(A, B, done={"a": "found"})
    todos[1] |= {"status": "failed", "failure": "timeout"}
    renamed = {**A, "id": "first"}
    other = step("c", "put", arguments={"what": ["{{first}}"]})
    evidence = [{"id": "c.4.0", "task": "c", "tool": "put", "arguments": {}, "status": "error"}]
    state = (await checked(flow(renamed, other), todos=todos, evidence=evidence)).state
    assert brief(state["todos"]) == [("first", "completed"), ("c", "pending")]
    assert state["todos"][0]["result"] == "found"
    assert state["todos"][1]["rounds"] == 4, "ids of calls are never used twice"


@pytest.mark.req("S2-30")
async def test_a_plan_may_refer_to_a_finished_step_that_it_leaves_out():
    todos = steps(A, B, done={"a": "found"})
    again = step("b", "put", arguments={"what": ["{{a}}"]})
    state = (await checked(flow(again), todos=todos)).state
    assert brief(state["todos"]) == [("a", "completed"), ("b", "pending")]


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


@pytest.mark.parametrize(
    "change",
    [{"optional": True}, {"timeout": 30}, {"retryCount": 2}, {"expect": "of exists"}],
    ids=str,
)
async def test_a_plan_that_only_changes_how_a_step_may_fail_is_another_one(change):
    """More time, or a step called optional, may be all that was missing."""
    prints = (await checked(flow(A, B))).state["prints"]
    state = (await checked(flow({**A, **change}, B), prints=prints)).state
    assert state["planning"] == "ready"
    assert len(state["prints"]) == 2


async def test_a_second_plan_of_the_turn_says_that_it_is_the_second():
    turn = await checked(flow(A), prints=["another"])
    assert [event["round"] for event in of_type(turn.events, "plan")] == [2]


async def test_a_plan_waits_for_its_review_and_hooks_hear_of_it():
    heard = []
    parts = parts_with(hooks=[Hook(event="Notification", run=heard.append)])
    state = (await checked(flow(A), parts=parts, settings={"review_plan": True})).state
    assert (state["planning"], state["halt"]) == ("review", None)
    (told,) = heard
    assert told["notification_type"] == "PlanReview"
    assert brief(told["details"]["todos"]) == [("a", "pending")]


async def test_hooks_hear_nothing_of_a_plan_nobody_reviews():
    heard = []
    parts = parts_with(hooks=[Hook(event="Notification", run=heard.append)])
    assert (await checked(flow(A), parts=parts)).state["planning"] == "ready"
    assert heard == []


@pytest.mark.parametrize(("saved", "interactive"), [(False, True), (True, False)])
async def test_a_plan_to_review_does_not_run_where_nobody_can_be_asked(saved, interactive):
    settings = {"review_plan": True, "interactive": interactive}
    state = (await checked(flow(A), saved=saved, settings=settings)).state
    assert state["halt"] == "NOT_INTERACTIVE"
    assert "nobody can be asked" in state["unmet"][0]
    assert brief(state["todos"]) == [("a", "pending")]


async def test_a_plan_with_nothing_left_to_do_needs_no_review():
    todos = steps(A, done={"a": "found"})
    state = (await checked(flow(A), settings={"review_plan": True}, todos=todos)).state
    assert state["planning"] == "ready"


async def test_a_plan_longer_than_allowed_is_unsound():
    state = (await checked(flow(A, B), settings={"max_steps": 1})).state
    assert "at most 1" in state["drafts"][0]["findings"][0]


async def test_servers_that_are_gone_are_told():
    gone = {"mcpServers": {"gone": {"command": "/nonexistent/server"}}}
    state = (await checked(flow(A), parts=parts_with(mcp=gone))).state
    assert any("gone" in text for text in state["warnings"])
