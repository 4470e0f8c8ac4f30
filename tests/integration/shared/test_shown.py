"""What people are shown of a turn: phases and asked calls are messages before the question is put.

Agent Chat UI draws a question only under the last message, and that must be the assistant's.
"""

import asyncio
from contextlib import contextmanager
from itertools import pairwise

import pytest
from ag_ui.core import EventType, RunAgentInput
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_task_agent,
    open_durability,
)
from loopwright.prompts.prompt import read_json
from loopwright.text.sentences import say
from loopwright.ui.ag_ui import ag_ui_events
from support.flows import (
    flow,
    planning,
    step,
)
from support.front_desks import DESKS, OF_EACH, Desk, flow_desk, react_desk, role_of
from support.front_ends import (
    chat_ui_draws,
    chat_ui_drops,
    chat_ui_sends,
    chat_ui_shows,
    find_faults,
)
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}


def said(text):
    return {"messages": [{"role": "user", "content": text}]}


def shown(graph, *, hidden=(False, True)):
    """The messages of a waiting thread, as both doors tell them; its questions can be seen."""
    state = graph.get_state(THREAD)
    newest = next(iter(graph.get_state_history(THREAD)))
    assert newest.values["messages"] == state.values["messages"]
    messages = state.values["messages"]
    assert state.interrupts
    assert all(chat_ui_draws(messages, hides_tool_calls=hides) for hides in hidden)
    ids = [message.id for message in messages]
    assert len(ids) == len(set(ids))
    return messages


def whole(messages):
    """Each call is followed by its answer, and no answer stands anywhere else."""
    left = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert left.pop(0) == message.tool_call_id
            continue
        assert not left
        left = [c["id"] for c in message.tool_calls] if isinstance(message, AIMessage) else []
    return not left


def calls_in(messages, key="text"):
    return [c["args"].get(key) for m in messages if m.type == "ai" for c in m.tool_calls]


def role_in(message):
    return str(message.additional_kwargs.get("agent_type"))


def roles_in(messages):
    return [role_in(m) for m in messages if m.type == "ai"]


def approved(graph, result, *, hidden=(False, True), **settings):
    """Answer every question with yes, one at a time; what is shown on the way."""
    seen = []
    while "__interrupt__" in result:
        seen.append(shown(graph, hidden=hidden))
        question = result["__interrupt__"][0]
        assert chat_ui_shows(question.value)
        answer = {question.id: chat_ui_sends(question.value, "approve")}
        result = graph.invoke(Command(resume=answer), THREAD, context=Context(**settings))
    return seen, result


@pytest.mark.req("W-14", "S0-149", "P-20")
def test_every_approval_of_a_plan_is_drawn_in_every_turn(tmp_path):
    tasks = ["a", "b", "cd"]
    desk = Desk(*tasks)
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        graph = desk.graph(checkpointer=None, durability=durability)
        for turn in (1, 2):
            result = graph.invoke(said(f"Save, {turn}."), THREAD)
            (listed,) = durability.threads()
            assert (listed.waiting, listed.request) == (True, "Save, 1.")
            seen, result = approved(graph, result)
            assert len(seen) == sum(map(len, tasks))
            began = sum(map(len, tasks)) * (turn - 1)
            for messages in seen:  # the plan stands first, and the call that is asked about
                turns = [n for n, m in enumerate(messages) if m.type == "human"]
                ours = messages[turns[-1] + 1 :]
                assert ours[0].additional_kwargs["agent_type"] == "planner"
                assert all(f"save {'+'.join(task)}" in ours[0].text for task in tasks)
                assert set(calls_in(ours)) >= {task[0] for task in tasks}
            messages = result["messages"]
            assert whole(messages)
            assert messages[-1].text == result["outcome"]["answer"] == "All is saved."
            assert sorted(calls_in(messages)) == sorted("".join(tasks) * turn)
            assert sorted(desk.saved[began:]) == sorted("".join(tasks))
            assert graph.get_state(THREAD).values["messages"] == messages
            executed = roles_in(messages).count("executor")
            assert executed == turn * (sum(map(len, tasks)) + len(tasks))  # calls, and reports


