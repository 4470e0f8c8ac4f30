"""A plan that the program hands in, perhaps with variables: no model plans, the rest is equal."""

import datetime
import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import SettingsError, build_prompt_flow
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.graphs.registry import REGISTRY
from loopwright.run.client_access import PLAN
from loopwright.state.flow import FlowInput
from support.flows import (
    DOWN,
    THREAD,
    World,
    decide,
    ended,
    flow,
    look,
    planning,
    put,
    roles,
    said,
    step,
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


@pytest.mark.parametrize("value", [{"x": [ODD]}, None, False])
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


@pytest.mark.parametrize(
    ("variables", "end", "words"),
    [
        (None, ("blocked", "MISSING_INFORMATION"), "'city'"),
        ({"year": 1}, ("blocked", "MISSING_INFORMATION"), '{"variables": {"city": '),
        ({"city": "Ulm", "yaer": 1}, ("failed", "ERROR"), "did you mean 'year'?"),
        (["Ulm"], ("failed", "ERROR"), "`variables` is a list"),
        ({"city": datetime.date(2026, 1, 1)}, ("failed", "ERROR"), "no JSON"),
    ],
)
def test_variables_that_do_not_fit_the_plan_end_the_turn_with_a_sentence(variables, end, words):
    world, model = World(), planning()
    given = {} if variables is None else {"variables": variables}
    outcome = world.graph(model, plan=CITY).invoke(said() | given)["outcome"]
    assert ended(outcome) == end
    assert words in told(outcome)
    assert (world.calls, roles(model)) == ([], [])


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"steps": []}, "no steps"),
        ({"steps": [{"id": "a", "tool": "nope"}]}, "no tool 'nope'"),
        ({"steps": "all of them"}, "ID = TOOL("),
        ("do this, then that", "JSON"),
        (17, "int"),
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


@pytest.mark.parametrize("built_in", [True, False])
def test_what_the_policy_denies_a_plan_of_the_program_cannot_do_either(built_in):
    world, model, plan = World(), planning(), flow(put("w", 1))
    graph = world.graph(model, policy="deny", plan=plan if built_in else None)
    outcome = graph.invoke(said() | ({} if built_in else {PLAN: plan}))["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert world.done("put") == []


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
