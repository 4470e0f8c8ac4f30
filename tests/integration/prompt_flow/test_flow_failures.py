"""Steps of prompt_flow that fail, each in its way, and what the run makes of it."""

import asyncio

import pytest

from loopwright.nodes.flow import one_step
from support.flows import (
    DOWN,
    GOAL,
    World,
    decide,
    declared,
    ended,
    failing_once,
    flow,
    look,
    planning,
    raising,
    roles,
    said,
    step,
    steps_by_id,
    told_to,
)


@pytest.mark.req("W-22")
@pytest.mark.parametrize(
    "first", [DOWN, lambda: asyncio.sleep(30), lambda: {"rows": []}], ids=["error", "late", "odd"]
)
def test_a_read_is_repeated_once_before_anybody_is_asked(first):
    world = World(a=[first, lambda: {"rows": [1]}])
    plan = flow(look("a", "a", expect="rows is not empty", timeout=0.3))
    model = planning(plan)
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("look") == ["a", "a"]
    assert roles(model) == ["flow_planner", "answerer"]


@pytest.mark.req("W-22")
def test_a_write_in_doubt_goes_straight_to_the_planner_and_is_not_made_twice():
    sent: list[str] = []
    tool = declared(failing_once(sent, ConnectionResetError("gone")), name="send")
    model = planning(flow(step("s", "send", arguments={"text": "hi"})), flow(look("a", "a")))
    outcome = World().graph(model, tools=[tool]).invoke(said())["outcome"]
    assert roles(model) == ["flow_planner", "flow_planner", "answerer"]
    assert "may have taken effect" in told_to(model, "flow_planner", 1)
    assert sent == ["hi"]
    assert [call["task"] for call in outcome["uncertain_calls"]] == ["s"]


