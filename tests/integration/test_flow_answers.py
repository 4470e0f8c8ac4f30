"""What comes of an answer to a question about a step, and of none."""

import time

import pytest

from loopwright import AnswerRejected, Context
from support.flows import (
    ASK,
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
from support.front_ends import chat_ui_sends, inbox_sends

ASK_READS = [{"tool": "look", "action": "ask"}]


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    "sends",
    [lambda q: chat_ui_sends(q, "reject", "not today"), lambda q: "reject: not today"],
    ids=["chat ui", "text"],
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


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    "sends",
    [
        lambda q: {"type": "edit", "args": {"what": "less"}},
        lambda q: chat_ui_sends(q, "edit", {"what": "less"}),
        lambda q: inbox_sends(q, "edit", {"what": "less"}),
    ],
    ids=["bare", "chat ui", "inbox"],
)
def test_an_edit_runs_with_other_arguments_and_what_follows_gets_their_result(sends):
    world = World()
    graph = asking(world, planning(flow(put("w", "a lot"), look("r", "{{w.put}}?"))))
    result = answer(graph, sends(asked(graph.invoke(said(), THREAD))))
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == ["less"]
    assert world.done("look") == ["less?"]
    (record,) = [e for e in graph.get_state(THREAD).values["evidence"] if e["task"] == "w"]
    assert record["arguments"] == {"what": "less"}


def test_an_edit_that_cannot_run_is_asked_about_again():
    world = World()
    graph = asking(world, planning(flow(put("w", 1))))
    graph.invoke(said(), THREAD)
    again = asked(answer(graph, {"type": "edit", "args": {"whta": 2}}))
    assert "The edit cannot run." in again["description"]
    assert world.done("put") == []
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]


def test_words_take_the_place_of_a_step():
    world = World()
    graph = asking(world, planning(flow(put("w", 1), look("r", "{{w}}; {{w.sum}}"))))
    graph.invoke(said(), THREAD)
    outcome = answer(graph, 'respond: {"sum": 7}')["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == []
    assert world.done("look") == ['{"sum": 7}; 7']
    assert outcome["spend"]["tool_calls"] == 1


@pytest.mark.req("P-42")
@pytest.mark.parametrize(
    ("remember", "questions"),
    [
        ("session", ["w1"]),
        ("tool", ["w1"]),
        ("call", ["w1", "w3"]),
        ({"what": "a"}, ["w1", "w3"]),
        ({"what": "^[ab]$"}, ["w1", "w2", "w3"]),
        ("", ["w1", "w2", "w3"]),
    ],
    ids=str,
)
def test_what_is_approved_for_the_session_is_not_asked_about_again(remember, questions):
    world, seen = World(), []
    graph = asking(world, planning(flow(put("w1", "a"), put("w2", "a"), put("w3", "b"))))
    result = graph.invoke(said(), THREAD)
    while "__interrupt__" in result:
        seen.append(asked(result)["task"])
        more = {"remember": remember} if len(seen) == 1 else {}
        result = answer(graph, {"type": "approve", **more})
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert seen == questions
    assert world.done("put") == ["a", "a", "b"]


@pytest.mark.req("P-42")
def test_an_approval_for_the_session_answers_the_other_questions_that_wait():
    world = World()
    graph = asking(world, planning(flow(look("a", "a"), look("b", "b"))), ASK_READS)
    graph.invoke(said(), THREAD)
    outcome = answer(graph, {"type": "approve", "remember": "session"})["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert sorted(world.done("look")) == ["a", "b"]


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


def test_a_rejected_step_that_is_optional_is_left_out():
    world = World()
    plan = flow(put("w", 1, optional=True), look("needs", "{{w.put}}"), look("r", "r", ["w"]))
    graph = asking(world, planning(plan))
    graph.invoke(said(), THREAD)
    outcome = answer(graph, "reject: no need")["outcome"]
    assert ended(outcome) == ("partial", "GOAL")
    assert {i: t["status"] for i, t in steps_by_id(outcome).items()} == {
        "w": "failed", "needs": "skipped", "r": "completed",
    }  # fmt: skip
    assert world.calls == [("look", "r")]


@pytest.mark.req("P-37")
@pytest.mark.parametrize("wrong", ["oops", [], {}, {"type": "edit"}, 7, None], ids=repr)
def test_an_answer_of_the_wrong_shape_leaves_the_question_open(wrong):
    world = World()
    model = planning(flow(put("w", 1)))
    graph = asking(world, model)
    question = asked(graph.invoke(said(), THREAD))
    with pytest.raises(AnswerRejected):
        answer(graph, wrong)
    assert graph.get_state(THREAD).interrupts[0].value == question
    assert world.done("put") == []
    assert asked(graph.invoke(None, THREAD)) == question, "going on decides nothing either"
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]
    assert roles(model) == ["flow_planner", "answerer"]


@pytest.mark.req("P-42")
def test_an_approval_that_comes_too_late_runs_nothing():
    world = World()
    graph = asking(world, planning(flow(put("w", 1))))
    context = Context(question_expires_in=0.01)
    assert asked(graph.invoke(said(), THREAD, context=context))["expires_at"]
    time.sleep(0.05)
    assert ended(answer(graph)["outcome"]) == ("blocked", "DENIED")
    assert world.done("put") == []


@pytest.mark.req("P-42")
@pytest.mark.parametrize("how", ["setting", "no saver"])
def test_with_nobody_to_ask_the_run_is_blocked_and_the_step_does_not_run(how):
    world = World()
    model = planning(flow(look("r", "r"), put("w", 1), put("w2", 2)))
    if how == "setting":
        graph = asking(world, model)
        outcome = graph.invoke(said(), THREAD, context=Context(interactive=False))["outcome"]
    else:
        outcome = world.graph(model, policy=ASK).invoke(said())["outcome"]
    assert ended(outcome) == ("blocked", "NOT_INTERACTIVE")
    assert world.calls == [("look", "r")]
    assert roles(model) == ["flow_planner"]
    assert "w (do w)" in " ".join(outcome["unmet"])


def test_somebody_takes_up_what_nobody_could_be_asked_about():
    world = World()
    plan = flow(look("r", "r"), put("w", "{{r.of}}"))
    model = planning(plan, plan)
    graph = asking(world, model)
    graph.invoke(said(), THREAD, context=Context(interactive=False))
    assert asked(graph.invoke(None, THREAD))["task"] == "w"
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.calls == [("look", "r"), ("put", "r")], "the finished read is not made again"


@pytest.mark.parametrize(
    ("sends", "settings", "told"),
    [
        ("reject: not today", {}, "Not run: the user rejected this call and said: not today."),
        ("reject", {}, "Not run: the user rejected this call."),
        ("approve", {"question_expires_in": 0.01},
         "Not run: the approval came after the question had expired."),
        (None, {"interactive": False},
         "Not run: not_interactive: this call needs a human's approval, and nobody can be asked."),
    ],
)  # fmt: skip
def test_why_a_step_was_not_let_run_is_told_to_a_human_without_advice_for_a_model(
    sends, settings, told
):
    graph = asking(World(), planning(flow(put("w", 1))))
    result = graph.invoke(said(), THREAD, context=Context(**settings))
    if sends:
        time.sleep(0.02)
        result = answer(graph, sends, **settings)
    assert result["outcome"]["unmet"][0] == f"w (do w) failed: {told}"
