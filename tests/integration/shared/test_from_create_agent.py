"""What someone writes who knows LangChain's `create_agent`: each word is taken or explained."""

import inspect
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from loopwright import AgentDefinition, Context, Hook, ScriptedModel, build_react, build_task_agent
from loopwright.graphs.registry import REGISTRY
from support.reacting import said
from support.scripts import call, thought

BUILDERS = {entry.build.__name__: entry.build for entry in REGISTRY.values()}


class Price(BaseModel):
    """A price."""

    euros: int


@tool(return_direct=True)
def price(article: str) -> str:
    """What an article costs."""
    if article == "none":
        msg = "There is no such article."
        raise ValueError(msg)
    return f"{article}: 3 EUR" if article != "long" else "3 EUR or " * 4_000


@tool
def stock(article: str) -> str:
    """How many there are."""
    return f"{article}: 12 pieces"


for one in (price, stock):
    one.metadata = {"readOnlyHint": True}

TAKEN: dict[str, Any] = {
    "model": ScriptedModel(["Hello."]), "tools": [stock],
    "system_prompt": SystemMessage("Be brief."),
    "response_format": ToolStrategy(Price), "checkpointer": InMemorySaver(),
    "store": InMemoryStore(), "name": "desk", "debug": False, "cache": InMemoryCache(),
    "transformers": [],
}  # fmt: skip
EXPLAINED: dict[str, tuple[Any, str]] = {
    "middleware": ([object()], "hooks="),
    "state_schema": (dict, "node of your own graph"),
    "context_schema": (dict, "Context(tool_context="),
    "interrupt_before": (["tools"], 'policy="ask"'),
    "interrupt_after": (["model"], 'policy="ask"'),
}


@pytest.mark.req("W-150")
@pytest.mark.parametrize("builder", BUILDERS)
def test_each_argument_of_create_agent_is_taken_or_named_with_what_to_use(builder):
    build, theirs = BUILDERS[builder], inspect.signature(create_agent).parameters
    assert {*theirs} == {*TAKEN, *EXPLAINED}
    graph = build(**TAKEN)
    assert (graph.name, graph.checkpointer, graph.store, graph.cache) == (
        "desk", TAKEN["checkpointer"], TAKEN["store"], TAKEN["cache"],
    )  # fmt: skip
    for name, (value, advice) in EXPLAINED.items():
        with pytest.raises(TypeError) as refused:
            build("offline", **{name: value})
        words = str(refused.value)
        assert words.startswith(f"{builder}() got an unexpected keyword argument {name!r}. Use ")
        assert advice in words
        assert build("offline", **{name: theirs[name].default}).name


@pytest.mark.req("W-150")
@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("systemprompt", "Did you mean 'system_prompt'?"),
        ("max_model_calls", "pass context=Context(max_model_calls=…) to invoke"),
        ("prompt", "build_react() got 'prompt' and 'system_prompt', which mean the same"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(wrong, advice):
    with pytest.raises(TypeError) as refused:
        build_react("offline", [stock], system_prompt="Be brief.", **{wrong: "x"})
    assert advice in str(refused.value)


@pytest.mark.req("W-150")
@pytest.mark.parametrize("builder", BUILDERS)
async def test_model_and_tools_stand_first_and_the_system_prompt_is_told(builder):
    model = ScriptedModel(lambda _, __: "Hello.")
    graph = BUILDERS[builder](model, [stock], system_prompt="You sell stamps.")
    await graph.ainvoke(said("Sell me something."), context=Context(max_model_calls=3))
    heads = [asked.messages[0].text for asked in model.asked]
    assert [text.count("You sell stamps.") for text in heads if "stamps" in text][0:1] == [1]


def react_of(*calls: Any, **options: Any) -> tuple[ScriptedModel, Any]:
    steps = [thought("A step.", more=True) for _ in calls]
    model = ScriptedModel({"thought": [*steps, thought("3 EUR.")], "action": [*calls]})
    return model, build_react(model, [price, stock], observe="direct", **options)


def agent_of(*calls: Any, **options: Any) -> tuple[ScriptedModel, Any]:
    end = [call("complete_task", status="success", summary="3 EUR.")]
    model = ScriptedModel({"agent": [*calls, end]})
    return model, build_task_agent(model, [price, stock], **options)


@pytest.mark.req("W-150")
@pytest.mark.parametrize("make", [react_of, agent_of])
async def test_the_result_of_a_tool_of_return_direct_is_the_answer(make):
    """It is not if its call failed, or if another call of the message needs an answer."""
    both = [call("price", article="a"), call("price", article="b")]
    model, graph = make(both, policy="ask", checkpointer=InMemorySaver())
    place: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke(said(), place, context=Context())
    while (await graph.aget_state(place)).next:
        end = await graph.ainvoke(Command(resume={"type": "approve"}), place)
    assert (end["outcome"]["status"], end["outcome"]["answer"]) == (
        "complete", "a: 3 EUR\n\nb: 3 EUR",
    )  # fmt: skip
    assert end["messages"][-1].text == end["outcome"]["answer"]
    assert model.asked[-1].role in ("action", "agent")

    _, graph = make([call("price", article="long")])
    end = await graph.ainvoke(said())
    assert end["outcome"]["answer"] == price.invoke({"article": "long"})

    failed = [call("price", article="none")]
    mixed = [call("price", article="a"), call("stock", article="a")]
    for calls in (failed, mixed):
        _, graph = make(calls)
        end = await graph.ainvoke(said())
        assert end["outcome"]["answer"] == "3 EUR."


@pytest.mark.req("W-150", "W-144")
@pytest.mark.parametrize("make", [react_of, agent_of])
async def test_the_answer_of_return_direct_has_no_words_for_the_model(make):
    once = call("price", article="a")
    both = [once, call("stock", article="a")]

    def add_note(_: Any) -> dict[str, Any]:
        return {"hookSpecificOutput": {"additionalContext": "Tell nobody about the discount."}}

    _, graph = make(both, [once])
    assert (await graph.ainvoke(said()))["outcome"]["answer"] == "a: 3 EUR"
    _, graph = make([once, once])
    assert (await graph.ainvoke(said()))["outcome"]["answer"] == "a: 3 EUR\n\na: 3 EUR"
    _, graph = make([once], hooks=[Hook(event="AfterTool", run=add_note)])
    assert (await graph.ainvoke(said()))["outcome"]["answer"] == "a: 3 EUR"


@pytest.mark.req("W-150")
async def test_an_agent_that_must_give_an_output_gives_it_also_after_return_direct():
    end = call("complete_task", status="success", summary="3 EUR.", output={"euros": 3})
    model = ScriptedModel({"agent": [[call("price", article="a")], [end]]})
    graph = build_task_agent(model, [price], definition=AgentDefinition(output=Price))
    outcome = (await graph.ainvoke(said()))["outcome"]
    assert (outcome["status"], outcome["result"]) == ("complete", {"euros": 3})


@pytest.mark.req("W-150")
def test_a_graph_that_writes_its_answer_says_that_it_does_not_use_return_direct():
    for builder in ("build_plan_execute_verify", "build_prompt_flow", "build_customer_service"):
        with pytest.warns(UserWarning, match="react and task_agent do"):
            BUILDERS[builder]("offline", [price])
