"""Plans, models and humans that lie or stumble: no end is better than it was, nothing runs that
was not meant, and no run holds the machine."""

import pytest

from loopwright import Context
from support.flows import (
    DOWN,
    REPLAN,
    World,
    citing,
    decide,
    ended,
    flow,
    planning,
    raising,
    roles,
    said,
    step,
    told_to,
)

# No end is better than it was.


@pytest.mark.req("S2-14")
@pytest.mark.parametrize(
    ("policy", "end"), [(None, ("stuck", "SAME_BLOCKERS")), ("deny", ("blocked", "DENIED"))]
)
def test_a_run_in_which_nothing_came_of_anything_is_no_success_though_all_was_optional(policy, end):
    model = planning(
        flow(step("a", arguments={"what": "down"}, optional=True)), answerer=["All is done."]
    )
    result = World(down=DOWN).graph(model, policy=policy).invoke(said())
    assert ended(result["outcome"]) == end
    assert roles(model) == ["flow_planner"], "there is nothing to answer from"
    assert "a (do a) failed" in result["outcome"]["answer"]


@pytest.mark.req("S2-33")
def test_a_new_plan_that_only_leaves_out_what_failed_does_not_complete_the_goal():
    a = step("a", arguments={"what": "abc"})
    plans = [flow(a, step("f", "put", arguments={"what": "{{a.nothing}}"})), flow(a)]
    model = planning(*plans, recovery=REPLAN)
    outcome = World().graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("partial", "GOAL")
    (unmet,) = outcome["unmet"]
    assert "f (do f) failed" in unmet
    assert "{{a.nothing}}" in unmet
    shown = told_to(model, "answerer")
    assert unmet in shown, "who answers is told"


def test_a_planner_that_writes_out_that_it_left_out_nothing_left_out_nothing():
    plan = flow(step("a", arguments={"what": "x"}), leftOut=["None", "n/a", "-", "Nothing."])
    outcome = World().graph(planning(plan)).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")


@pytest.mark.req("S2-18")
@pytest.mark.parametrize("name", ["load-and-clean", "a,b", "s1`"])
def test_every_id_that_a_plan_may_have_can_be_cited(name):
    model = planning(flow(step(name, arguments={"what": "v"})))
    result = World().graph(model).invoke(said())
    assert result["outcome"]["answer"] == f"It comes to this: [{name}]"
    assert roles(model) == ["flow_planner", "answerer"]


# Nothing runs that is not what was meant.


@pytest.mark.req("S2-06", "S2-20")
@pytest.mark.parametrize("what", [[{"x": {"{{a.of}} of": 1}}], {"{{global.x}}": 1}])
def test_a_reference_in_the_name_of_a_field_is_sent_back_and_never_sent_as_it_is(what):
    a = step("a", arguments={"what": "abc"})
    plans = [
        flow(a, step("w", "put", arguments={"what": what}), globalVariables={"x": 1}),
        flow(a, step("w", "put", arguments={"what": "{{a.of}}"})),
    ]
    world, model = World(), planning(*plans)
    world.graph(model).invoke(said())
    assert world.done("put") == ["abc"]
    assert "the field name" in model.asked[1].messages[-1].text


def test_a_template_of_somebody_else_is_a_field_name_like_any_other():
    world = World()
    plan = flow(step("w", "put", arguments={"what": {"{{customer.name}}": "A. B."}}))
    world.graph(planning(plan)).invoke(said())
    assert world.done("put") == [{"{{customer.name}}": "A. B."}]


# No run holds the machine.


def test_a_plan_that_doubles_its_data_at_every_step_fails_before_it_fills_the_memory():
    steps = [step("s0", arguments={"what": "x" * 20_000})]
    steps += [step(f"s{n}", arguments={"what": f"{{{{s{n - 1}.of}}}}" * 10}) for n in range(1, 10)]
    world = World()
    outcome = world.graph(planning(flow(*steps), recovery=[decide("give_up")])).invoke(said())[
        "outcome"
    ]
    assert ended(outcome) == ("failed", "ERROR")
    assert "20,000,000 characters" in outcome["unmet"][0]
    assert max(len(what) for what in world.done("look")) == 2_000_000


def test_one_list_in_many_places_counts_as_often_as_it_stands_there():
    rows = [{"n": n, "text": "y" * 90} for n in range(10_000)]
    plan = flow(
        step("a", arguments={"what": "rows"}), step("b", arguments={"what": ["{{a}}"] * 100})
    )
    world = World(rows=lambda: rows)
    outcome = world.graph(planning(plan, recovery=[decide("give_up")])).invoke(said())["outcome"]
    assert "at most 10,000,000" in outcome["unmet"][0]
    assert world.done("look") == ["rows"]


@pytest.mark.req("P-31")
@pytest.mark.parametrize("recovery", ["retry_step", "complete_replan", "nonsense"])
def test_however_a_recovery_insists_every_run_ends(recovery):
    errors = [raising(ValueError(f"error {n}")) for n in range(50)]
    plans = [flow(step("a", arguments={"what": "x"}, timeout=9 + n)) for n in range(50)]
    answer = recovery if recovery == "nonsense" else decide(recovery)
    model = planning(*plans, recovery=lambda *_: answer, answerer=citing)
    world = World(x=errors)
    outcome = world.graph(model).invoke(said(), context=Context(max_recoveries=20))["outcome"]
    assert outcome["status"] in {"failed", "exhausted"}
    assert len(world.calls) <= 12
    assert len(model.asked) <= 25
