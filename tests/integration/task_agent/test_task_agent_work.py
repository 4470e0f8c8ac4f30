"""What an agent does between its beginning and its end: calls, results, prompts, tiers, events."""

from typing import Annotated

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from loopwright import AgentDefinition, Context, ScriptedModel, build_task_agent
from loopwright.nodes.agent.shared.agent import Agent
from loopwright.nodes.parts import Parts
from loopwright.prompts.prompt import CORE_TEMPLATES
from loopwright.state.roles import TIERS
from support.office import Office, give
from support.openai_rules import problems
from support.places import DOCS
from support.reacting import THREAD, said, shelf
from support.scripts import call

READS = {"readOnlyHint": True}


def done(summary="Ada owns it.", **more):
    return [call("complete_task", summary=summary, **more)]


def run(turns, tools, context=None, **options):
    model = turns if isinstance(turns, ScriptedModel) else ScriptedModel(turns)
    graph = build_task_agent(model=model, tools=tools, **options)
    values = graph.invoke(said(), THREAD, context=context or Context())
    return values["outcome"], values["messages"], model


@pytest.mark.req("S4-13", "S4-15", "S4-21")
def test_words_calls_and_thoughts_of_a_turn_are_kept_apart_and_its_results_come_next():
    turn = AIMessage(
        "<think>the owner first</think>I look both up.",
        tool_calls=[call("look", "a", name="owner"), call("look", "b", name="price")],
    )
    _, messages, model = run([turn, done()], [shelf()])
    asked = model.asked[1].messages
    assert [m.type for m in asked[-3:]] == ["ai", "tool", "tool"]
    assert [m.text for m in asked[-3:]] == ["I look both up.", "Ada", "7 euro"]
    assert "the owner first" not in str([m.text for m in messages])