@pytest.mark.req("W-14")
def test_no_model_is_sent_what_people_are_shown():
    desk = Desk("a", "b")
    graph = desk.graph()
    for turn in (1, 2):
        approved(graph, graph.invoke(said(f"Save, {turn}."), THREAD))
    planner = [asked for asked in desk.model.asked if asked.role == "planner"][-1]
    talk = read_json(planner.messages[-1].text, "conversation")
    assert talk == [
        {"role": "user", "text": "Save, 1."},
        {"role": "assistant", "text": "All is saved."},
    ]
    for asked in desk.model.asked:
        texts = [m.text for m in asked.messages if m.type == "ai" and not m.tool_calls]
        assert not [text for text in texts if text.startswith(("1. save", "Saved"))]


@pytest.mark.req("W-14", "P-26")
@pytest.mark.parametrize("faked", [False, True])
def test_a_new_message_answers_every_call_that_was_asked_about(faked):
    desk = Desk("ab", "c")
    graph = desk.graph()
    (first, *_) = graph.invoke(said("Save."), THREAD)["__interrupt__"]
    graph.invoke(Command(resume={first.id: "approve"}), THREAD)
    messages = shown(graph)
    answered = {m.tool_call_id for m in messages if m.type == "tool"}
    fakes = [
        {"role": "tool", "id": f"do-not-render-{n}", "tool_call_id": c["id"],
         "content": "Successfully handled tool call."}
        for n, m in enumerate(messages) if m.type == "ai"
        for c in m.tool_calls if c["id"] not in answered
    ]  # fmt: skip
    given = said("Something else.")
    given["messages"] = [*(fakes if faked else []), *given["messages"]]
    graph.invoke(given, THREAD)
    messages = graph.get_state(THREAD).values["messages"]
    assert not any(str(m.id).startswith("do-not-render-") for m in messages)
    place = next(n for n, m in enumerate(messages) if m.text == "Something else.")
    assert whole(messages[:place])
    texts = [m.text for m in messages[:place] if m.type == "tool"]
    assert texts.count("saved a") == 1
    assert set(texts) == {"saved a", say("superseded")}
    shown(graph)


@pytest.mark.req("W-14")
@pytest.mark.parametrize("graph_of", ["plan", "flow", "react"])
def test_a_question_that_is_withdrawn_leaves_no_call_open(graph_of):
    graph = GRAPHS[graph_of]()
    for turn in (1, 2):
        assert "__interrupt__" in graph.invoke(said(f"Go, {turn}."), THREAD)
        shown(graph)
        graph.invoke(Command(goto="__end__"), THREAD)
        state = graph.get_state(THREAD)
        assert state.interrupts == ()
        assert whole(state.values["messages"])
    _, result = approved(graph, graph.invoke(said("Go, at last."), THREAD), hidden=[False])
    assert whole(result["messages"])


GRAPHS = {"plan": lambda: Desk("a", "b").graph(), "flow": flow_desk, "react": react_desk}


@pytest.mark.req("W-14", "W-142", "S0-149", "P-20")
def test_every_approval_of_a_flow_is_drawn_in_every_turn():
    graph = flow_desk()
    for turn in (1, 2):
        seen, result = approved(graph, graph.invoke(said(f"Go, {turn}."), THREAD))
        assert len(seen) == 2
        assert all(whole(messages[:-1]) for messages in seen)
        assert calls_in(seen[-1], "what") == ["a", "b0", "a", "b1"][: 2 * turn]
        assert roles_in(seen[0])[-2:] == ["flow_planner", "flow_planner"]
        ids = [c["id"] for m in result["messages"] if m.type == "ai" for c in m.tool_calls]
        assert len({*ids}) == len(ids) == 2 * turn
        assert "w1. do w1: put" in [m for m in seen[0] if m.type == "ai"][-2].text
        assert whole(result["messages"])
        assert result["messages"][-1].text == result["outcome"]["answer"]


