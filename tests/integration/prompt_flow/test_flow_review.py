"""The plan of tool calls is shown before it runs: approved, edited, sent back; on whole runs."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context
from loopwright.prompts.prompt import read_section
from support.flows import (
    THREAD,
    World,
    decide,
    ended,
    flow,
    planning,
    raising,
    roles,
    said,
    step,
    steps_by_id,
)
from support.front_ends import (
    chat_ui_drops,
    chat_ui_sends,
    chat_ui_shows,
    inbox_sends,
    inbox_shows,
    new_inbox_sends,
)

REVIEW = Context(review_plan=True)
A = step("a", arguments={"what": "a"})
W = step("w", "put", arguments={"what": "{{a.of}}"})
PLAN = flow(A, W)


def asked(result):
    (question,) = [one.value for one in result["__interrupt__"]]
    assert chat_ui_shows(question)
    assert inbox_shows(question)
    return question


def args_of(question):
    assert question["action_request"]["action"] == "review_flow"
    return question["action_request"]["args"]


class Review:
    """A run whose plans are shown before they run."""

    def __init__(self, *plans, world=None, **more):
        scripts = {key: more.pop(key) for key in ("recovery",) if key in more}
        self.world = world or World()
        self.model = planning(*plans, **scripts)
        self.graph = self.world.graph(self.model, checkpointer=InMemorySaver(), **more)
        self.result = self.graph.invoke(said(), THREAD, context=REVIEW)

    def answer(self, answer):
        self.result = self.graph.invoke(Command(resume=answer), THREAD, context=REVIEW)
        return self

    @property
    def question(self):
        return asked(self.result)

    @property
    def ended(self):
        return ended(self.result["outcome"])

    def asked_planner(self):
        asks = [a for a in self.model.asked if a.role == "flow_planner"]
        return [next(m.text for m in a.messages if m.type == "human") for a in asks]


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    "sends",
    [
        lambda q: "approve",
        lambda q: chat_ui_sends(q, "approve"),
    ],
    ids=["text", "chat ui"],
)
def test_nothing_runs_before_the_plan_is_approved(sends):
    run = Review(PLAN)
    assert [one["id"] for one in args_of(run.question)["steps"]] == ["a", "w"]
    assert run.world.calls == []
    assert run.answer(sends(run.question)).ended == ("complete", "GOAL")
    assert run.world.calls == [("look", "a"), ("put", "a")]
    assert roles(run.model) == ["flow_planner", "answerer"]


@pytest.mark.req("P-20")
@pytest.mark.parametrize("sends", [chat_ui_sends, inbox_sends, new_inbox_sends])
def test_an_edit_adds_a_step_and_it_runs(sends):
    run = Review(PLAN)
    steps = [*args_of(run.question)["steps"], step("z", arguments={"what": "{{w.put}}!"})]
    assert run.answer(sends(run.question, "edit", {"steps": steps})).ended == ("complete", "GOAL")
    assert run.world.calls == [("look", "a"), ("put", "a"), ("look", "a!")]
    assert roles(run.model) == ["flow_planner", "answerer"], "an edit costs no model call"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([A, step("w", "putt", arguments={"what": 1})], ["putt", "put"]),
        ([step("a", "look", ["w"]), step("w", "put", ["a"], arguments={"what": 1})], ["circle"]),
        ([], ["no steps"]),
        ([step("a", "lok"), step("a", "look", ["q"])], ["lok", "'q'", "'a'"]),
    ],
    ids=["unknown tool", "circle", "empty", "several at once"],
)
def test_an_edit_that_cannot_run_is_asked_about_again_with_all_that_is_wrong(steps, words):
    run = Review(PLAN)
    run.answer({"type": "edit", "args": {"steps": steps}})
    problems = " ".join(args_of(run.question)["problems"])
    assert [word for word in words if word not in problems] == []
    assert args_of(run.question)["problems"][0] in run.question["description"]
    assert run.world.calls == []
    assert chat_ui_drops(run.graph.get_state(THREAD).values) == []
    assert run.answer("approve").ended == ("complete", "GOAL")
    assert run.world.calls == [("look", "a"), ("put", "a")], "the plan as it was shown"
    assert roles(run.model) == ["flow_planner", "answerer"]


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    "sends",
    [
        lambda q: "reject: twice, please",
        lambda q: chat_ui_sends(q, "reject", "twice, please"),
    ],
    ids=["reject", "chat ui"],
)
def test_a_rejection_with_a_reason_goes_to_the_planner_and_the_next_review_shows_the_difference(
    sends,
):
    other = flow(A, {**W, "arguments": {"what": ["{{a.of}}", 2]}}, step("z", "put", ["w"],
                 arguments={"what": "again"}))  # fmt: skip
    run = Review(PLAN, other)
    assert "changes" not in args_of(run.question)
    run.answer(sends(run.question))
    assert run.world.calls == []
    first, second = run.asked_planner()
    assert "twice, please" not in first
    assert "twice, please" in read_section(second, "improvements")
    changes = args_of(run.question)["changes"]
    assert any(line.startswith("+ z: put") for line in changes)
    assert any(line.startswith("~ w: arguments") for line in changes)
    assert not any("a:" in line for line in changes)
    assert changes[0] in run.question["description"]
    assert run.answer("approve").ended == ("complete", "GOAL")
    assert run.world.done("put") == [["a", 2], "again"]


@pytest.mark.req("P-31")
def test_a_rejected_plan_that_comes_back_is_not_shown_again():
    run = Review(PLAN, PLAN).answer("reject: something else")
    assert run.ended == ("stuck", "SAME_PLAN")
    assert run.world.calls == []


def test_an_unsound_plan_is_never_shown():
    bad = flow(step("a", "lok"))
    run = Review(bad, PLAN)
    assert [one["tool"] for one in args_of(run.question)["steps"]] == ["look", "put"]
    assert len(run.asked_planner()) == 2


@pytest.mark.req("S2-30")
def test_a_replan_is_shown_too_with_what_is_finished_apart():
    world = World(bad=raising(ValueError("the line is down")))
    first = flow(A, W, step("b", "look", ["w"], arguments={"what": "bad"}))
    second = flow(A, W, step("b", "look", ["w"], arguments={"what": "good"}))
    run = Review(first, second, world=world, recovery=[decide("replan_from_failure")])
    run.answer("approve")
    args = args_of(run.question)
    assert [one["id"] for one in args["steps"]] == ["b"]
    assert [one["id"] for one in args["finished"]] == ["a", "w"]
    assert args["changes"] == ['~ b: arguments {"what":"bad"} → {"what":"good"}']
    assert world.done("put") == ["a"]
    edit = {"steps": [{**args["steps"][0], "arguments": {"what": "{{w.put}} is better"}}]}
    assert run.answer({"type": "edit", "args": edit}).ended == ("complete", "GOAL")
    assert world.done("put") == ["a"], "what is finished does not run again"
    assert world.done("look")[-1] == "a is better"


def test_with_nobody_to_review_the_run_is_blocked_and_nothing_runs():
    world, model = World(), planning(PLAN)
    outcome = world.graph(model).invoke(said(), context=REVIEW)["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "NOT_INTERACTIVE")
    assert "review" in " ".join(outcome["unmet"])
    assert world.calls == []
    assert roles(model) == ["flow_planner"]


@pytest.mark.parametrize(
    "args",
    [
        {"steps": "[{"},
        {"steps": [None, 7, "x"]},
        {"steps": [{"id": {}, "tool": []}]},
        {"goal": 7, "steps": [{**A, "arguments": "{{{{"}]},
        {"steps": json.loads("[" * 50 + "]" * 50)},
    ],
    ids=str,
)
def test_a_hostile_edit_is_asked_about_again(args):
    run = Review(PLAN)
    run.answer({"type": "edit", "args": args})
    assert args_of(run.question)["problems"]
    assert run.world.calls == []
    assert run.answer("approve").ended == ("complete", "GOAL")


def test_reviews_and_approvals_of_single_calls_come_one_after_the_other():
    run = Review(PLAN, policy=[{"tool": "put", "action": "ask"}])
    run.answer("approve")
    assert run.question["task"] == "w"
    assert run.world.calls == [("look", "a")]
    assert run.answer("approve").ended == ("complete", "GOAL")
    assert steps_by_id(run.result["outcome"])["w"]["status"] == "completed"
