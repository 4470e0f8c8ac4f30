"""The end of a turn is told alike by every graph: what was done, what is in doubt, what is not."""

import asyncio
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    AgentDefinition,
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
    open_durability,
)
from loopwright.text.sentences import say
from support.flows import flow, step
from support.scripts import call, failed, passed, plan, report, thought, todo

THREAD: Any = {"configurable": {"thread_id": "t"}}
BUILD: Any = {
    "plan": build_plan_execute_verify, "react": build_react, "flow": build_prompt_flow,
    "agent": build_task_agent,
}  # fmt: skip


def said(text):
    return {"messages": [{"role": "user", "content": text}]}


class Till:
    """A tool that pays and never answers, one that looks, one that cannot."""

    def __init__(self) -> None:
        self.paying = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def tools(self) -> list[Any]:
        async def pay(to: str) -> str:
            self.loop.call_soon_threadsafe(self.paying.set)
            await asyncio.sleep(600)
            return f"paid {to}"

        async def look(name: str) -> str:
            return f"{name} is Ada"

        async def fail(name: str) -> str:
            msg = f"there is no {name}"
            raise ValueError(msg)

        made = [
            StructuredTool.from_function(coroutine=one, description="A tool.")
            for one in (pay, look, fail)
        ]
        for reading in made[1:]:
            reading.metadata = {"readOnlyHint": True}
        return made


def model():
    """It pays; asked again it looks once and answers."""
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "pay", [])), plan(todo("2", "ask", []))],
            "executor": [[call("pay", to="ada")], *[[call("look", name="x")], report("Ada.")]],
            "verifier": [passed("Ada.", t2=["2.1.0"])],
            "thought": [thought("I pay.", more=True), thought("I ask.", more=True),
                        thought("Ada.")],
            "action": [[call("pay", to="ada")], [call("look", name="x")]],
            "observation": ["It is there."],
            "flow_planner": [flow(step("s", "pay", arguments={"to": "ada"})),
                             flow(step("q", arguments={"name": "x"}))],
            "answerer": ["Ada [q]."],
            "agent": [[call("pay", to="ada")], [call("look", name="x")],
                      [call("complete_task", summary="Ada.")]],
        }
    )  # fmt: skip


@pytest.mark.req("P-06", "W-12")
@pytest.mark.parametrize("graph", BUILD)
async def test_a_write_that_was_cut_off_is_named_by_the_turn_after_it_in_every_graph(
    graph, tmp_path
):
    till = Till()
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        made = BUILD[graph](model=model(), tools=till.tools(), durability=durability)
        running = asyncio.ensure_future(made.ainvoke(said("Pay Ada."), THREAD))
        await till.paying.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        outcome = (await made.ainvoke(said("Who is x?"), THREAD))["outcome"]
    (doubt,) = outcome["uncertain_calls"]
    assert (doubt["tool"], doubt["arguments"]) == ("pay", {"to": "ada"})
    assert (outcome["status"], outcome["reason"]) == ("partial", "GOAL")
    assert 'It is not known whether pay({"to": "ada"}) took effect.' in outcome["unmet"]
    assert outcome["answer"].startswith("Ada")


ENDS = {
    ("plan", "look"): ("partial", "MAX_ROUNDS"),
    ("plan", "fail"): ("exhausted", "MAX_ROUNDS"),
    ("react", "look"): ("partial", "MAX_TURNS"),
    ("react", "fail"): ("exhausted", "MAX_TURNS"),
    ("agent", "look"): ("partial", "MAX_TURNS"),
    ("agent", "fail"): ("exhausted", "MAX_TURNS"),
    ("flow", "look"): ("partial", "BUDGET"),
    ("flow", "fail"): ("exhausted", "BUDGET"),
}


