"""Hooks around one ask: what is sent, by whom it is answered, what it costs."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from loopwright import Context, Hook, ScriptedModel
from loopwright.hooks.registry import Hooks
from loopwright.models.ask import ask
from loopwright.models.choice import Models
from loopwright.turn.budget import Budget
from support.scope import scope_with

PAY = {"type": "function", "function": {"name": "pay", "description": "", "parameters": {}}}
TALK = [
    SystemMessage("You are the executor."),
    HumanMessage("Pay Ada."),
    AIMessage(
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I pay."}],
        tool_calls=[{"name": "pay", "args": {"to": "ada"}, "id": "c1"}],
    ),
    ToolMessage("paid", tool_call_id="c1"),
]


async def asked(model, *hooks, tools=(), messages=TALK):
    ledger = Budget(Context())
    scope = scope_with(budget=ledger, hooks=Hooks(hooks))
    answer = await ask(scope, Models(model), "executor", messages, tools=tools)
    return answer, ledger


def before(output):
    return Hook(event="BeforeModel", run=lambda _: output)


async def test_an_answer_of_a_hook_costs_nothing():
    model = ScriptedModel([])
    answer, ledger = await asked(model, before({"llm_response": "cached"}))
    assert (answer.message.text, answer.asks, model.asked) == ("cached", 0, [])
    assert not ledger.usage["model_calls"]
    call = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": '{"n": 1}'}}
    answer, _ = await asked(model, before({"llm_response": {"tool_calls": [call]}}), tools=[PAY])
    assert answer.message.tool_calls[0]["args"] == {"n": 1}


async def test_a_refused_request_is_not_sent_and_a_refused_answer_was_paid_for():
    deny = {"decision": "deny", "reason": "out of hours"}
    model = ScriptedModel(["secret"])
    answer, _ = await asked(model, before(deny))
    assert (answer.refused, answer.asks, model.asked) == ("hook", 0, [])
    assert "out of hours" in answer.problems[0]
    answer, ledger = await asked(model, Hook(event="AfterModel", run=lambda _: deny))
    assert (answer.refused, answer.asks, answer.message.text) == ("hook", 1, "")
    assert ledger.usage["model_calls"] == answer.spend["model_calls"] == 1


async def test_calls_of_tools_a_hook_took_away_are_sent_back():
    none = Hook(event="BeforeToolSelection", run=lambda _: {"toolConfig": {"mode": "NONE"}})
    model = ScriptedModel([[{"name": "pay", "args": {}}]] * 3)
    answer, _ = await asked(model, none, tools=[PAY])
    assert answer.problems
    assert not answer.message.tool_calls
    assert model.asked[0].tools == []


@pytest.mark.parametrize(
    "output",
    [
        {"llm_request": {"messages": ["hello"]}},
        {"llm_request": {"messages": {"role": "user"}}},
        {"llm_request": {"messages": [{"role": "assistant", "content": "", "tool_calls": "x"}]}},
        {"llm_response": {"tool_calls": "x"}},
        {"llm_response": {"tool_calls": [5]}},
    ],
)
async def test_a_request_or_answer_of_another_shape_is_refused_not_raised(output):
    model = ScriptedModel(["done"])
    answer, _ = await asked(model, before(output))
    assert (answer.refused, model.asked) == ("hook", [])
    assert "cannot be read" in answer.problems[-1]