@pytest.mark.req("S2-13", "S2-25", "S2-27", "S2-28", "S2-48", "P-19")
def test_a_step_that_fails_ends_the_run_with_its_name_and_error():
    world = World(a=DOWN)
    plan = flow(step("a", arguments={"what": "a"}), step("b", arguments={"what": "{{a}}"}))
    model = planning(plan, recovery=[decide("give_up", "the line will stay down")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert roles(model) == ["flow_planner", "recovery"]
    told = " ".join(outcome["unmet"])
    assert "'a'" in told or "do a" in told
    assert "the line is down" in told
    assert "the line will stay down" in told
    assert "the line is down" in outcome["answer"]
    assert steps_by_id(outcome)["b"]["status"] == "pending"
    assert world.done("look") == ["a", "a"]
    asked = told_to(model, "recovery")
    assert "the line is down" in asked
    assert "tool_error" in asked


@pytest.mark.req("S2-29", "S2-42")
def test_recovery_may_have_the_step_tried_again():
    world = World(a=[DOWN, DOWN, lambda: "fine"])
    plan = flow(step("z", arguments={"what": "z"}), step("a", arguments={"what": "a"}))
    model = planning(plan, recovery=[decide("retry_step")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert sorted(world.done("look")) == ["a", "a", "a", "z"], "the finished step ran once"
    assert steps_by_id(outcome)["a"]["attempts"] == 3
    assert steps_by_id(outcome)["a"]["evidence"] == ["a.3.0"]


@pytest.mark.req("P-31")
def test_a_step_that_fails_the_same_way_under_another_plan_is_stuck():
    world = World(a=DOWN)
    plans = [flow(look("a", "a")), flow(look("a", "a"), look("b", "b"))]
    model = planning(*plans, recovery=[decide("replan_from_failure")] * 5)
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("stuck", "SAME_BLOCKERS")
    assert world.done("look").count("a") == 4
    assert roles(model) == ["flow_planner", "recovery", "flow_planner"]


@pytest.mark.req("S2-30", "S2-31", "S2-42", "P-31")
def test_another_plan_keeps_what_is_done():
    world = World(bad=DOWN)
    first = flow(
        step("a", arguments={"what": "a"}),
        step("w", "put", arguments={"what": "{{a.of}}"}),
        step("b", "look", ["w"], arguments={"what": "bad"}),
    )
    second = flow(
        step("x", arguments={"what": "a"}),
        step("y", "put", arguments={"what": "{{x.of}}"}),
        step("b", "look", ["y"], arguments={"what": "good {{y.put}}"}),
    )
    model = planning(first, second, recovery=[decide("replan_from_failure")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("look") == ["a", "bad", "bad", "good a"]
    assert world.done("put") == ["a"], "a finished write is not made again, whatever its step's id"
    again = told_to(model, "flow_planner", 1)
    assert '"failure": "tool_error"' in again
    assert "the line is down" in again, "the program's own tool says why"
    assert GOAL in again


@pytest.mark.req("P-31")
def test_the_same_plan_again_is_stuck_and_nothing_of_it_runs_again():
    world = World(bad=DOWN)
    plan = flow(step("a", arguments={"what": "a"}), step("b", arguments={"what": "bad"}))
    renamed = flow(step("q", arguments={"what": "bad"}), step("p", arguments={"what": "a"}))
    model = planning(plan, renamed, recovery=[decide("complete_replan")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("stuck", "SAME_PLAN")
    assert sorted(world.done("look")) == ["a", "bad", "bad"]
    assert outcome["unmet"]


@pytest.mark.req("S2-33", "P-31")
def test_replans_are_bounded_and_the_last_failure_is_told_as_one_after_a_replan():
    world = World(**{f"bad{i}": raising(ValueError(f"error {i}")) for i in range(9)})
    plans = [flow(step(f"s{i}", arguments={"what": f"bad{i}"})) for i in range(9)]
    wishes = ["replan_from_failure", "replan_from_failure", "complete_replan", "complete_replan"]
    model = planning(*plans, recovery=[decide(w) for w in wishes] * 3)
    outcome = world.graph(model).invoke(said())["outcome"]
    tried = [f"bad{i}" for i in range(4) for _ in range(2)]
    assert world.done("look") == tried, "two replans and a complete one"
    assert ended(outcome) == ("failed", "ERROR")
    assert any("error 3" in text and "After replanning" in text for text in outcome["unmet"])


@pytest.mark.req("S2-22", "P-30")
def test_a_missing_value_fails_the_step_and_never_becomes_an_empty_text():
    world = World(a={"x": 1})
    plan = flow(step("a", arguments={"what": "a"}), step("b", arguments={"what": "is {{a.y}}"}))
    outcome = world.graph(planning(plan, recovery=[decide("give_up")])).invoke(said())["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert world.done("look") == ["a"]
    told = " ".join(outcome["unmet"])
    assert "a.y" in told
    assert steps_by_id(outcome)["b"]["attempts"] == 0


@pytest.mark.req("S2-19")
def test_an_exception_of_ours_is_a_failure_of_the_step_alone(monkeypatch):
    world = World()

    def broken(value, results, variables):
        if value == {"what": "b"}:
            raise ZeroDivisionError("by accident")
        return value

    monkeypatch.setattr(one_step, "resolve_references", broken)
    plan = flow(step("a", arguments={"what": "a"}), step("b", arguments={"what": "b"}))
    model = planning(plan, recovery=[decide("give_up")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert steps_by_id(outcome)["a"]["status"] == "completed"
    assert "by accident" in " ".join(outcome["unmet"])
    assert "execution_error" in told_to(model, "recovery")


def test_a_step_that_takes_too_long():
    world = World(a=lambda: asyncio.sleep(30))
    plan = flow(step("a", arguments={"what": "a"}, timeout=0.1, retryCount=1))
    model = planning(plan, recovery=[decide("give_up")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert world.done("look") == ["a", "a"]
    assert "timeout" in told_to(model, "recovery")
    assert "did not answer" in " ".join(outcome["unmet"])


@pytest.mark.parametrize(
    ("expect", "word"),
    [
        ({"type": "object", "required": ["rows"]}, "rows"),
        ("n > 5", "n"),
        ("of == 'b'", "of"),
    ],
)
def test_a_result_of_the_wrong_shape_is_stopped_before_what_builds_on_it(expect, word):
    world = World()
    plan = flow(
        step("a", arguments={"what": "a"}, expect=expect),
        step("b", "put", arguments={"what": "{{a}}"}),
    )
    model = planning(plan, recovery=[decide("give_up")])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert world.done("put") == []
    asked = told_to(model, "recovery")
    assert "unexpected_result" in asked
    assert word in " ".join(outcome["unmet"])


@pytest.mark.req("S2-14")
def test_an_optional_step_may_fail_and_only_who_needs_its_result_is_left_out():
    world = World(bad=DOWN)
    plan = flow(
        step("a", arguments={"what": "bad"}, optional=True),
        step("needs", arguments={"what": "{{a}}"}),
        step("needs it too", "look", arguments={"what": "{{needs.of}}"}),
        step("follows", "look", ["a"], arguments={"what": "f"}),
    )
    plan["steps"][2]["id"] = "later"
    model = planning(plan)
    outcome = world.graph(model).invoke(said())["outcome"]
    steps = steps_by_id(outcome)
    assert {i: s["status"] for i, s in steps.items()} == {
        "a": "failed", "needs": "skipped", "later": "skipped", "follows": "completed",
    }  # fmt: skip
    assert ended(outcome) == ("partial", "GOAL")
    assert roles(model) == ["flow_planner", "answerer"]
    assert sorted(world.done("look")) == ["bad", "bad", "f"]
    assert any("a" in text for text in outcome["unmet"])


@pytest.mark.req("P-13")
def test_after_a_failure_nothing_more_is_changed_before_it_is_decided_on():
    world = World(bad=DOWN)
    plan = flow(
        step("a", arguments={"what": "bad"}),
        step("r", "slow", arguments={"name": "r", "seconds": 0.3}),
        step("w", "put", ["r"], arguments={"what": 1}),
        step("read", "look", ["r"], arguments={"what": "read"}),
    )
    outcome = world.graph(planning(plan, recovery=[decide("give_up")])).invoke(said())["outcome"]
    assert world.done("put") == []
    assert "read" in world.done("look"), "reads go on"
    assert ended(outcome) == ("failed", "ERROR")


def test_a_refused_step_ends_the_run_as_blocked_and_asks_no_model():
    world = World()
    model = planning(flow(step("a", "put", arguments={"what": 1})))
    outcome = world.graph(model, policy="deny").invoke(said())["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert world.done("put") == []
    assert roles(model) == ["flow_planner"]


def test_what_the_plan_leaves_out_of_the_goal_is_told_and_the_run_is_partial():
    plan = flow(step("a", arguments={"what": "a"}), leftOut=["send it to Ada: no tool sends mail"])
    outcome = World().graph(planning(plan)).invoke(said())["outcome"]
    assert ended(outcome) == ("partial", "GOAL")
    assert outcome["unmet"] == ["Not planned: send it to Ada: no tool sends mail"]


def test_without_a_model_a_goal_that_needs_one_ends_and_says_so():
    outcome = World().graph(None).invoke(said("Write me a poem"))["outcome"]
    assert ended(outcome) == ("blocked", "MISSING_INFORMATION")
    assert "LOOPWRIGHT_MODEL" in " ".join(outcome["unmet"])