@pytest.mark.req("P-29", "W-21")
@pytest.mark.parametrize(("graph", "tool"), ENDS)
async def test_a_limit_leaves_partial_work_only_where_a_call_has_succeeded(graph, tool):
    scripted = ScriptedModel(
        {
            "planner": [plan(todo("1", f"ask {n}", [])) for n in range(3)],
            "executor": [[call(tool, name="x")], report("Ada.", taskCompleted=False)] * 3,
            "verifier": [failed(f"prove it {n}", t1=False) for n in range(3)],
            "thought": [*[thought("I ask.", more=True)] * 2, thought("I do not know.")],
            "action": [[call(tool, name="x")]],
            "observation": ["Hm."],
            "flow_planner": [flow(step("q", tool, arguments={"name": "x"}),
                                  step("r", tool, ["q"], arguments={"name": "y"}))],
            "answerer": ["Ada [q]."],
            "agent": [[call(tool, name="x")], [call("complete_task", summary="I do not know.")]],
        }
    )  # fmt: skip
    limits = Context(max_iterations=1, max_turns=1, max_tool_calls=1 if graph == "flow" else 50)
    made = BUILD[graph](model=scripted, tools=Till().tools())
    outcome = (await made.ainvoke(said("Who is x?"), context=limits))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ENDS[graph, tool]
    assert outcome["unmet"]


HOLLOW = "需求已满足。"


def always_hollow(graph):
    """A model that looks once and then says nothing but that, whoever asks."""
    once = [call("look", name="x")]

    def after(first, then):
        return lambda messages, _: then if messages[-1].type == "tool" else first

    ends = HOLLOW if graph == "lenient" else [call("complete_task", summary=HOLLOW)]
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "ask", []))] * 9,
            "executor": after(once, report("x is Ada.")),
            "verifier": [passed(HOLLOW, t1=["1.1.0"])] * 99,
            "thought": after(thought("I look.", more=True), thought(HOLLOW)),
            "action": [once] * 99,
            "flow_planner": [flow(step("q", arguments={"name": "x"}))],
            "answerer": [f"{HOLLOW} [q]"] * 9,
            "agent": lambda messages, _: once if messages[-1].type == "human" else ends,
            "dispatcher": [{"graph": "direct", "why": "known", "answer": HOLLOW}],
            "responder": [thought(HOLLOW)] * 9,
        }
    )


@pytest.mark.req("W-106")
@pytest.mark.parametrize("graph", [*BUILD, "lenient", "router"])
async def test_an_answer_that_says_nothing_is_the_end_of_no_graph(graph):
    build = {**BUILD, "lenient": build_task_agent, "router": build_router}[graph]
    lenient = {"definition": AgentDefinition(lenient=True)} if graph == "lenient" else {}
    scripted, context = always_hollow(graph), Context(observe="direct")
    made = build(model=scripted, tools=Till().tools()[1:], **lenient)
    outcome = (await made.ainvoke(said("Who is x?"), context=context))["outcome"]
    assert HOLLOW.strip("。") not in outcome["answer"]
    assert outcome["status"] != "complete" or "is Ada" in outcome["answer"]
    told = "\n".join(m.text for asked in scripted.asked for m in asked.messages)
    assert "says nothing" in told or "concrete data" in told
    if graph in ("plan", "react"):
        assert "that the needs are met" in told, "who judges is told to judge this"


@pytest.mark.req("W-107")
@pytest.mark.parametrize("graph", ["react", "agent"])
async def test_a_write_that_a_stop_kept_from_running_is_not_done_by_being_said(graph):
    """Two in one message; the turn is stopped in the first, and taken up by a model that lies."""
    paid = []

    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        await made.astop(THREAD)
        return f"paid {to}"

    both = [call("pay", "a", to="ada"), call("pay", "b", to="bob")]
    ends = [call("complete_task", summary="Both were paid.")]
    scripted = ScriptedModel(
        {
            "thought": [thought("I pay.", more=True), thought("Both were paid.")],
            "action": [both],
            "agent": [both, ends],
        }
    )
    made = BUILD[graph](model=scripted, tools=[pay], checkpointer=InMemorySaver())
    stopped = (await made.ainvoke(said("Pay both."), THREAD))["outcome"]
    resumed = (await made.ainvoke(None, THREAD))["outcome"]
    assert (stopped["status"], resumed["status"]) == ("cancelled", "partial")
    assert resumed["unmet"] == ['pay({"to": "bob"}) was not run.']
    assert paid == ["ada"]
    told = "\n".join(m.text for m in scripted.asked[-1].messages)
    assert say("stopped_first") in told
    assert say("superseded") not in told
