"""How a turn of the ReAct loop ends where not everything goes well: hooks, doubts, loops."""

import asyncio
from typing import Annotated

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from loopwright import Hook, ScriptedModel, build_react, open_durability
from loopwright.text.sentences import say
from support.scripts import call, thought

THREAD = {"configurable": {"thread_id": "t"}}
PAY = thought("I pay Ada.", more=True)
DONE = thought("Ada is paid.")


def said(text="Pay Ada"):
    return {"messages": [{"role": "user", "content": text}]}


class Till:
    """A tool that pays and is told when to go on."""

    def __init__(self):
        self.paid = []
        self.reached = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.waits_for = "nobody"

    async def pay(self, to: str) -> str:
        """Pay somebody."""
        self.paid.append(to)
        if to == self.waits_for:
            assert self.loop
            self.loop.call_soon_threadsafe(self.reached.set)
            await asyncio.sleep(60)
        return f"paid {to}"


def one_payment(**scripts):
    return ScriptedModel(
        {
            "thought": [PAY, DONE, thought("Ada is paid, truly.")],
            "action": [[call("pay", to="ada")]],
            "observation": ["Ada got it."],
        }
        | scripts
    )


def build(model, *hooks, till=None, **options):
    options = {"checkpointer": InMemorySaver()} | options
    return build_react(model=model, tools=[(till or Till()).pay], hooks=hooks, **options)


def on(event, output, **options):
    return Hook(event=event, run=lambda _: output, **options)


def ended(outcome):
    return outcome["status"], outcome["reason"]


@pytest.mark.req("S4-38")
def test_every_hook_has_its_place_in_a_turn():
    seen, model = [], one_payment()
    events = ("SessionStart", "BeforeAgent", "BeforeModel", "AfterModel", "BeforeToolSelection",
              "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd", "Notification")  # fmt: skip
    hooks = [Hook(event=e, run=lambda given: seen.append(given["hook_event_name"])) for e in events]
    assert build(model, *hooks).invoke(said(), THREAD)["outcome"]["status"] == "complete"
    asked = ["BeforeModel", "AfterModel"]
    assert seen == [
        "SessionStart", "BeforeAgent", *asked, "BeforeModel", "BeforeToolSelection", "AfterModel",
        "BeforeTool", "AfterTool", *asked, *asked, "AfterAgent", "SessionEnd",
    ]  # fmt: skip


def test_a_hook_may_change_a_call_or_end_the_turn_before_or_after_it():
    till = Till()
    changed = {"hookSpecificOutput": {"toolInput": {"to": "bob"}}}
    build(one_payment(), on("BeforeTool", changed), till=till).invoke(said(), THREAD)
    assert till.paid == ["bob"]
    stop = {"continue": False, "stopReason": "enough"}
    for event, paid in (("BeforeTool", []), ("AfterTool", ["ada"])):
        till, model = Till(), one_payment()
        outcome = build(model, on(event, stop), till=till).invoke(said(), THREAD)["outcome"]
        assert ended(outcome) == ("blocked", "DENIED")
        assert "enough" in outcome["unmet"]
        assert till.paid == paid
        assert len(model.asked) == 2


async def cut_off(graph, till, *, at):
    """Start a run and cancel it while the tool pays `at`."""
    till.loop, till.waits_for = asyncio.get_running_loop(), at
    run = asyncio.create_task(graph.ainvoke(said(), THREAD))
    await till.reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    till.waits_for = "nobody"


@pytest.mark.req("P-06", "P-26")
async def test_a_new_message_after_a_cut_off_write_is_told_what_is_known(tmp_path):
    till = Till()
    wanted = [call("pay", "c1", to="bob"), call("pay", "c2", to="ada"), call("pay", "c3", to="eve")]
    model = one_payment(action=[wanted])
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = build(model, till=till, durability=durability, checkpointer=None)
        await cut_off(graph, till, at="ada")
        result = await graph.ainvoke(said("What happened?"), THREAD)
    told = {m.tool_call_id: (m.text, m.status) for m in result["messages"] if m.type == "tool"}
    assert told == {
        "c1": ("paid bob", "success"),
        "c2": (say("cut_off_under_way"), "error"),
        "c3": (say("superseded"), "error"),
    }
    assert [m.type for m in result["messages"]] == [
        "human", "ai", "ai", "tool", "tool", "tool", "human", "ai",
    ]  # fmt: skip
    assert till.paid == ["bob", "ada"]


@pytest.mark.req("P-06")
async def test_a_write_in_doubt_is_asked_about_or_blocks_the_turn(tmp_path):
    till, model = Till(), one_payment()
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = build(model, till=till, durability=durability, checkpointer=None)
        await cut_off(graph, till, at="ada")
        (question,) = (await graph.ainvoke(None, THREAD))["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        answered = await graph.ainvoke(Command(resume="respond: it was paid"), THREAD)
    assert ended(answered["outcome"]) == ("complete", "GOAL")
    assert answered["outcome"]["uncertain_calls"] == []
    assert till.paid == ["ada"]


class Outer(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.mark.req("S1-46")
async def test_the_loop_is_a_node_of_another_graph_and_its_question_resumes_there():
    till, model = Till(), one_payment()
    inner = build(model, till=till, policy="ask", checkpointer=None)
    outer = StateGraph(Outer)
    outer.add_node("loop", inner)
    outer.add_edge(START, "loop")
    graph = outer.compile(checkpointer=InMemorySaver())
    waiting = await graph.ainvoke(said(), THREAD)
    assert waiting["__interrupt__"][0].value["type"] == "tool_approval"
    result = await graph.ainvoke(Command(resume={"type": "approve"}), THREAD)
    assert result["messages"][-1].text == "Ada is paid."
    assert till.paid == ["ada"]
    texts = [m.text for m in result["messages"]]
    assert not any("agent_meta" in text for text in texts)


def test_a_hook_that_pauses_after_a_write_does_not_have_it_made_again():
    def look_at(_):
        return {"hookSpecificOutput": {"additionalContext": str(interrupt("May it be shown?"))}}

    till = Till()
    hook = Hook(event="AfterTool", run=look_at)
    graph = build_react(
        model=one_payment(), tools=[till.pay], hooks=[hook], checkpointer=InMemorySaver()
    )
    assert graph.invoke(said(), THREAD)["__interrupt__"][0].value == "May it be shown?"
    asked = graph.invoke(Command(resume="yes"), THREAD)["__interrupt__"][0].value
    assert asked["type"] == "uncertain_call"
    result = graph.invoke(Command(resume={"type": "respond", "message": "paid"}), THREAD)
    assert till.paid == ["ada"]
    assert result["outcome"]["status"] == "complete"
