"""A plan that the program hands in, perhaps with variables: no model plans, the rest is equal."""

import datetime
import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, SettingsError, build_prompt_flow
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.graphs.registry import REGISTRY
from loopwright.run.client_access import PLAN
from loopwright.state.flow import FlowInput
from support.flows import (
    DOWN,
    THREAD,
    World,
    asked,
    asking,
    decide,
    ended,
    flow,
    look,
    planning,
    put,
    roles,
    said,
    step,
    told_to,
)
from support.short_plans import short_of

CITY = flow(look("a", "{{global.city}}"), look("b", "{{a.of}} in {{global.year}}"),
            globalVariables={"year": 2025})  # fmt: skip
ODD = "{{s1.x}} {{a}} \\{{ {{global.year}} }} {"


def told(outcome: Any) -> str:
    return " ".join(outcome["unmet"])


SPELLINGS: dict[str, Any] = {
    "short": lambda plan: short_of(ExecutionPlan.model_validate(plan)),
    "object": lambda plan: plan,
    "text": json.dumps,
    "ExecutionPlan": ExecutionPlan.model_validate,
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_plan_built_in_is_followed_without_asking_a_model_for_one(spell):
    world, model = World(), planning()
    graph = world.graph(model, plan=spell(CITY))
    for city in ("Ulm", "Bonn"):
        outcome = graph.invoke(said() | {"variables": {"city": city}})["outcome"]
        assert ended(outcome) == ("complete", "GOAL")
    assert world.done("look") == ["Ulm", "Ulm in 2025", "Bonn", "Bonn in 2025"]
    assert roles(model) == ["answerer"] * 2


@pytest.mark.parametrize("spell", [SPELLINGS["object"], SPELLINGS["text"]])
def test_a_plan_in_the_input_is_for_its_request_alone(spell):
    world, model = World(), planning(flow(look("z", "planned")))
    graph = world.graph(model, checkpointer=InMemorySaver())
    given = {"execution_plan": spell(flow(look("a", "given")))}
    assert ended(graph.invoke(said() | given, THREAD)["outcome"]) == ("complete", "GOAL")
    graph.invoke(said("And now something else."), THREAD)
    assert world.done("look") == ["given", "planned"]
    assert roles(model) == ["answerer", "flow_planner", "answerer"]


def test_it_comes_before_the_one_that_is_built_in_and_may_be_a_typed_input():
    world, model = World(), planning()
    graph = world.graph(model, plan=CITY)
    plan = flow(look("a", "{{global.n}}"))
    given = FlowInput(**said(), execution_plan=plan, variables={"n": 3})
    assert ended(graph.invoke(given)["outcome"]) == ("complete", "GOAL")
    assert world.done("look") == [3], "a value keeps its type"


@pytest.mark.parametrize("value", [ODD, {"x": [ODD]}, "", None, 0, False, "{{global.city}}"])
def test_a_value_is_put_in_as_it_is_and_never_expanded(value):
    world = World()
    plan = flow(look("a", "{{global.city}}"), look("b", {"of": "{{a.of}}"}))
    outcome = world.graph(planning(), plan=plan).invoke(said() | {"variables": {"city": value}})
    assert ended(outcome["outcome"]) == ("complete", "GOAL")
    assert world.done("look") == [value, {"of": value}]


def test_a_list_may_come_with_the_input_and_no_item_of_it_is_expanded():
    world = World()
    each = step("e", forEach="{{global.rows}}", arguments={"what": "{{item}} {{global.tail}}"})
    values = {"rows": ["a", "{{global.tail}}"], "tail": "{{item}} {{e}}"}
    outcome = world.graph(planning(), plan=flow(each)).invoke(said() | {"variables": values})
    assert ended(outcome["outcome"]) == ("complete", "GOAL")
    assert sorted(world.done("look")) == ["a {{item}} {{e}}", "{{global.tail}} {{item}} {{e}}"]


def test_a_variable_that_only_a_condition_reads_is_one_of_the_plan():
    world = World()
    graph = world.graph(planning(), plan=flow(look("a", 1, when="global.mode == fast")))
    for mode, calls in (("slow", []), ("fast", [1])):
        outcome = graph.invoke(said() | {"variables": {"mode": mode}})["outcome"]
        assert ended(outcome) == ("complete", "GOAL")
        assert world.done("look") == calls
    assert ended(graph.invoke(said())["outcome"]) == ("blocked", "MISSING_INFORMATION")


@pytest.mark.parametrize(
    ("variables", "end", "words"),
    [
        (None, ("blocked", "MISSING_INFORMATION"), "'city'"),
        ({}, ("blocked", "MISSING_INFORMATION"), "'city'"),
        ({"year": 1}, ("blocked", "MISSING_INFORMATION"), '{"variables": {"city": '),
        ({"city": "Ulm", "yaer": 1}, ("failed", "ERROR"), "did you mean 'year'?"),
        ({"city": "Ulm", "": 1}, ("failed", "ERROR"), "no variable ''"),
        (["Ulm"], ("failed", "ERROR"), "`variables` is a list"),
        ({"city": datetime.date(2026, 1, 1)}, ("failed", "ERROR"), "no JSON"),
        ({"city": float("nan")}, ("failed", "ERROR"), "no JSON"),
    ],
)
def test_variables_that_do_not_fit_the_plan_end_the_turn_with_a_sentence(variables, end, words):
    world, model = World(), planning()
    given = {} if variables is None else {"variables": variables}
    outcome = world.graph(model, plan=CITY).invoke(said() | given)["outcome"]
    assert ended(outcome) == end
    assert words in told(outcome)
    assert (world.calls, roles(model)) == ([], [])


def test_a_plan_that_reads_all_variables_takes_any():
    world = World()
    graph = world.graph(planning(), plan=flow(look("a", "{{global}}")))
    graph.invoke(said() | {"variables": {"x": 1, "y": "{{z}}"}})
    assert world.done("look") == [{"x": 1, "y": "{{z}}"}]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"steps": []}, "no steps"),
        ({"steps": [{"id": "a", "tool": "nope"}]}, "no tool 'nope'"),
        (flow(look("a", "{{b.x}}")), "{{b.x}}"),
        (flow({**look("a", 1), "needs": ["b"]}), "needs"),
        ({"steps": "all of them"}, "ID = TOOL("),
        ("do this, then that", "JSON"),
        (17, "int"),
        ([], "list"),
    ],
)
def test_a_plan_that_cannot_run_ends_the_turn_and_no_model_mends_it(plan, words):
    world, model = World(), planning()
    outcome = world.graph(model).invoke(said() | {"execution_plan": plan})["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert words in told(outcome)
    assert (world.calls, roles(model)) == ([], [])


@pytest.mark.parametrize("plan", ["do this", 17, {"steps": 3}, {"steps": [{"id": "a"}]}])
def test_what_can_be_read_as_no_plan_at_all_is_refused_when_the_graph_is_built(plan):
    with pytest.raises(SettingsError, match="plan= cannot be read: "):
        build_prompt_flow(plan=plan)


def test_variables_without_a_plan_would_reach_nobody():
    outcome = World().graph(planning()).invoke(said() | {"variables": {"x": 1}})["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert "without a plan" in told(outcome)


@pytest.mark.parametrize("built_in", [True, False])
def test_what_the_policy_denies_a_plan_of_the_program_cannot_do_either(built_in):
    world, model, plan = World(), planning(), flow(put("w", 1))
    graph = world.graph(model, policy="deny", plan=plan if built_in else None)
    outcome = graph.invoke(said() | ({} if built_in else {PLAN: plan}))["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert world.done("put") == []


def test_it_is_asked_about_reviewed_and_bounded_like_any_other():
    world, model = World(), planning()
    graph = asking(world, model, plan=flow(put("w", "{{global.n}}")))
    question = asked(graph.invoke(said() | {"variables": {"n": 7}}, THREAD))
    assert question["action_requests"][0]["args"] == {"what": 7}
    graph.invoke(Command(resume="approve"), THREAD)
    assert world.done("put") == [7]
    many = flow(*(look(f"s{n}", n) for n in range(3)))
    outcome = world.graph(planning(), plan=many).invoke(said(), context=Context(max_steps=2))
    assert "at most 2" in told(outcome["outcome"])
    graph = world.graph(planning(), plan=many, checkpointer=InMemorySaver())
    result = graph.invoke(said(), THREAD, context=Context(review_plan=True))
    assert "Run this plan?" in asked(result)["action_requests"][0]["description"]


def test_another_plan_after_a_failure_has_the_same_values():
    world = World(down=DOWN)
    first = flow(look("a", "down"), look("b", "{{global.city}}"))
    second = flow(look("c", "in {{global.city}}"), globalVariables={"city": ODD})
    model = planning(second, recovery=[decide("replan_from_failure")])
    outcome = world.graph(model, plan=first).invoke(said() | {"variables": {"city": ODD}})
    assert ended(outcome["outcome"]) == ("complete", "GOAL")
    assert world.done("look")[-1] == f"in {ODD}"
    assert json.dumps(ODD)[1:-1] in told_to(model, "flow_planner")


def test_a_resume_begins_with_what_came_with_the_request_and_repeats_nothing():
    world = World(bad=[DOWN, DOWN, lambda: "fine"])
    given = {"execution_plan": flow(put("w", "{{global.n}}"), look("b", "bad")),
             "variables": {"n": 1}}  # fmt: skip
    model = planning(recovery=[decide("give_up")])
    graph = world.graph(model, checkpointer=InMemorySaver())
    assert ended(graph.invoke(said() | given, THREAD)["outcome"]) == ("failed", "ERROR")
    assert ended(graph.invoke(None, THREAD)["outcome"]) == ("complete", "GOAL")
    assert (world.done("put"), world.done("look")) == ([1], ["bad"] * 3)
    assert roles(model) == ["recovery", "answerer"]


@pytest.mark.parametrize("node", ["intake", "check_flow", "run_flow"])
def test_a_run_that_was_stopped_before_a_node_goes_on_with_the_plan(node):
    world, model = World(), planning()
    graph = world.graph(model, checkpointer=InMemorySaver())
    given = {"execution_plan": CITY, "variables": {"city": "Ulm"}}
    graph.invoke(said() | given, THREAD, interrupt_before=[node])
    assert world.calls == []
    assert ended(graph.invoke(None, THREAD)["outcome"]) == ("complete", "GOAL")
    assert world.done("look") == ["Ulm", "Ulm in 2025"]
    assert roles(model) == ["answerer"]


def test_a_client_of_a_server_may_give_values_and_no_plan():
    world, model = World(), planning()
    server = {"configurable": {"langgraph_auth_user": {"identity": "ada"}}}
    graph = world.graph(model, plan=CITY)
    with pytest.raises(SettingsError, match="may not hand in a plan"):
        graph.invoke(said() | {PLAN: flow(put("w", 1))}, server)
    outcome = graph.invoke(said() | {"variables": {"city": "Ulm"}}, server)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.calls == [("look", "Ulm"), ("look", "Ulm in 2025")]


def test_nor_where_a_server_loads_the_graph():
    served = REGISTRY["prompt_flow"].graph
    with pytest.raises(SettingsError, match="may not hand in a plan"):
        served.invoke(said() | {PLAN: flow(put("w", 1))})
    assert PLAN in set(FlowInput.__dataclass_fields__)
