"""Steps that ask a model: what they are told, what may refuse them, and what comes of it."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from loopwright import Hook
from support.flows import (
    World,
    decide,
    ended,
    flow,
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
def test_a_hook_that_refuses_it_ends_the_run_as_blocked_and_nothing_is_tried_again(says):
    def guard(given):
        system = given["llm_request"]["messages"][0]["content"]
        return says if system.startswith("You are the llm_call") else None

    world = World()
    plan = flow(*about(retryCount=3)["steps"], put("w", "{{a}}"))
    model = planning(plan, llm_call=["Dear Sir"] * 4)
    graph = world.graph(model, hooks=[Hook(event="BeforeModel", run=guard)])
    outcome = graph.invoke(said())["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert "no letters" in outcome["unmet"][0]
    assert world.calls == []
    assert roles(model) == ["flow_planner"], "nobody is asked to get around a hook"
    assert steps_by_id(outcome)["a"]["attempts"] == 1


MOOD = {
    "type": "object",
    "properties": {"mood": {"enum": ["glad", "sad"]}, "n": {"type": "integer"}},
    "required": ["mood", "n"],
}


def shaped(schema=MOOD, what="{{a.n}}", **more):
    return flow(
        step("a", "llm_call", arguments={"prompt": "How is he?", "schema": schema}, **more),
        put("w", what),
    )


@pytest.mark.parametrize(
    ("schema", "says", "what", "sent"),
    [
        (MOOD, '{"mood": "glad", "n": 3}', "{{a.n}}", 3),
        (MOOD, 'Sure:\n```json\n{"mood": "glad", "n": 3}\n```', "{{a}}", {"mood": "glad", "n": 3}),
        (MOOD, "<think>{1}</think>{'mood': 'sad', 'n': 0,}", "{{a.n}}", 0),
        ({"type": "array", "items": {"type": "integer"}}, "[4, 5]", "{{a[1]}}", 5),
        ({"type": ["object", "null"]}, "null", "{{a}}", None),
        ({"type": "string"}, "007", "{{a}}", "007"),
    ],
)
def test_with_a_schema_the_answer_is_a_value_of_it(schema, says, what, sent):
    world, got = World(), []

    def keep(what: Any) -> str:
        """Keep."""
        got.append(what)
        return "kept"

    plan = flow(
        step("a", "llm_call", arguments={"prompt": "How is he?", "schema": schema}),
        step("k", "keep", arguments={"what": what}),
    )
    outcome = world.graph(planning(plan, llm_call=[says]), tools=[keep]).invoke(said())["outcome"]
    assert outcome["status"] == "complete", outcome
    assert (got, type(got[0])) == ([sent], type(sent))


def test_a_value_that_does_not_fit_is_asked_for_again_with_what_is_wrong():
    world = World()
    answers = ["He is fine.", '{"mood": "angry", "n": 1}', '{"mood": "sad", "n": 1}']
    model = planning(shaped(), llm_call=answers)
    outcome = world.graph(model).invoke(said())["outcome"]
    assert outcome["status"] == "complete"
    assert world.done("put") == [1]
    assert '"enum": ["glad", "sad"]' in told_to(model, "llm_call")
    assert "holds no JSON object" in told_to(model, "llm_call", 1)
    assert "angry" in told_to(model, "llm_call", 2)
    assert "one JSON value that fits the schema" in told_to(model, "llm_call", 2)
    assert outcome["spend"]["model_calls"] == 5


def test_an_answer_that_was_cut_is_no_value():
    cut = AIMessage('{"mood": "sad", "n": 1}', response_metadata={"finish_reason": "length"})
    model = planning(shaped(), llm_call=[cut] * 3, recovery=[decide("give_up")])
    assert ended(World().graph(model).invoke(said())["outcome"]) == ("failed", "ERROR")
