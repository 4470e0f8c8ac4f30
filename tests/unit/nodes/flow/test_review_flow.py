"""The plan is shown before it runs, with what changed; the answer runs it, edits it or sends it
back."""

import pytest

from loopwright.calls.policy import Policy
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.nodes.flow.check_flow import adopt_plan, check_flow
from loopwright.nodes.flow.review_flow import review_flow
from loopwright.state.flow import FlowState
from loopwright.tools.catalog import Catalog
from support.flow_nodes import Turn, parts_with
from support.flows import flow, of_type, step
from support.front_ends import (
    chat_ui_sends,
    inbox_sends,
    new_inbox_sends,
)

A = step("a", arguments={"what": "{{global.city}}"}, retryCount=1)
B = step("b", "put", ["a"], arguments={"what": "b"}, expect="put exists", optional=True)
PLAN = flow(A, B, globalVariables={"city": "Ulm"}, planId="p7")


def reviewed(plan=PLAN, /, **state):
    """The state of a turn whose plan waits for its review."""
    before = FlowState(**{k: v for k, v in state.items() if k in ("todos", "prints", "plan")})
    _, update = adopt_plan(
        ExecutionPlan.model_validate(plan), before, Catalog({}), Policy(), tainted=False
    )
    taken = {**update, "todos": update["todos"].value, "planning": "review"}
    return taken | {k: v for k, v in state.items() if k not in taken}


async def shown(plan=PLAN, /, **state):
    return await Turn(review_flow, parts_with()).enter(**reviewed(plan, **state))


def args_of(turn):
    return turn.asked["action_requests"][0]["args"]


def brief(todos):
    return [(one["id"], one["tool"], one["status"]) for one in todos]


@pytest.mark.req("P-31")
async def test_a_rejected_plan_that_comes_back_changed_is_shown_and_the_very_same_is_not():
    rejected = (await (await shown()).answer("reject: c, please")).state
    carried = {k: rejected[k] for k in ("todos", "prints", "plan", "reviewed", "improvements")}
    changed = flow(A, {**B, "optional": False}, globalVariables={"city": "Ulm"})
    for plan, planning, halt in ((changed, "review", None), (PLAN, "ready", "SAME_PLAN")):
        written = ExecutionPlan.model_validate(plan).model_dump()
        draft = {"text": "", "plan": written, "findings": []}
        turn = Turn(check_flow, parts_with(), review_plan=True)
        state = (await turn.enter(drafts=[draft], **carried)).state
        assert (state["planning"], state["halt"]) == (planning, halt)


@pytest.mark.parametrize("sends", [chat_ui_sends, inbox_sends, new_inbox_sends])
async def test_a_plan_can_be_edited_in_both_front_ends(sends):
    turn = await shown()
    kept, _ = args_of(turn)["steps"]
    fields = {"steps": [kept, {**step("z", arguments={"what": "{{a.of}}"})}]}
    state = (await turn.answer(sends(turn.asked, "edit", fields))).state
    assert state["planning"] == "ready"
    assert brief(state["todos"]) == [("a", "look", "pending"), ("z", "look", "pending")]
    assert state["plan"]["global_variables"] == {"city": "Ulm"}
    assert len(of_type(turn.events, "plan")) == 1


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"steps": [step("a", "lok")]}, "lok"),
        ({"steps": []}, "no steps"),
        ({"steps": [{"tool": "look"}]}, "steps.0.id"),
        ({}, "no steps"),
    ],
    ids=str,
)
async def test_an_edit_that_cannot_run_is_asked_about_again_with_what_is_wrong(edit, words):
    turn = await shown()
    before = turn.state["todos"]
    await turn.answer({"type": "edit", "args": edit})
    assert turn.asked is not None
    problems = args_of(turn)["problems"]
    assert words in " ".join(problems)
    assert problems[0] in turn.asked["description"]
    assert turn.state["todos"] == before, "nothing of it is taken"
    state = (await turn.answer("approve")).state
    assert (state["planning"], state["objection"], state["todos"]) == ("ready", [], before)
