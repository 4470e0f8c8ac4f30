"""kill -9 in the middle of a plan, then a new message instead of a resume: nothing runs twice."""

import pytest
from langgraph.types import Command

from loopwright import Context, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json
from support import killed


@pytest.fixture
def world(tmp_path):
    """Task 1 has ended, task 2 was killed inside its call."""
    folder = tmp_path / "run"
    assert killed.finish(killed.start(folder, {"tool": "price", "recorded": 1}), folder) is None
    return killed.World(folder)


def say(world, durability, words="And now the facts, please.", **settings):
    model = killed.model_of(world, {})
    graph = build_plan_execute_verify(
        model=model, tools=killed.tools_of(world, {}), durability=durability,
        policy=[{"tool": "save", "action": "allow"}],
    )  # fmt: skip
    talk = {"messages": [{"role": "user", "content": words}]}
    result = graph.invoke(talk, killed.THREAD, context=Context(**settings))
    while questions := graph.get_state(killed.THREAD).interrupts:
        world.tell("questions", killed.in_doubt(questions[0].value) or "other")
        answer = killed.answer_to(questions[0].value["action_requests"][0]["name"])
        result = graph.invoke(Command(resume={questions[0].id: answer}), killed.THREAD)
    return result, model


@pytest.mark.req("P-06", "P-04")
def test_what_was_done_is_carried_over_and_what_is_in_doubt_is_asked_about(world):
    with open_durability(world.url) as durability:
        result, model = say(world, durability)
    assert result["outcome"]["status"] == "complete"
    calls = [line for _, line in world.lines("calls")]
    assert calls.count("owner") == 1
    assert calls.count("price") == 2  # the one in doubt, and again because a human said so
    assert "uncertain price" in [line for _, line in world.lines("questions")]
    planner = next(a for a in model.asked if a.role == "planner")
    before = {t["id"]: t for t in read_json(planner.messages[1].text, "previous_plan")}
    assert before["1"]["status"] == "completed"
    assert "may have taken effect: check before you repeat it" in before["2"]["feedback"]


@pytest.mark.req("P-06")
def test_with_nobody_to_ask_the_call_in_doubt_is_not_made(world):
    with open_durability(world.url) as durability:
        result, _ = say(world, durability, interactive=False)
    outcome = result["outcome"]
    assert sorted(line for _, line in world.lines("calls")) == ["owner", "price"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "NOT_INTERACTIVE")
    assert [call["arguments"] for call in outcome["uncertain_calls"]] == [{"name": "price"}]