@pytest.mark.req("W-14", "P-20")
@pytest.mark.parametrize("answer", ["approve", "reject: shorter", "edit"])
@pytest.mark.parametrize("graph_of", ["plan", "flow"])
def test_a_plan_under_review_is_drawn_and_so_is_what_came_of_it(graph_of, answer):
    graph = GRAPHS[graph_of]()
    how = Context(review_plan=True)
    for turn in (1, 2):
        result = graph.invoke(said(f"Go, {turn}."), THREAD, context=how)
        question = result["__interrupt__"][0].value
        messages = shown(graph)
        assert roles_in(messages)[-1] in ("planner", "flow_planner")
        given = answer
        if answer == "edit":
            listed = {"plan": "todos", "flow": "steps"}[graph_of]
            given = {"type": "edit", "args": {listed: question["action_request"]["args"][listed]}}
        result = graph.invoke(Command(resume=given), THREAD, context=how)
        messages = shown(graph)
        told = [m.text for m in messages if role_in(m).startswith("review")]
        words = {"approve": "approved", "edit": "edited"}.get(answer, "shorter")
        assert len(told) == turn
        assert words in told[-1]
        graph.invoke(Command(goto="__end__"), THREAD)


@pytest.mark.req("W-14", "W-25", "P-20")
@pytest.mark.parametrize("given", ["res-1", {"answer": "res-1"}])
def test_what_a_planner_must_be_told_is_asked_in_view_and_takes_plain_text(given):
    missing = {"needsMorePlanning": True, "missingInformation": ["Which resource?"]}

    def turn(messages, offered):
        human = next(m.text for m in messages if m.type == "human")
        if role_of(messages) == "planner":
            told = read_json(human, "answers")
            return plan(todo("1", f"look at {told[0]['answer']}")) if told else missing
        if role_of(messages) == "verifier":
            return passed("It is there.", t1=["1.report"])
        return report("Seen.")

    graph = build_plan_execute_verify(model=ScriptedModel(turn), checkpointer=InMemorySaver())
    for turn_ in (1, 2):
        assert "__interrupt__" in graph.invoke(said(f"Go, {turn_}."), THREAD)
        assert shown(graph)[-1].text == "Which resource?"
        outcome = graph.invoke(Command(resume=given), THREAD)["outcome"]
        assert outcome["status"] == "complete"
        assert [task["description"] for task in outcome["tasks"]] == ["look at res-1"]


def inquirer():
    def inquire(what: str) -> str:
        """Ask about something."""
        return f"{what}: {interrupt({'question': f'Which {what}?'})}"

    return StructuredTool.from_function(inquire, metadata={"readOnlyHint": True})


def inquiring(graph_of, **options):
    """A graph whose tool asks a question of its own."""
    how = {"tools": [inquirer()], "policy": "allow", "checkpointer": InMemorySaver()} | options
    if graph_of == "flow":
        asks = [step(n, "inquire", arguments={"what": n}) for n in ("s1", "s2")]
        return build_prompt_flow(model=planning(flow(*asks), flow(*asks)), **how)

    def turn(messages, offered):
        human = next(m.text for m in messages if m.type == "human")
        if role_of(messages) == "planner":
            return plan(todo("1", "first", []), todo("2", "second", []))
        if role_of(messages) == "verifier":
            return passed("It is known.", t1=["1.1.0"], t2=["2.1.0"])
        if any(m.type == "tool" for m in messages):
            return report(messages[-1].text)
        return [call("inquire", what=read_json(human, "task")["description"])]

    return build_plan_execute_verify(model=ScriptedModel(turn), **how)


@contextmanager
def dies_before_it_asks(durability):
    """What a kill leaves that comes before the database has heard of the run's question."""
    saver = durability.checkpointer.inner
    real = saver.put_writes

    def put_writes(config, writes, task_id, *about):
        outer = not config["configurable"].get("checkpoint_ns")
        kept = [write for write in writes if not (outer and write[0] == "__interrupt__")]
        return real(config, kept, task_id, *about) if kept else None

    saver.put_writes = put_writes
    try:
        yield
    finally:
        saver.put_writes = real