@pytest.mark.req("S3-05", "S3-06", "S3-07", "S3-40")
@pytest.mark.parametrize(
    ("update", "turns", "end"),
    [
        ({}, 2, ("complete", "GOAL")),
        ({"should_continue": False}, 1, ("partial", "GOAL")),
        ({"should_continue": False, "task_completed": True}, 1, ("complete", "GOAL")),
    ],
)
def test_whether_a_tool_succeeded_and_whether_it_stops_the_work_are_two_things(update, turns, end):
    def hand_over(to: str, call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Hand the case over."""
        told = ToolMessage(f"{to} has it now.", tool_call_id=call_id)
        return Command(update={"messages": [told], **update})

    outcome, _, model = run([[call("hand_over", to="Ada")], done()], [hand_over])
    assert len(model.asked) == turns
    assert (outcome["status"], outcome["reason"]) == end
    assert turns == 2 or "Ada has it now." in outcome["answer"]


@pytest.mark.req("S3-30", "S4-46")
def test_what_was_read_is_not_read_again_and_costs_nothing():
    calls = []

    def look(name: str) -> str:
        """Look up a fact."""
        calls.append(name)
        return "Ada"

    again = [[call("look", name="owner")], [call("look", name="owner")], done()]
    tool = StructuredTool.from_function(look, metadata=READS)
    outcome, messages, _ = run(again, [tool])
    assert (calls, outcome["spend"]["tool_calls"]) == (["owner"], 1)
    assert "agent.1.0" in [m.text for m in messages if m.type == "tool"][1]


@pytest.mark.req("S3-31")
def test_a_long_result_is_shown_in_part_and_read_on_for_nothing():
    def page(number: int) -> str:
        """A page of the book."""
        return "word " * 2_000 + "the end of it"

    tool = StructuredTool.from_function(page, metadata=READS)
    read = []

    def answer(messages, offered):
        newest = messages[-1].text
        if "the end of it" in newest and read:
            return done("It ends so.")
        if messages[-1].type == "tool" and "read_result" in newest:
            read.append(newest)
            key = newest.split('id": "')[-1].split('"')[0]
            key = key if len(key) < 100 else newest.split("'")[1]
            return [call("read_result", f"r{len(read)}", id=key, offset=8_000)]
        return [call("page", number=1)]

    outcome, messages, _ = run(
        ScriptedModel(answer), [tool], Context(result_cap=4_000), checkpointer=InMemorySaver()
    )
    assert outcome["status"] == "complete"
    assert outcome["spend"]["tool_calls"] == 1, "reading on is no call that is paid for"
    assert all(len(m.text) <= 4_500 for m in messages if m.type == "tool")


@pytest.mark.req("S3-08", "S4-03", "S4-57")
def test_the_prompt_says_how_to_work_and_how_to_end():
    prompt = CORE_TEMPLATES["en"]["task_agent"].lower()
    for words in (
        "understand", "plan", "verify", "end with complete_task", "blocked", "be brief",
        "never repeat the same", "never show secrets", "independent calls", "explain a call",
        "user has declined", "write down with note",
    ):  # fmt: skip
        assert words in prompt, words


@pytest.mark.req("S3-23", "S3-24", "S3-25", "S3-28")
def test_each_tier_has_its_model_and_an_agent_names_its_tier():
    for tier in TIERS:
        models = {name: ScriptedModel([done(name)]) for name in TIERS}
        outcome, _, _ = run_with(models, AgentDefinition(tier=tier))
        assert outcome["answer"] == tier
    outcome, _, _ = run_with({n: ScriptedModel([done(n)]) for n in TIERS}, AgentDefinition())
    assert outcome["answer"] == "balanced"


def run_with(models, definition):
    graph = build_task_agent(model=models, definition=definition)
    return graph.invoke(said())["outcome"], None, None


@pytest.mark.req("S3-03")
def test_an_agent_and_its_sub_agents_end_by_the_same_tool():
    office = Office(chief=[give("helper"), done("It is seven.")], helper=["Seven.", done("Seven.")])
    values = office.graph().invoke(said())
    assert values["outcome"]["status"] == "complete"
    inner = [a for a in office.model.asked if "I am helper." in a.messages[0].text]
    assert len(inner) == 2, "words alone end no agent"
    assert all("complete_task" in asked.tools for asked in office.model.asked)
    kinds = (AgentDefinition(), AgentDefinition(name="helper", read_only=True, tools=()))
    main, helper = (Agent.of(kind, Parts()).complete.spec() for kind in kinds)
    assert main == helper


@pytest.mark.req("S4-14", "S4-17", "S4-26")
def test_the_manual_says_what_takes_the_place_of_complete_task_and_which_event_is_which():
    page = DOCS.joinpath("task-agent.md").read_text(encoding="utf-8")
    for graph in ("plan_execute_verify", "react", "prompt_flow"):
        assert f"in `{graph}`" in page
    for event in (
        "THOUGHT_CHUNK", "TOOL_CALL_START", "LOOP_DETECTED", "protocol_violation", "Content",
        "ToolCallRequest", "ToolCallResponse", "Thought", "LoopDetected", "Finished",
    ):  # fmt: skip
        assert event in page
    assert "about 20 turns" in page


class Place(BaseModel):
    street: str
    number: int | None = None


class Owner(BaseModel):
    name: str
    places: list[Place]


@pytest.mark.req("S4-18", "P-31")
def test_the_tools_of_an_agent_are_spelled_as_every_provider_takes_them():
    for output in (None, Owner, {"type": "object", "properties": {"a": {"type": "integer"}}}):
        model = ScriptedModel([done(output={"name": "Ada", "places": [], "a": 1})])
        outcome, _, _ = run(model, [shelf()], definition=AgentDefinition(output=output))
        assert outcome["status"] == "complete"
        agent = Agent.of(AgentDefinition(output=output), Parts())
        specs = [tool.spec() for tool in agent.parts.toolbox._build_catalog(()).own.values()]
        assert agent.complete.spec() in specs
        assert {spec["function"]["name"]: problems(spec) for spec in specs if problems(spec)} == {}
