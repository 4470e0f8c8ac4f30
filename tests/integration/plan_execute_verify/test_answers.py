"""Questions as the front ends show them, and their answers in every shape, on real runs."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_plan_execute_verify
from loopwright.prompts.prompt import read_json
from support.front_ends import (
    chat_ui_sends,
    chat_ui_shows,
    inbox_sends,
    inbox_shows,
    new_inbox_sends,
)
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}


class Desk:
    """A model that has texts saved, a task each, and a tool that remembers what it saved.

    A text may name several calls of one task: `a+b`.
    """

    def __init__(self, *texts, missing=()):
        self.tasks = [todo(str(n), f"save {text}", []) for n, text in enumerate(texts, 1)]
        self.missing = list(missing)
        self.saved = []
        self.model = ScriptedModel(self.turn)

    def save(self, text: str, copies: int = 1) -> str:
        """Save a text."""
        self.saved.append((text, copies))
        return f"saved {text} {copies} times"

    def turn(self, messages, offered):
        role = messages[0].text.split()[3].rstrip(".")
        human = next(m.text for m in messages if m.type == "human")
        if role == "planner":
            return self.planned(human)
        if role == "verifier":
            return self.judged(human)
        texts = read_json(human, "task")["description"].removeprefix("save ").split("+")
        results = [m for m in messages if m.type == "tool"]
        if not results:
            return [call("save", f"call_{n}", text=text, copies=1) for n, text in enumerate(texts)]
        done = any(m.status == "success" for m in results)
        return report("; ".join(m.text for m in results), taskCompleted=done)

    def planned(self, human):
        if self.missing:
            return {"needsMorePlanning": True, "missingInformation": [self.missing.pop()]}
        return plan(*self.tasks)

    def judged(self, human):
        tasks, evidence = read_json(human, "tasks"), read_json(human, "evidence")
        proof = {f"t{e['task']}": [e["id"]] for e in evidence if e["status"] == "success"}
        if all(t["status"] == "completed" for t in tasks):
            return passed("Saved, see the results.", **proof)
        judged = [
            {"id": t["id"], "completed": f"t{t['id']}" in proof, "evidence": []} for t in tasks
        ]
        return {
            "allCompleted": False,
            "userNeedsSatisfied": False,
            "tasks": judged,
            "improvements": ["save the rest"],
        }

    def graph(self, **options):
        asks = [{"tool": "save", "action": "ask"}]
        how = {"policy": asks, "checkpointer": InMemorySaver()} | options
        return build_plan_execute_verify(model=self.model, tools=[self.save], **how)


def ask(graph, **context):
    message = {"messages": [{"role": "user", "content": "Save it."}]}
    return graph.invoke(message, THREAD, context=Context(**context))


def answered(graph, answer, **context):
    return graph.invoke(Command(resume=answer), THREAD, context=Context(**context))


def asked(result):
    (question,) = [i.value for i in result["__interrupt__"]]
    assert chat_ui_shows(question)
    assert inbox_shows(question)
    return question


APPROVALS = {
    "text": lambda q: "approve",
    "JSON text": lambda q: '{"type": "approve"}',
    "bare": lambda q: {"type": "approve"},
    "decisions": lambda q: {"decisions": [{"type": "approve"}]},
    "chat ui": lambda q: chat_ui_sends(q, "approve"),
    "inbox": lambda q: inbox_sends(q, "accept"),
    "new inbox": lambda q: new_inbox_sends(q, "accept"),
}
EDITED = {"text": "b", "copies": 3}
EDITS = {
    "bare": lambda q: {"type": "edit", "args": EDITED},
    "chat ui": lambda q: chat_ui_sends(q, "edit", EDITED),
    "inbox": lambda q: inbox_sends(q, "edit", EDITED),
    "new inbox": lambda q: new_inbox_sends(q, "edit", EDITED),
}
REJECTIONS = {
    "text": lambda q: "reject: not today",
    "chat ui": lambda q: chat_ui_sends(q, "reject", "not today"),
    "inbox": lambda q: inbox_sends(q, "ignore"),
    "new inbox": lambda q: new_inbox_sends(q, "ignore"),
    "new inbox with words": lambda q: new_inbox_sends(q, "response", "not today"),
}
RESPONSES = {
    "text": lambda q: "respond: I did it",
    "inbox": lambda q: inbox_sends(q, "response", "I did it"),
}


def told(desk):
    return [m.text for a in desk.model.asked for m in a.messages if m.type == "tool"]


@pytest.mark.req("P-20", "P-35", "S1-15", "S1-20", "S0-80")
@pytest.mark.parametrize("shape", APPROVALS)
def test_every_shape_of_an_approval_runs_the_call_once(shape):
    desk = Desk("a")
    graph = desk.graph()
    question = asked(ask(graph))
    assert desk.saved == []
    assert answered(graph, APPROVALS[shape](question))["outcome"]["status"] == "complete"
    assert desk.saved == [("a", 1)]


@pytest.mark.req("P-20", "P-35")
@pytest.mark.parametrize("shape", EDITS)
def test_every_shape_of_an_edit_runs_the_call_with_its_arguments(shape):
    desk = Desk("a")
    graph = desk.graph()
    question = asked(ask(graph))
    assert answered(graph, EDITS[shape](question))["outcome"]["status"] == "complete"
    assert desk.saved == [("b", 3)]


@pytest.mark.req("P-20", "P-35", "S1-24")
@pytest.mark.parametrize("shape", REJECTIONS)
def test_every_shape_of_a_rejection_runs_nothing_and_tells_the_model(shape):
    desk = Desk("a")
    graph = desk.graph()
    answer = REJECTIONS[shape](asked(ask(graph)))
    outcome = answered(graph, answer)["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    assert desk.saved == []
    assert "the user rejected this call" in told(desk)[0]
    assert ("not today" in told(desk)[0]) == ("not today" in json.dumps(answer))


@pytest.mark.req("P-20", "P-35")
@pytest.mark.parametrize("shape", RESPONSES)
def test_every_shape_of_a_response_takes_the_place_of_the_call(shape):
    desk = Desk("a")
    graph = desk.graph()
    result = answered(graph, RESPONSES[shape](asked(ask(graph))))
    assert result["outcome"]["status"] == "complete"
    assert desk.saved == []
    assert told(desk)[0] == "I did it"


@pytest.mark.req("P-20")
@pytest.mark.parametrize(
    "sends",
    [
        lambda q: chat_ui_sends(q, "edit", {"answer": "The red one."}),
        lambda q: inbox_sends(q, "response", "The red one."),
        lambda q: inbox_sends(q, "edit", {"answer": "The red one."}),
        lambda q: new_inbox_sends(q, "response", "The red one."),
        lambda q: new_inbox_sends(q, "edit", {"answer": "The red one."}),
    ],
    ids=["chat ui", "inbox", "inbox field", "new inbox", "new inbox field"],
)
def test_a_question_for_words_can_be_answered_in_both_front_ends(sends):
    desk = Desk("a", missing=["Which lamp?"])
    graph = desk.graph(policy="allow")
    question = asked(ask(graph))
    assert question["action_requests"][0]["args"]["questions"] == ["Which lamp?"]
    assert answered(graph, sends(question))["outcome"]["status"] == "complete"
    shown = next(m.text for m in desk.model.asked[1].messages if m.type == "human")
    assert read_json(shown, "answers") == [{"question": "Which lamp?", "answer": "The red one."}]


@pytest.mark.req("P-20")
@pytest.mark.parametrize("sends", [chat_ui_sends, inbox_sends, new_inbox_sends])
def test_a_plan_can_be_edited_in_both_front_ends(sends):
    desk = Desk("a")
    graph = desk.graph(policy="allow")
    question = asked(ask(graph, review_plan=True))
    todos = [one | {"description": "save c"} for one in question["action_request"]["args"]["todos"]]
    answer = sends(question, "edit", {"todos": todos})
    result = answered(graph, answer, review_plan=True)
    assert result["outcome"]["status"] == "complete"
    assert desk.saved == [("c", 1)]
    assert [a.role for a in desk.model.asked].count("planner") == 1


@pytest.mark.req("P-20")
def test_a_plan_can_be_approved_or_sent_back_in_both_front_ends():
    desk = Desk("a")
    graph = desk.graph(policy="allow")
    question = asked(ask(graph, review_plan=True))
    question = asked(
        answered(graph, chat_ui_sends(question, "reject", "shorter, please"), review_plan=True)
    )
    question = asked(
        answered(graph, inbox_sends(question, "response", "shorter still"), review_plan=True)
    )
    shown = next(m.text for m in desk.model.asked[-1].messages if m.type == "human")
    assert "shorter still" in shown
    result = answered(graph, new_inbox_sends(question, "accept"), review_plan=True)
    assert result["outcome"]["status"] == "complete"


@pytest.mark.req("P-35", "P-02", "S1-22")
@pytest.mark.parametrize("edited", ["a", "b"])
def test_two_tasks_each_get_their_own_answer_and_run_once(edited):
    """Questions of parallel tasks come one at a time: neither front end could answer two."""
    desk = Desk("a", "b")
    graph = desk.graph()
    result, texts = ask(graph), []
    for _ in range(2):
        question = asked(result)
        assert len(graph.get_state(THREAD).interrupts) == 1
        text = question["action_request"]["args"]["text"]
        answer = chat_ui_sends(question, "reject", f"not {text}")
        if text == edited:
            answer = chat_ui_sends(question, "edit", {"text": "x"})
        texts.append(text)
        result = answered(graph, {result["__interrupt__"][0].id: answer})
    assert sorted(texts) == ["a", "b"]
    assert desk.saved == [("x", 1)]
    assert [a.role for a in desk.model.asked[:6]].count("executor") == 4, "two turns for each task"
    while "__interrupt__" in result:  # the verifier sends back what was not saved
        result = answered(graph, "reject")
    assert desk.saved == [("x", 1)]
    ended = {task["description"]: task["status"] for task in result["outcome"]["tasks"]}
    other = "ab".replace(edited, "")
    assert result["outcome"]["status"] in {"blocked", "partial"}
    assert (ended[f"save {edited}"], ended[f"save {other}"]) == ("completed", "failed")


@pytest.mark.req("P-42")
@pytest.mark.parametrize(
    ("remember", "questions"),
    [
        ("tool", ["a"]),
        ("call", ["a", "b"]),
        ({"text": "^[ab]$"}, ["a", "a", "b"]),
    ],
)
def test_what_is_approved_for_the_session_is_not_asked_again(remember, questions):
    desk = Desk("a+a+b")
    graph = desk.graph()
    result, seen = ask(graph), []
    while "__interrupt__" in result:
        question = asked(result)
        seen.append(question["action_request"]["args"]["text"])
        answer = {"type": "approve"} | ({"remember": remember} if len(seen) == 1 else {})
        result = answered(graph, answer)
    assert result["outcome"]["status"] == "complete"
    assert seen == questions
    assert len(desk.saved) == 3


def test_a_rule_may_speak_of_one_graph_alone():
    policy = [{"tool": "save", "agent": "desk_*", "action": "allow"}, {"action": "deny"}]
    ends = {}
    for name in ("desk_one", "other"):
        desk = Desk("a")
        ends[name] = (ask(desk.graph(policy=policy, name=name))["outcome"]["status"], desk.saved)
    assert ends == {"desk_one": ("complete", [("a", 1)]), "other": ("blocked", [])}