@pytest.mark.req("W-14", "P-04")
@pytest.mark.parametrize("times", [1, 3])
def test_killed_between_a_message_and_its_question_nothing_is_told_twice(tmp_path, times):
    desk = Desk("a", "bc")
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        how = {"checkpointer": None, "durability": durability}
        build = desk.graph
        with dies_before_it_asks(durability):
            build(**how).invoke(said("Go."), THREAD)
            for _ in range(times - 1):
                build(**how).invoke(None, THREAD)
        before = build(**how).get_state(THREAD)
        assert before.next == ("work",)
        assert chat_ui_draws(before.values["messages"])
        result = build(**how).invoke(None, THREAD)
        assert shown(build(**how)) == before.values["messages"]
        while "__interrupt__" in result:
            answer = {result["__interrupt__"][0].id: "approve"}
            result = build(**how).invoke(Command(resume=answer), THREAD)
        assert whole(result["messages"])
        assert result["outcome"]["status"] == "complete"
        assert sorted(desk.saved) == [*"abc"]


@pytest.mark.req("P-20", "P-44")
def test_a_page_that_streams_graphs_inside_graphs_is_sent_no_state_but_the_threads():
    """Agent Chat UI takes each state that it is streamed for the thread's, and shows that."""
    modes = {"stream_mode": ["values", "custom"], "subgraphs": True}

    def streamed(**who):
        config = {"configurable": {"thread_id": "t", **who}}
        return [*Desk(["lamp"]).graph(policy="allow").stream(said("go"), config, **modes)]

    own, page = streamed(), streamed(assistant_id="desk")
    inner = [(mode, set(data)) for ns, mode, data in own if ns and mode == "values"]
    assert inner, "a program sees the executor's states"
    assert not [ns for ns, mode, _ in page if ns and mode == "values"]
    told = [
        {one["type"] for ns, mode, one in chunks if ns and mode == "custom"}
        for chunks in (own, page)
    ]
    assert told[0] == told[1] > {"tool_call", "ui"}
    messages = [data["messages"] for ns, mode, data in page if mode == "values"]
    known = [{m.id for m in these} for these in messages]
    assert all(a <= b for a, b in pairwise(known)), "none goes"


async def served(graph, values, given):
    """A run for a client of AG-UI; with the thread it saw before, as all snapshots must have it."""
    new = [m["id"] for m in given.get("messages", ())]
    had = [m.id for m in values.get("messages", ()) if not str(m.id).startswith("do-not-render-")]
    whole = {"threadId": "t", "runId": "r", "tools": [], "context": [], "state": {}}
    run = RunAgentInput.model_validate({**whole, "messages": [], "forwardedProps": {}, **given})
    how = {"answered_by": "operator", "context": Context(review_plan=True)}
    events = [event async for event in ag_ui_events(graph, run, **how)]
    assert events[-1].type == EventType.RUN_FINISHED, events[-1]
    begun = [event.message_id for event in events if event.type == EventType.TEXT_MESSAGE_START]
    assert len(begun) == len({*begun}), "a draft that stands is not told again"
    snapshots = [e.messages for e in events if e.type == EventType.MESSAGES_SNAPSHOT]
    seen = [[m.id for m in one if m.role != "activity"] for one in snapshots]
    for ids in seen:
        assert [one for one in ids if one in {*had, *new}] == [*had, *new]
        assert [one for one in seen[-1] if one in ids] == ids, "in the order of the thread"
    if events[-1].outcome.type == "interrupt":
        known = {c.id for m in snapshots[-1] for c in getattr(m, "tool_calls", None) or ()}
        about = [one.tool_call_id for one in events[-1].outcome.interrupts]
        assert {one for one in about if one} <= known
    assert "complete_task" not in {getattr(event, "tool_call_name", "") for event in events}
    calls = [c.function.name for m in snapshots[-1] for c in getattr(m, "tool_calls", None) or ()]
    assert "complete_task" not in calls


