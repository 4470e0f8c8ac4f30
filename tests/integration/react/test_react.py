"""Whole runs of thought → action → observation on a scripted model and real Python tools."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command

from loopwright import Context, ModelCallFailed, ScriptedModel, build_react
from support.budget import MANY
from support.mcp_servers import stdio
from support.reacting import (
    DONE,
    GOAL,
    LOOK,
    THREAD,
    endless,
    of,
    one_step,
    phase_of,
    roles,
    said,
    shelf,
)
from support.scripts import call, thought

KEYS = {
    "status", "reason", "headline", "answer", "tasks", "unmet", "uncertain_calls", "spend",
    "models", "warnings", "result", "resume",
}  # fmt: skip


@pytest.mark.req("S1-01", "S1-03", "S1-09", "S1-10", "S1-12", "S1-21", "S1-28", "S1-42", "S1-46")
def test_thought_action_observation_until_the_answer():
    look, model = shelf(), one_step()
    result = build_react(model=model, tools=[look]).invoke(said())
    outcome = result["outcome"]
    assert set(outcome) == KEYS
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert outcome["answer"] == result["messages"][-1].text == "Ada owns it."
    assert (outcome["unmet"], outcome["resume"], outcome["tasks"]) == ([], None, [])
    assert look.calls == ["owner"]
    assert roles(model) == ["thought", "action", "observation", "thought"]
    assert outcome["spend"]["model_calls"] == 4
    assert outcome["spend"]["tool_calls"] == 1
    assert set(outcome["models"]) == {"thought", "action", "observation"}
    kept = [(m.type, m.text) for m in result["messages"]]
    assert kept == [
        ("human", GOAL),
        ("ai", "I look up the owner with look."),
        ("ai", ""),
        ("tool", "Ada"),
        ("ai", "The owner is Ada; answer now."),
        ("ai", "Ada owns it."),
    ]
    last = of(model, "thought")[-1].messages
    assert [m.text for m in last if m.type in ("ai", "tool")] == [text for _, text in kept[1:-1]]


@pytest.mark.req("S1-02", "S1-04", "S1-25", "P-01", "P-24", "W-20")
def test_at_the_limit_of_iterations_one_last_thought_answers_and_the_run_is_partial():
    look, model = shelf(), endless()
    result = build_react(model=model, tools=[look]).invoke(said())
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", "MAX_TURNS")
    assert outcome["answer"] == result["messages"][-1].text == "So far: some facts."
    assert outcome["unmet"]
    assert len(look.calls) == 50
    last_words = ["thought", "thought"]  # the first wants more, so it is told that this is the last
    assert roles(model) == [*["thought", "action", "observation"] * 50, *last_words]
    few = endless()
    build_react(model=few, tools=[shelf()]).invoke(said(), context=Context(max_iterations=2))
    assert roles(few) == [*["thought", "action", "observation"] * 2, *last_words]


def in_a_row(count):
    """A model whose thoughts want one call after the other, `count` in all, and then answer."""

    def answer(messages, offered):
        role = phase_of(messages, offered)
        made = sum(m.type == "tool" for m in messages)
        if role == "thought":
            return DONE if made >= count else thought("Another fact with look.", more=True)
        return [call("look", name=f"f{made}")] if role == "action" else "A fact is there."

    return ScriptedModel(answer)


@pytest.mark.req("W-20")
@pytest.mark.parametrize(
    ("settings", "calls"),
    [
        ({"max_iterations": 1}, 1),
        ({"max_tool_calls": 3}, 3),
    ],
)
def test_work_that_is_done_with_the_last_allowed_call_is_complete(settings, calls):
    look = shelf()
    graph = build_react(model=in_a_row(calls), tools=[look])
    outcome = graph.invoke(said(), context=Context(**settings))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert (outcome["answer"], outcome["unmet"]) == ("Ada owns it.", [])
    assert len(look.calls) == calls


@pytest.mark.req("W-20")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"max_iterations": 3}, "MAX_TURNS"), ({"max_tool_calls": 3}, "BUDGET")],
)
@pytest.mark.parametrize("last", ["No tag.", thought("So far.", more=True)])
def test_a_thought_after_the_last_allowed_call_that_does_not_end_the_loop_ends_it_short(
    last, settings, reason
):
    more = thought("Another fact with look.", more=True)
    calls = [[call("look", name=f"f{number}")] for number in range(3)]
    model = one_step(thought=[more] * 4 + [last], action=calls, observation=["A fact."] * 3)
    graph = build_react(model=model, tools=[shelf()])
    outcome = graph.invoke(said(), context=Context(**settings))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", reason)
    again = of(model, "thought")[-1].messages[-1].text
    assert "No step is left" in again


@pytest.mark.req("W-20")
def test_as_many_calls_in_a_row_as_wanted_take_one_setting():
    look = shelf()
    graph = build_react(model=in_a_row(MANY), tools=[look], observe="direct")
    outcome = graph.invoke(said(), context=Context(max_iterations=MANY))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL"), outcome["unmet"]
    assert len(look.calls) == MANY


TAG_TO_GO_ON, TAG_TO_STOP = (thought("", more=more) for more in (True, False))


@pytest.mark.req("W-29")
@pytest.mark.parametrize(
    ("last", "told"),
    [(TAG_TO_STOP, "ended the turn without an answer"), (TAG_TO_GO_ON, "neither a step"),
     ("", "neither a step"), ("<think>Ada</think>", "neither a step"),
     ("<agent_meta>{}</agent_meta>", "neither a step")],
)  # fmt: skip
def test_a_thought_without_words_ends_nothing_well(last, told):
    for before, end in (([LOOK], ("partial", "GOAL")), ([], ("stuck", "SAME_BLOCKERS"))):
        words = ["Ada owns it.", "Ada owns it."]
        model = one_step(
            thought=[*before, last, last],
            action=[*([call("look", name="owner")] for _ in before), *words],
        )
        outcome = build_react(model=model, tools=[shelf()]).invoke(said())["outcome"]
        assert (outcome["status"], outcome["reason"]) == end
        assert told in " ".join(outcome["unmet"])


@pytest.mark.req("S1-36", "S1-05")
def test_a_demanded_step_that_is_never_taken_is_no_answer():
    model = one_step(action=["I would look.", "Ada, I guess."])
    result = build_react(model=model, tools=[shelf()]).invoke(said())
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("stuck", "SAME_BLOCKERS")
    assert outcome["answer"] == result["messages"][-1].text == "Ada, I guess."
    assert any("I look up the owner" in text for text in outcome["unmet"])
    assert roles(model) == ["thought", "action", "action"]


@pytest.mark.req("S1-29", "S1-31", "S1-32")
@pytest.mark.parametrize(
    "bad",
    [
        '<agent_meta>{"shouldContinue": false}</agent_meta>',
        "Ada owns it.",
        'Ada. <agent_meta>{"shouldContinue": false, "mood": "fine"}</agent_meta>',
        'Ada. <agent_meta>{"shouldContinue": "no"}</agent_meta>',
    ],
)
def test_a_thought_that_breaks_its_form_is_asked_again_once(bad):
    model = one_step(thought=[bad, DONE])
    outcome = build_react(model=model, tools=[shelf()]).invoke(said())["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "Ada owns it.")
    assert roles(model) == ["thought", "thought"]
    again = model.asked[1].messages
    assert (again[-2].text, again[-2].type) == (bad, "ai")
    assert "<agent_meta>" in again[-1].text


def test_observe_direct_hands_results_to_the_next_thought():
    model = one_step()
    graph = build_react(model=model, tools=[shelf()], observe="direct")
    assert graph.invoke(said())["outcome"]["status"] == "complete"
    assert roles(model) == ["thought", "action", "thought"]
    assert model.asked[-1].messages[-1].text == "Ada"
    watched = one_step()
    graph = build_react(model=watched, tools=[shelf()], observe="direct")
    graph.invoke(said(), context=Context(observe="model"))
    assert roles(watched) == ["thought", "action", "observation", "thought"]


@pytest.mark.req("S1-15", "S1-20", "S1-22", "S1-23")
def test_a_call_that_needs_a_human_waits_before_it_runs_and_goes_on_when_approved():
    look, model = shelf(), one_step()
    graph = build_react(model=model, tools=[look], policy="ask", checkpointer=InMemorySaver())
    waiting = graph.invoke(said(), THREAD)
    (question,) = waiting["__interrupt__"]
    assert question.value["type"] == "tool_approval"
    assert question.value["action_requests"][0]["args"] == {"name": "owner"}
    (pending,) = graph.get_state(THREAD).values["call_state"]["calls"]
    assert (pending["name"], pending["args"], pending["id"]) == (
        "look", {"name": "owner"}, "react.1.0",
    )  # fmt: skip
    assert look.calls == []
    result = graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert result["outcome"]["status"] == "complete"
    assert look.calls == ["owner"]
    assert graph.get_state(THREAD).values["call_state"]["calls"] == []
    assert roles(model) == ["thought", "action", "observation", "thought"]


@pytest.mark.req("S1-18", "S1-20")
def test_a_waiting_call_names_its_server():
    model = one_step(action=[[call("note", path="f", text="lamp")]])
    graph = build_react(
        model=model, mcp={"mcpServers": {"desk": stdio("desk")}}, checkpointer=InMemorySaver()
    )
    (question,) = graph.invoke(said(), THREAD)["__interrupt__"]
    assert "'desk'" in question.value["description"]
    (pending,) = graph.get_state(THREAD).values["call_state"]["calls"]
    assert (pending["name"], pending["server"]) == ("note", "desk")


@pytest.mark.req("S1-23")
async def test_a_set_of_calls_is_confirmed_one_after_another():
    look = shelf()
    model = one_step(action=[[call("look", "c1", name="owner"), call("look", "c2", name="price")]])
    graph = build_react(model=model, tools=[look], policy="ask", checkpointer=InMemorySaver())
    await graph.ainvoke(said(), THREAD)
    waiting = await graph.ainvoke(Command(resume={"type": "approve"}), THREAD)
    assert waiting["__interrupt__"][0].value["tool_call_id"] == "c2"
    result = await graph.ainvoke(Command(resume={"type": "approve"}), THREAD)
    assert look.calls == ["owner", "price"]
    tools = [m.tool_call_id for m in result["messages"] if m.type == "tool"]
    assert tools == ["c1", "c2"]
    assert result["outcome"]["status"] == "complete"


@pytest.mark.req("S1-24")
def test_a_rejected_call_is_told_to_the_model_and_to_the_user():
    look = shelf()
    model = one_step(
        observation=["The user said no."], thought=[LOOK, thought("I may not look it up.")]
    )
    graph = build_react(model=model, tools=[look], policy="ask", checkpointer=InMemorySaver())
    graph.invoke(said(), THREAD)
    no = {"type": "reject", "message": "Not now, please."}
    result = graph.invoke(Command(resume=no), THREAD)
    (answer,) = [m for m in result["messages"] if m.type == "tool"]
    assert (answer.status, "said: Not now, please. Do" in answer.text) == ("error", True)
    outcome = result["outcome"]
    assert look.calls == []
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    assert outcome["answer"] == "I may not look it up."
    assert any("rejected" in text for text in outcome["unmet"])


def test_a_denied_call_with_nobody_to_ask_blocks_the_run_unless_something_else_was_done():
    model = one_step(
        observation=["It may not run."], thought=[LOOK, thought("I may not look it up.")]
    )
    graph = build_react(model=model, tools=[shelf()], policy="ask")
    outcome = graph.invoke(said(), context=Context(interactive=False))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "NOT_INTERACTIVE")

    def owner() -> str:
        """Name the owner."""
        return "Ada"

    other = one_step(
        thought=[LOOK, thought("Another way, with owner.", more=True), DONE],
        action=[[call("look", name="owner")], [call("owner")]],
        observation=["It may not run.", "Ada."],
    )
    policy = [{"tool": "look", "action": "deny"}]
    outcome = build_react(model=other, tools=[shelf(), owner], policy=policy).invoke(said())[
        "outcome"
    ]
    assert (outcome["status"], outcome["reason"]) == ("partial", "GOAL")
    assert outcome["unmet"] == ['look({"name": "owner"}) was not run: it was not allowed.']


@pytest.mark.req("P-01", "P-24")
@pytest.mark.parametrize("calls", [1, 2, 4])
def test_a_spent_budget_grants_one_last_answer(calls):
    model = endless()
    graph = build_react(model=model, tools=[shelf()])
    outcome = graph.invoke(said(), context=Context(max_model_calls=calls))["outcome"]
    status = "partial" if calls > 1 else "exhausted"  # no tool was called by then
    assert (outcome["status"], outcome["reason"]) == (status, "BUDGET")
    assert outcome["answer"] == "So far: some facts."
    assert len(model.asked) == calls + 1
    assert roles(model)[-1] == "thought"


@pytest.mark.req("S1-27")
def test_a_model_that_stays_away_raises_and_the_thread_goes_on():
    script = iter([ConnectionError("gone"), LOOK, DONE])
    model = one_step(thought=lambda messages, offered: next(script))
    graph = build_react(model=model, tools=[shelf()], checkpointer=InMemorySaver())
    context = Context(model_retries=0)
    events: list[str] = []
    with pytest.raises(ModelCallFailed, match="gone"):  # noqa: PT012 - what came before is wanted
        for event in graph.stream(said(), THREAD, context=context, stream_mode="custom"):
            events.append(event["type"])
    assert events == ["phase"]
    assert graph.invoke(None, THREAD, context=context)["outcome"]["status"] == "complete"


@pytest.mark.req("S1-14", "S1-43")
def test_a_run_is_drained_between_phases_and_goes_on():
    control = RunControl()
    look = shelf()

    def acting(messages, offered):
        control.request_drain("signal")
        return [call("look", name="owner")]

    model = one_step(action=acting)
    graph = build_react(model=model, tools=[look], checkpointer=InMemorySaver())
    with pytest.raises(GraphDrained):
        graph.invoke(said(), THREAD, control=control)
    assert look.calls == []
    assert graph.invoke(None, THREAD, control=RunControl())["outcome"]["status"] == "complete"
    assert roles(model) == ["thought", "action", "observation", "thought"]


def test_an_ended_turn_is_taken_up_again_with_its_messages():
    model = endless()
    graph = build_react(model=model, tools=[shelf()], checkpointer=InMemorySaver())
    context = Context(max_iterations=1)
    first = graph.invoke(said(), THREAD, context=context)["outcome"]
    assert first["status"] == "partial"
    assert "None" in first["resume"]["how"]
    again = graph.invoke(None, THREAD, context=context)["outcome"]
    assert again["spend"]["allowance"] == 2
    assert roles(model) == ["thought", "action", "observation", "thought", "thought"] * 2
    assert all(a.messages[-1].type in ("human", "tool") for a in model.asked)


def test_a_failed_tool_is_an_observation_like_any_other():
    model = one_step(
        thought=[LOOK, thought("Nobody knows.")], action=[[call("look", name="nothing")]],
        observation=["There is no such fact."],
    )  # fmt: skip
    result = build_react(model=model, tools=[shelf()]).invoke(said())
    assert next(m for m in result["messages"] if m.type == "tool").status == "error"
    outcome = result["outcome"]
    assert outcome["status"] == "stuck", "an answer that rests on no result is not proven"
    assert outcome["unmet"] == [
        'look({"name": "nothing"}) failed, and no later call made up for it.'
    ]


@pytest.mark.req("S1-26")
def test_a_run_may_begin_with_earlier_messages():
    model = one_step(thought=[DONE])
    earlier = [("user", "Is there a shop?"), ("assistant", "Yes, one."), ("user", GOAL)]
    result = build_react(model=model).invoke({"messages": earlier})
    assert result["outcome"]["status"] == "complete"
    assert [m.text for m in model.asked[0].messages[1:]] == [text for _, text in earlier]


@pytest.mark.req("P-29")
def test_an_invented_tool_is_answered_with_those_there_are_and_never_complete():
    lying = ScriptedModel(
        {
            "thought": [LOOK, thought("The order is cancelled.")],
            "action": [[call("cancel_order", order="F-1")]],
            "observation": ["It is cancelled."],
        }
    )
    result = build_react(model=lying, tools=[shelf()]).invoke(said())
    answer = next(m for m in result["messages"] if m.type == "tool")
    assert (answer.status, "there are look" in answer.text) == ("error", True)
    assert result["outcome"]["status"] == "stuck"
