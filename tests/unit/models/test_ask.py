import asyncio
import json
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

from loopwright.models.ask import Answer, ask
from loopwright.models.choice import Models
from loopwright.models.scripted import ScriptedModel, Slow
from loopwright.state.context import Context
from loopwright.state.contracts import ExecutorResponse, PlannerResponse
from loopwright.state.errors import ModelCallFailed
from loopwright.turn.budget import Budget
from support.fake_openai import Reply, fake_openai
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


async def test_messages_reach_the_model_as_they_are_braces_and_all() -> None:
    model, context = ScriptedModel([DONE]), Context()
    await asked(model, context, Budget(context))
    assert model.asked[0].messages == MESSAGES
    assert model.asked[0].schema == "ExecutorResponse"


async def test_problems_found_by_the_caller_are_fed_back() -> None:
    model, context = ScriptedModel([DONE, {**DONE, "summary": "43 pears"}]), Context()

    def only_pears(report: ExecutorResponse) -> list[str]:
        return [] if "pears" in report.summary else ["the summary must speak of pears"]

    answer = await asked(model, context, Budget(context), check=only_pears)
    assert answer.parsed is not None
    assert answer.parsed.summary == "43 pears"
    assert "the summary must speak of pears" in model.asked[1].messages[-1].text
    assert "42 apples" in model.asked[1].messages[-2].text


async def test_the_repair_shows_the_last_bad_answer_only() -> None:
    model, context = ScriptedModel(["first", "second", DONE]), Context()
    await asked(model, context, Budget(context))
    assert [m.text for m in model.asked[2].messages[2:3]] == ["second"]
    assert len(model.asked[2].messages) == 4


async def test_long_bad_answers_are_quoted_in_part() -> None:
    model, context = ScriptedModel(["x" * 50_000, DONE]), Context()
    await asked(model, context, Budget(context))
    assert len(model.asked[1].messages[2].text) < 10_000


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


async def test_the_event_loop_is_never_blocked() -> None:
    environ = {"LOOPWRIGHT_MODEL": "openai:m"}
    with fake_openai([Reply(json.dumps(DONE))]) as server, blockbuster_ctx("loopwright"):
        models = Models(environ={**environ, "OPENAI_BASE_URL": server.url})
        answer = await ask(scope_with(), models, "executor", MESSAGES, contract=ExecutorResponse)
    assert answer.parsed is not None


async def test_a_failed_call_counts_as_a_call() -> None:
    context = Context(model_retries=0)
    ledger = Budget(context)
    with pytest.raises(ModelCallFailed):
        await asked(ScriptedModel([ConnectionError("down")]), context, ledger)
    assert ledger.usage["model_calls"] == 1


async def test_another_model_that_had_to_be_asked_is_noted_without_the_errors_words() -> None:
    def provider(request: dict[str, Any]) -> Reply:
        if request["model"] == "first":
            return Reply(status=500, error={"message": "the key sk-1 is out of order"})
        return Reply(json.dumps(DONE))

    context = Context(model_retries=0, fallback_models=["second"])
    with fake_openai(provider) as server:
        models = Models("first", environ={"OPENAI_BASE_URL": server.url})
        scope = scope_with(context)
        answer = await ask(scope, models, "executor", MESSAGES, contract=ExecutorResponse)
    assert answer.model == "second"
    (note,) = scope.notes
    assert "The executor's model first did not answer" in note
    assert "second was asked instead" in note
    assert "sk-1" not in note
    scope = scope_with()
    await ask(scope, Models(ScriptedModel([DONE])), "executor", MESSAGES)
    assert scope.notes == []


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
