import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

from loopwright.models.ask import Answer, ask
from loopwright.models.choice import Models
from loopwright.models.scripted import ScriptedModel, Slow
from loopwright.state.context import Context
from loopwright.state.contracts import ExecutorResponse, PlannerResponse
from loopwright.turn.budget import Budget
from support.scope import scope_with

MESSAGES = [SystemMessage("You are the executor."), HumanMessage("{go} {{now}} %s")]
DONE = {"taskCompleted": True, "summary": "42 apples"}


async def asked(
    model: ScriptedModel,
    context: Context,
    ledger: Budget,
    events: list[Any] | None = None,
    **more: Any,
) -> Answer[ExecutorResponse]:
    scope = scope_with(context, budget=ledger, emit=(events if events is not None else []).append)
    return await ask(scope, Models(model), "executor", MESSAGES, contract=ExecutorResponse, **more)


@pytest.mark.req("S0-45")
async def test_an_answer_is_the_typed_contract_with_what_it_cost() -> None:
    context = Context()
    ledger = Budget(context)
    events: list[Any] = []
    answer = await asked(ScriptedModel([DONE]), context, ledger, events)
    assert answer.parsed == ExecutorResponse(task_completed=True, summary="42 apples")
    assert (answer.model, answer.asks, answer.complete) == ("scripted", 1, True)
    assert answer.refused is None
    assert answer.spend["by_role"]["executor"]["model_calls"] == 1
    assert ledger.usage["tokens"] > answer.spend["output_tokens"] > 0
    assert events == [
        {
            "type": "model",
            "role": "executor",
            "model": "scripted",
            "asks": 1,
            "input_tokens": answer.spend["input_tokens"],
            "output_tokens": answer.spend["output_tokens"],
        }
    ]


async def test_problems_found_by_the_caller_are_fed_back() -> None:
    model, context = ScriptedModel([DONE, {**DONE, "summary": "43 pears"}]), Context()

    def only_pears(report: ExecutorResponse) -> list[str]:
        return [] if "pears" in report.summary else ["the summary must speak of pears"]

    answer = await asked(model, context, Budget(context), check=only_pears)
    assert answer.parsed is not None
    assert answer.parsed.summary == "43 pears"
    assert "the summary must speak of pears" in model.asked[1].messages[-1].text
    assert "42 apples" in model.asked[1].messages[-2].text


@pytest.mark.req("S0-152")
async def test_no_call_is_made_beyond_the_budget() -> None:
    model, context = ScriptedModel(["bad", DONE, DONE]), Context(max_model_calls=1)
    ledger = Budget(context)
    events: list[Any] = []
    answer = await asked(model, context, ledger, events)
    assert answer.refused == "model_calls"
    assert answer.parsed is None
    assert answer.message.text == ""
    assert any("budget" in problem for problem in answer.problems)
    assert answer.spend["model_calls"] == len(model.asked) == 1
    budget = [event for event in events if event["type"] == "budget"]
    assert budget == [{"type": "budget", "limit": "model_calls", "used": 1, "of": 1}]
    assert (await asked(model, context, ledger)).asks == 0
    ledger.grant_last_turn()
    assert (await asked(model, context, ledger)).parsed is not None


async def test_branches_share_one_budget_of_tokens() -> None:
    usage = {"input_tokens": 300, "output_tokens": 100, "total_tokens": 400}
    report = AIMessage(json.dumps(DONE), usage_metadata=usage)
    model, context = (
        ScriptedModel(lambda _messages, _offered: Slow(0.01, report)),
        Context(max_tokens=2_000),
    )
    ledger, branches = Budget(context), 3

    async def branch() -> None:
        while not (await asked(model, context, ledger)).refused:
            pass

    await asyncio.gather(*(branch() for _ in range(branches)))
    used = ledger.usage["tokens"]
    assert used == len(model.asked) * 400 <= 2_000
    assert ledger.reached_limit == "tokens"


@pytest.mark.req("S0-45")
async def test_json_never_shows_in_the_messages_stream() -> None:
    model = ScriptedModel(["bad", {"todos": [{"description": "x"}]}])

    async def planner(state: MessagesState) -> dict[str, Any]:
        answer = await ask(
            scope_with(), Models(model), "planner", state["messages"], contract=PlannerResponse
        )
        assert answer.parsed is not None
        return {"messages": [AIMessage("A plan of one task.")]}

    graph = (
        StateGraph(MessagesState).add_node("planner", planner).add_edge(START, "planner").compile()
    )
    stream = graph.astream({"messages": [HumanMessage("hi")]}, stream_mode="messages")
    parts: list[Any] = [part async for part in stream]
    assert [chunk.text for chunk, _ in parts] == ["A plan of one task."]
