"""Structured answers and provider quirks over real HTTP."""

from inspect import signature
from typing import Any

import openai
import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from loopwright.models.ask import Answer, ask
from loopwright.models.choice import Models
from loopwright.state.context import Context
from loopwright.state.contracts import ExecutorResponse
from support.fake_openai import FakeOpenAI, Reply, bad_request, call, fake_openai
from support.scope import scope_with

DONE = '{"taskCompleted": true, "summary": "42 apples"}'
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}
_TELLS_FILTERED = "completion" in signature(openai.ContentFilterFinishReasonError).parameters
"""Whether the client says what a filtered answer has cost; older ones keep it to themselves."""
MESSAGES = [
    SystemMessage("You are the executor. Answer with ExecutorResponse."),
    HumanMessage("go"),
]


def of(server: FakeOpenAI) -> Models:
    return Models(environ={"OPENAI_BASE_URL": server.url, "LOOPWRIGHT_MODEL": "openai:m"})


def client(server: FakeOpenAI, **options: Any) -> ChatOpenAI:
    key = SecretStr("none")
    return ChatOpenAI(model="m", base_url=server.url, api_key=key, max_retries=0, **options)


async def asked(
    models: Models, events: list[dict[str, Any]] | None = None, **options: Any
) -> Answer[ExecutorResponse]:
    emit = (events if events is not None else []).append
    scope = scope_with(Context(model_retries=0), emit=emit)
    return await ask(scope, models, "executor", MESSAGES, contract=ExecutorResponse, **options)


def has_tools(request: dict[str, Any]) -> bool:
    return bool(request.get("tools"))


async def test_a_contract_is_asked_for_with_the_providers_own_schema() -> None:
    with fake_openai([Reply(DONE)]) as server:
        answer = await asked(of(server))
    assert answer.parsed is not None
    wanted = server.requests[0]["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["name"] == "ExecutorResponse"
    assert "taskCompleted" in wanted["json_schema"]["schema"]["properties"]
    assert "tools" not in server.requests[0]
    assert (answer.spend["input_tokens"], answer.spend["output_tokens"]) == (11, 7)
    assert answer.spend["by_model"] == {
        "openai:m": {"model_calls": 1, "input_tokens": 11, "output_tokens": 7}
    }


@pytest.mark.req("P-47")
@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("Unknown parameter: 'response_format'.", "response_format"),
        ("This model does not support json_schema", None),
        ("structured outputs are not available here", None),
    ],
)
async def test_without_a_native_schema_the_contract_is_a_tool_ever_after(
    message: str, param: str | None
) -> None:
    def script(request: dict[str, Any]) -> Reply:
        if "response_format" in request:
            return bad_request(message, param)
        return Reply(None, [call("ExecutorResponse", DONE)], "tool_calls")

    with fake_openai(script) as server:
        models = of(server)
        first, second = await asked(models), await asked(models)
    assert first.parsed == second.parsed
    assert first.parsed is not None
    assert first.message.tool_calls == []
    assert ["response_format" in request for request in server.requests] == [True, False, False]
    assert server.requests[1]["tools"][0]["function"]["name"] == "ExecutorResponse"
    assert "tool_choice" not in server.requests[1]


@pytest.mark.req("P-47")
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/m does not support tools"),
        (400, "Unsupported parameter: 'tools'."),
        (400, "`tool calling` is not supported with this model"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice to be set'),
        (404, "No endpoints found that support tool use."),
        (422, "tools: extra fields not permitted"),
    ],
)
async def test_a_model_without_tools_answers_without_them_and_that_is_told(
    status: int, message: str
) -> None:
    def script(request: dict[str, Any]) -> Reply:
        refusal = Reply(status=status, error={"message": message})
        return refusal if has_tools(request) else Reply(DONE)

    events: list[dict[str, Any]] = []
    with fake_openai(script) as server:
        models = of(server)
        for _ in range(2):
            assert (await asked(models, events, tools=[ADD])).parsed is not None
    assert [has_tools(request) for request in server.requests] == [True, False, False]
    warnings = [event["text"] for event in events if event["type"] == "warning"]
    assert warnings == ["The model openai:m takes no tools: it answers without them."]


@pytest.mark.req("P-47")
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0.7}, "temperature"),
        ({"max_tokens": 100}, "max_completion_tokens"),
        ({"seed": 7}, "seed"),
        ({"model_kwargs": {"tool_choice": "required"}}, "tool_choice"),
    ],
)
async def test_a_parameter_refused_by_name_is_dropped_once_and_for_all(
    given: dict[str, Any], sent: str
) -> None:
    def script(request: dict[str, Any]) -> Reply:
        return bad_request(f"Unsupported parameter: '{sent}'.") if sent in request else Reply(DONE)

    with fake_openai(script) as server:
        models = Models(client(server, **given))
        for _ in range(2):
            assert (await asked(models, tools=[ADD])).parsed is not None
    assert [has_tools(request) for request in server.requests] == [True] * 3
    assert [sent in request for request in server.requests] == [True, False, False]


@pytest.mark.req("P-11")
@pytest.mark.parametrize("mode", ["native", "tools"])
@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(DONE[:20], finish_reason="length"), "cut off at the length limit"),
        (Reply(None, finish_reason="content_filter"), "content filter"),
        (Reply("no"), "no JSON object"),
    ],
)
async def test_bad_answers_of_a_provider_are_asked_again(
    reply: Reply, problem: str, mode: str
) -> None:
    with fake_openai([reply, Reply(DONE)]) as server:
        answer = await asked(of(server), tools=[ADD] if mode == "tools" else [])
    assert answer.parsed is not None
    assert answer.asks == 2
    assert problem in server.requests[1]["messages"][-1]["content"]
    is_estimated = mode == "native" and problem == "content filter" and not _TELLS_FILTERED
    assert (answer.spend["input_tokens"] == 22) != is_estimated


@pytest.mark.req("P-11")
async def test_a_bad_answer_for_ever_ends_after_three_asks() -> None:
    with fake_openai([Reply(DONE[:20], finish_reason="length")]) as server:
        answer = await asked(of(server))
    assert answer.parsed is None
    assert len(server.requests) == answer.asks == 3
    assert not answer.complete


def streaming(server: FakeOpenAI) -> Models:
    return Models(client(server, streaming=True, stream_usage=True))


@pytest.mark.req("P-47")
async def test_a_server_that_refuses_stream_options_is_asked_without() -> None:
    def script(request: dict[str, Any]) -> Reply:
        refused = "stream_options" in request
        return bad_request("stream_options is not supported") if refused else Reply(DONE)

    with fake_openai(script) as server:
        answer = await asked(streaming(server), tools=[ADD])
    assert answer.parsed is not None
    assert answer.spend["output_tokens"] > 0
    assert ["stream_options" in request for request in server.requests] == [True, False]