def at_rest(graph, before):
    """The thread as each door tells it: nothing goes, nothing moves, no id is there twice."""
    state = graph.get_state(THREAD)
    messages = state.values["messages"]
    assert next(iter(graph.get_state_history(THREAD))).values["messages"] == messages
    assert find_faults(state.values, state.interrupts, before) == []
    return state


@pytest.mark.req("W-140", "W-141", "W-142", "W-143")
@pytest.mark.parametrize("name", DESKS)
async def test_every_graph_keeps_the_contract_with_front_ends(name, tmp_path):
    build, wanted = DESKS[name]
    graph, texts = build(tmp_path)
    values, turns = {}, 0
    for text in texts:
        user = {"id": f"user-{(turns := turns + 1)}", "role": "user", "content": text}
        await served(graph, values, {"messages": [user]})
        while (state := await asyncio.to_thread(at_rest, graph, values)).interrupts:
            values, (first, *more) = state.values, state.interrupts
            if more:  # Agent Chat UI answers one at a time
                one, how = {first.id: "approve"}, Context(review_plan=True)
                await graph.ainvoke(Command(resume=one), THREAD, context=how)
            else:
                yes = {"interruptId": first.id, "status": "resolved", "payload": {"approved": True}}
                await served(graph, values, {"resume": [yes]})
        values = state.values
        assert whole(values["messages"])
        assert values["outcome"]["status"] == "complete", values["outcome"]
    assert {one["name"] for one in values["ui"]} >= OF_EACH | wanted


@pytest.mark.req("W-149")
def test_a_setting_leaves_the_panel_of_agent_chat_ui_out(monkeypatch):
    """It draws its panel under the last message: one that it does not draw has none."""
    graph, page = react_desk(), {"configurable": {"thread_id": "t", "assistant_id": "desk"}}
    graph.invoke(said("Go."), THREAD)
    assert chat_ui_draws(graph.get_state(page).values["messages"])
    monkeypatch.setenv("LOOPWRIGHT_CHAT_PANEL", "off")
    of_program, of_page = graph.get_state(THREAD).values, graph.get_state(page).values
    assert chat_ui_draws(of_program["messages"])
    assert not chat_ui_draws(of_page["messages"])
    assert of_page["messages"][:-1] == of_program["messages"]
    assert chat_ui_drops(of_page) == []
    newest = next(iter(graph.get_state_history(page)))
    assert newest.values["messages"][-1].id == of_page["messages"][-1].id
    told = [*graph.stream(Command(resume="approve"), page, stream_mode="values")]
    assert not chat_ui_draws(told[-1]["messages"])
    (asked,) = graph.get_state(page).interrupts
    done = graph.invoke(Command(resume={asked.id: "reject"}), page)
    assert not any(str(m.id).startswith("do-not-render-") for m in done["messages"])


def test_a_question_that_is_not_ours_keeps_the_panel(monkeypatch):
    """Agent Chat UI's panel is all that a tool's own `interrupt()` can be answered in."""
    monkeypatch.setenv("LOOPWRIGHT_CHAT_PANEL", "off")
    page = {"configurable": {"thread_id": "t", "assistant_id": "desk"}}

    def size(name: str) -> str:
        """The size of somebody."""
        return f"{name} wears {interrupt({'question': 'Which size?'})}"

    turns = [AIMessage("", tool_calls=[call("size", "1", name="Ada")]), AIMessage("She wears 40.")]
    graph = build_task_agent(ScriptedModel({"agent": turns}), [size], checkpointer=InMemorySaver())
    told = [*graph.stream(said("Go."), page, stream_mode="values")]
    state = graph.get_state(page)
    assert [one.value for one in state.interrupts] == [{"question": "Which size?"}]
    assert chat_ui_draws(state.values["messages"])
    assert chat_ui_draws(told[-1]["messages"])
