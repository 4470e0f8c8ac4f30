"""What the router keeps where its turn is interrupted: questions, stops, words between, crashes."""

import pytest
from langgraph.types import Command

from loopwright import ModelUnavailable, ScriptedModel, build_router, open_durability
from support.reacting import THREAD, said
from support.routed import killed, models, paid, payer, planned, run_once, wants
from support.scripts import thought

ASKS = [{"tool": "pay", "action": "ask"}]
WORDS = "Pay Ada"
PLAN = "Pay Ada. Then pay Bob. Verify both."


def test_a_question_of_a_graph_inside_reaches_the_user_and_its_answer_the_graph(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        model = ScriptedModel(wants())
        graph = build_router(model=model, tools=[payer(tmp_path)], policy=ASKS, durability=kept)
        asked = graph.invoke(said(WORDS), THREAD)
        (question,) = asked["__interrupt__"]
        assert question.value["action_requests"][0]["name"] == "pay"
        shown = graph.get_state(THREAD).values["messages"]
        assert shown[-1].tool_calls[0]["name"] == "pay", "front ends draw the question under it"
        again = build_router(model=model, tools=[payer(tmp_path)], policy=ASKS, durability=kept)
        answer = {"decisions": [{"type": "approve"}]}
        result = again.invoke(Command(resume=answer), THREAD)
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert paid(tmp_path) == ["Ada"]
    ids = [message.id for message in result["messages"]]
    assert len(ids) == len(set(ids))
    assert [m.type for m in result["messages"]] == ["human", "ai", "ai", "tool", "ai"]


def test_a_stop_inside_keeps_the_work_and_a_resume_goes_on_with_it(tmp_path):
    graphs = []

    def stops(name):
        if name == "Ada":
            graphs[-1].stop(THREAD)

    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        scripts = models(planned("Ada", "Bob"))
        for hurt in (stops, None):
            pay = payer(tmp_path, hurt)
            graphs.append(build_router(model=scripts, tools=[pay], durability=kept))
        first = graphs[0]
        graphs.pop()
        outcome = first.invoke(said(PLAN), THREAD)["outcome"]
        assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED")
        assert paid(tmp_path) == ["Ada"]
        assert "1" in [task["id"] for task in outcome["tasks"]]
        resumed = build_router(model=scripts, tools=[payer(tmp_path)], durability=kept)
        ended = resumed.invoke(None, THREAD)["outcome"]
    assert ended["status"] == "complete", ended
    assert paid(tmp_path) == ["Ada", "Bob"]
    assert [one["why"] for one in ended["tried"]] == ["it has the work already"]


def test_a_failing_model_leaves_a_thread_that_goes_on_in_the_graph_inside(tmp_path):
    broken = wants()
    broken["thought"][1:] = [ModelUnavailable("the provider is down")] * 9
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_router(model=ScriptedModel(broken), tools=[payer(tmp_path)], durability=kept)
        with pytest.raises(ModelUnavailable):
            graph.invoke(said(WORDS), THREAD, context={"model_retries": 0})
        mended = {"thought": [thought("Ada is paid.")]}
        graph = build_router(model=ScriptedModel(mended), tools=[payer(tmp_path)], durability=kept)
        outcome = graph.invoke(None, THREAD)["outcome"]
    assert outcome["status"] == "complete", outcome
    assert (outcome["answer"], paid(tmp_path)) == ("Ada is paid.", ["Ada"])


PLACES = [
    ("call_tools", "end"), ("judge", "end"), ("agent_turn", "end"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "at"), PLACES)
def test_a_kill_at_any_place_doubles_nothing_and_loses_nothing(tmp_path, node, at):
    killed(tmp_path, said(WORDS), node, at)
    outcome = run_once(tmp_path, None)["outcome"]
    assert outcome["status"] == "complete", outcome
    assert [one["graph"] for one in outcome["tried"]] == ["react", "task_agent"]
    assert paid(tmp_path) == ["Ada"]


def test_a_write_in_doubt_is_asked_about_inside(tmp_path):
    killed(tmp_path, said(WORDS), "", "start", True)
    assert paid(tmp_path) == ["Ada"]
    (question,) = run_once(tmp_path, None)["__interrupt__"]
    assert "may have run already" in str(question.value)
    answer = Command(resume={"decisions": [{"type": "respond", "message": "paid Ada"}]})
    outcome = run_once(tmp_path, answer)["outcome"]
    assert outcome["status"] == "complete", outcome
    assert paid(tmp_path) == ["Ada"]


def test_a_message_after_a_kill_finds_what_the_graph_inside_had_done(tmp_path):
    killed(tmp_path, said(WORDS), "call_tools", "end")
    result = run_once(tmp_path, said("Pay Ada, please"))
    assert result["outcome"]["status"] == "complete", result["outcome"]
    shown = [m.type for m in result["messages"]]
    assert shown[:5] == ["human", "ai", "ai", "tool", "human"], "the call stands with its answer"
    assert result["messages"][3].text == "paid Ada"
    assert paid(tmp_path) == ["Ada"], "the work goes on in the words of the new message"
