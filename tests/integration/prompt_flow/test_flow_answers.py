"""What comes of an answer to a question about a step, and of none."""

import pytest

from support.flows import (
    THREAD,
    World,
    answer,
    asked,
    asking,
    ended,
    flow,
    look,
    planning,
    put,
    roles,
    said,
    steps_by_id,
)
from support.front_ends import chat_ui_sends


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    "sends",
    [lambda q: chat_ui_sends(q, "reject", "not today")],
)
def test_a_rejection_ends_the_run_as_blocked_and_names_what_is_done(sends):
    world = World()
    model = planning(flow(look("r", "r"), put("w1", 1), put("w2", 2), put("w3", 3)))
    graph = asking(world, model)
    graph.invoke(said(), THREAD)
    outcome = answer(graph, sends(asked(answer(graph))))["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert world.done("put") == [1]
    assert {i: t["status"] for i, t in steps_by_id(outcome).items()} == {
        "r": "completed", "w1": "completed", "w2": "failed", "w3": "pending",
    }  # fmt: skip
    assert "not today" in " ".join(outcome["unmet"])
    assert any("w3" in line for line in outcome["unmet"])
    assert "[w1]" in outcome["answer"], "what is done is told"
    assert roles(model) == ["flow_planner"], "no model can lift a rejection"


def test_words_take_the_place_of_a_step():
    world = World()
    graph = asking(world, planning(flow(put("w", 1), look("r", "{{w}}; {{w.sum}}"))))
    graph.invoke(said(), THREAD)
    outcome = answer(graph, 'respond: {"sum": 7}')["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == []
    assert world.done("look") == ['{"sum": 7}; 7']
    assert outcome["spend"]["tool_calls"] == 1


@pytest.mark.req("P-05")
def test_a_new_message_while_a_question_waits_makes_a_new_plan_and_the_old_call_is_never_made():
    world = World()
    model = planning(flow(look("r", "r"), put("w", "old")), flow(put("w", "new")))
    graph = asking(world, model)
    graph.invoke(said(), THREAD)
    question = asked(graph.invoke(said("Put the new one instead."), THREAD))
    assert question["action_request"]["args"] == {"what": "new"}
    assert world.done("put") == []
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.calls == [("look", "r"), ("put", "new")]


@pytest.mark.req("P-05")
def test_an_approval_of_an_old_question_does_not_approve_the_new_one():
    world = World()
    model = planning(flow(look("a", "a"), put("w", "old")), flow(put("x", "new")))
    graph = asking(world, model)
    old = asked(graph.invoke(said(), THREAD))
    graph.invoke(said("Put the new one instead."), THREAD)
    again = asked(answer(graph, {"type": "approve", "tool_call_id": old["tool_call_id"]}))
    assert again["task"] == "x"
    assert world.done("put") == []
