"""The plan is shown before it runs, with what changed; the answer runs it, edits it or sends it
back."""

import pytest

from loopwright.flow.execution_plan import ExecutionPlan, PlanStep
from loopwright.nodes.flow.check_flow import adopt_plan, check_flow
from loopwright.nodes.flow.review_flow import as_planned, review_flow
from loopwright.state.flow import FlowState
from loopwright.tools.catalog import Catalog
from support.flow_nodes import Turn, parts_with
from support.flow_steps import EVERY_FIELD, steps
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
    _, update = adopt_plan(ExecutionPlan.model_validate(plan), before, Catalog({}))
    taken = {**update, "todos": update["todos"].value, "planning": "review"}
    return taken | {k: v for k, v in state.items() if k not in taken}


async def shown(plan=PLAN, /, **state):
    return await Turn(review_flow, parts_with()).enter(**reviewed(plan, **state))


def args_of(turn):
    return turn.asked["action_requests"][0]["args"]


def brief(todos):
    return [(one["id"], one["tool"], one["status"]) for one in todos]


async def test_the_question_says_what_the_plan_leaves_out_and_an_edit_may_change_it():
    turn = await shown({**PLAN, "leftOut": ["call Ada"]})
    assert args_of(turn)["leftOut"] == ["call Ada"]
    assert turn.asked["description"].endswith("\n\nIt leaves out:\ncall Ada")
    kept = (await turn.answer({"type": "edit", "args": {"steps": PLAN["steps"]}})).state
    assert kept["plan"]["left_out"] == ["call Ada"]
    turn = await shown({**PLAN, "leftOut": ["call Ada"]})
    dropped = await turn.answer({"type": "edit", "args": {**args_of(turn), "leftOut": []}})
    assert dropped.state["plan"]["left_out"] == []


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
        ({"steps": [step("a", arguments={"what": "{{q}}"})]}, "{{q}}"),
        ({"steps": []}, "no steps"),
        ({"steps": "[{,"}, "steps.0"),
        ({"steps": [{"tool": "look"}]}, "steps.0.id"),
        ({"steps": [A], "globalVariables": {}}, "{{global.city}}"),
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


async def test_what_is_finished_is_shown_apart_and_cannot_be_edited_into_running_again():
    todos = steps(A, B, done={"a": "found"})
    turn = await shown(todos=todos, plan={"global_variables": {"city": "Ulm"}})
    args = args_of(turn)
    assert [one["id"] for one in args["steps"]] == ["b"]
    assert args["finished"] == [{"id": "a", "description": "do a", "tool": "look"}]
    edit = {"steps": [step("b", "put", arguments={"what": "{{a}}"})]}
    state = (await turn.answer({"type": "edit", "args": edit})).state
    assert ("a", "look", "completed") in brief(state["todos"])
    assert ("b", "put", "pending") in brief(state["todos"])


@pytest.mark.req("P-20")
@pytest.mark.parametrize("planned", [EVERY_FIELD, {"id": "a", "tool": "look"}], ids=["all", "none"])
def test_every_field_of_a_step_can_be_sent_back_as_it_was_planned(planned):
    """A field that PlanStep gets and the view forgets would be lost with every edit."""
    before = PlanStep.model_validate(planned)
    if planned is EVERY_FIELD:
        assert set(before.model_dump(exclude_defaults=True)) == set(PlanStep.model_fields)
    (shown,) = as_planned(steps(planned))
    assert PlanStep.model_validate(shown) == before
