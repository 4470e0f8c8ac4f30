"""Steps that ask a model: what they are told, what may refuse them, and what comes of it."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, Hook, ScriptedModel
from support.flows import (
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
    steps_by_id,
    told_to,
)


@pytest.mark.req("S2-37")
def test_llm_call_asks_a_model_out_of_the_budget_of_the_run():
    world = World(facts="rain")
    plan = flow(
        step("a", arguments={"what": "facts"}),
        step("b", "llm_call", arguments={"prompt": "In one word: {{a}}"}),
        step("c", arguments={"what": "{{b.word}}"}),
    )
    model = planning(plan, llm_call=['```json\n{"word": "wet"}\n```'])
    outcome = world.graph(model).invoke(said())["outcome"]
    assert outcome["status"] == "complete"
    assert world.done("look") == ["facts", "wet"]
    assert told_to(model, "llm_call") == "In one word: rain"
    assert outcome["spend"]["model_calls"] == 3
    assert set(outcome["models"]) == {"flow_planner", "llm_call", "answerer"}


@pytest.mark.req("S2-37")
@pytest.mark.parametrize("thought", ["<think>he lies [s1]</think>", "<thinking>\nhe lies"])
def test_what_a_model_thinks_to_itself_goes_into_no_call(thought):
    plan = flow(
        step("a", "llm_call", arguments={"prompt": "Write to him."}),
        step("w", "put", arguments={"what": "{{a}}"}),
    )
    said_by_it = [f"{thought}</thinking>Dear Sir" if "\n" in thought else f"{thought}Dear Sir"]
    world = World()
    world.graph(planning(plan, llm_call=said_by_it)).invoke(said())
    assert world.done("put") == ["Dear Sir"]


@pytest.mark.req("S2-37")
def test_a_model_that_only_thinks_has_not_answered():
    plan = flow(step("a", "llm_call", arguments={"prompt": "Write to him."}))
    model = planning(plan, llm_call=["<think>he lies</think>"], recovery=[decide("give_up")])
    outcome = World().graph(model).invoke(said())["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert "gave no answer" in outcome["unmet"][0]


def about(prompt="Write to him.", **more):
    return flow(step("a", "llm_call", arguments={"prompt": prompt}, **more))


@pytest.mark.parametrize(
    "says",
    [
        {"decision": "deny", "reason": "no letters"},
        {"continue": False, "stopReason": "no letters"},
    ],
    ids=["denied", "stopped"],
)
@pytest.mark.parametrize("event", ["BeforeModel", "AfterModel"])
def test_a_hook_that_refuses_it_ends_the_run_as_blocked_and_nothing_is_tried_again(event, says):
    def guard(given):
        system = given["llm_request"]["messages"][0]["content"]
        return says if system.startswith("You are the llm_call") else None

    world = World()
    plan = flow(*about(retryCount=3)["steps"], put("w", "{{a}}"))
    model = planning(plan, llm_call=["Dear Sir"] * 4)
    graph = world.graph(model, hooks=[Hook(event=event, run=guard)])
    outcome = graph.invoke(said())["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert "no letters" in outcome["unmet"][0]
    assert world.calls == []
    asked = ["flow_planner", *["llm_call"] * (event == "AfterModel")]
    assert roles(model) == asked, "nobody is asked to get around a hook"
    assert steps_by_id(outcome)["a"]["attempts"] == 1


@pytest.mark.req("S2-14")
def test_a_refused_one_that_is_optional_is_left_out():
    def guard(given):
        system = given["llm_request"]["messages"][0]["content"]
        return {"decision": "deny"} if system.startswith("You are the llm_call") else None

    world = World()
    plan = flow(*about(optional=True)["steps"], put("w", "as it is"))
    graph = world.graph(planning(plan), hooks=[Hook(event="BeforeModel", run=guard)])
    assert ended(graph.invoke(said())["outcome"]) == ("partial", "GOAL")
    assert world.done("put") == ["as it is"]


@pytest.mark.req("P-08")
def test_a_model_that_stood_in_for_another_is_named():
    model = planning(about())
    first, other = (
        ScriptedModel({"llm_call": [ConnectionError("gone")]}),
        planning(llm_call=["Sir"]),
    )
    given = {"flow_planner": model, "answerer": model, "balanced": first, "powerful": other}
    graph = World().graph(given, checkpointer=InMemorySaver())
    outcome = graph.invoke(said(), THREAD, context=Context(model_retries=0))["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert steps_by_id(outcome)["a"]["result"] == "Sir"
    (told,) = graph.get_state(THREAD).values["warnings"]
    assert told.startswith("The llm_call's model ")
    assert "did not answer (ConnectionError)" in told
    assert "was asked instead" in told


@pytest.mark.req("S2-25")
def test_a_model_that_does_not_answer_at_all_is_a_failure_of_its_step():
    model = planning(
        flow(*about()["steps"], look("r", "r")),
        llm_call=[ConnectionError("gone")], recovery=[decide("give_up")],
    )  # fmt: skip
    world = World()
    outcome = world.graph(model).invoke(said(), context=Context(model_retries=0))["outcome"]
    assert ended(outcome) == ("failed", "ERROR")
    assert "gone" in outcome["unmet"][0]
    assert world.done("look") == ["r"]
