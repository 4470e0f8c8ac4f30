import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.errors import GraphInterrupt

from loopwright.models.ask import Answer, ask
from loopwright.models.choice import Models
from loopwright.models.refusals import retry_after
from loopwright.models.scripted import ScriptedModel, ScriptExhausted, Slow
from loopwright.state.context import Context
from loopwright.state.contracts import ExecutorResponse
from loopwright.state.errors import ModelCallFailed
from support.fake_openai import FakeOpenAI, Reply, fake_openai
from support.scope import scope_with

DONE = '{"taskCompleted": true, "summary": "42 apples"}'
MESSAGES = [
    SystemMessage("You are the executor. Answer with ExecutorResponse."),
    HumanMessage("go"),
]


def of(server: FakeOpenAI, **more: str) -> Models:
    environ = {"OPENAI_BASE_URL": server.url, "LOOPWRIGHT_MODEL": "openai:m", **more}
    return Models(environ=environ)


async def asked(
    models: Models,
    events: list[dict[str, Any]] | None = None,
    role: str = "executor",
    **settings: Any,
) -> Answer[ExecutorResponse]:
    scope = scope_with(Context(**settings), emit=(events if events is not None else []).append)
    return await ask(scope, models, "executor", MESSAGES, contract=ExecutorResponse)


@pytest.mark.req("P-08")
async def test_three_times_429_then_an_answer_waits_as_long_as_asked() -> None:
    busy = Reply(status=429, headers={"Retry-After": "0.2"}, error={"message": "slow down"})
    events: list[dict[str, Any]] = []
    with fake_openai([busy, busy, busy, Reply(DONE)]) as server:
        answer = await asked(of(server), events)
    assert answer.parsed is not None
    assert answer.parsed.summary == "42 apples"
    assert answer.asks == 1
    assert len(server.requests) == 4
    gaps = [later - earlier for earlier, later in zip(server.times, server.times[1:], strict=False)]
    assert min(gaps) >= 0.19
    retries = [event for event in events if event["type"] == "retry"]
    assert [event["attempt"] for event in retries] == [1, 2, 3]
    assert {event["delay"] for event in retries} == {0.2}
    assert retries[0] | {"error": ""} == {
        "type": "retry",
        "role": "executor",
        "model": "openai:m",
        "attempt": 1,
        "delay": 0.2,
        "error": "",
    }


@pytest.mark.req("P-08")
async def test_a_hanging_model_ends_at_the_deadline() -> None:
    with fake_openai([Reply(hang=600)]) as server:
        with pytest.raises(ModelCallFailed, match=r"no answer within 0\.3 s"):
            await asked(of(server), model_deadline=0.3)
        assert len(server.requests) == 1


@pytest.mark.req("P-08")
async def test_the_fallback_is_visible_and_named_in_the_answer() -> None:
    events: list[dict[str, Any]] = []
    with fake_openai([Reply(status=503), Reply(DONE)]) as server:
        answer = await asked(
            of(server), events, model_retries=0, fallback_models=["openai:second", "openai:third"]
        )
    assert answer.model == "openai:second"
    assert [request["model"] for request in server.requests] == ["m", "second"]
    fallback = next(event for event in events if event["type"] == "fallback")
    assert (fallback["role"], fallback["model"], fallback["to"]) == (
        "executor",
        "openai:m",
        "openai:second",
    )
    assert "by_model" in answer.spend
    assert set(answer.spend["by_model"]) == {"openai:m", "openai:second"}


@pytest.mark.req("P-08")
async def test_a_wrong_key_is_not_retried_and_says_what_to_mend() -> None:
    denied = Reply(status=401, error={"message": "Incorrect API key provided"})
    wanted = r"Incorrect API key.*correct that, then resume"
    with fake_openai([denied]) as server, pytest.raises(ModelCallFailed, match=wanted):
        await asked(of(server))
    assert len(server.requests) == 1


async def test_no_more_calls_at_once_than_allowed() -> None:
    running = most = 0

    async def count(_messages: object, _offered: object) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return {"taskCompleted": True, "summary": "42"}

    models = Models(ScriptedModel(count))
    await asyncio.gather(*(asked(models, max_parallel_models=2) for _ in range(8)))
    assert most == 2


async def test_interrupts_cancellation_and_script_errors_pass() -> None:
    with pytest.raises(GraphInterrupt):
        await asked(Models(ScriptedModel([GraphInterrupt()])))
    with pytest.raises(ScriptExhausted):
        await asked(Models(ScriptedModel([])))
    waiting = asyncio.create_task(asked(Models(ScriptedModel([Slow(5, "late")]))))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Refused(Exception):
    def __init__(
        self, status_code: int | None = None, given: str | None = None, name: str = "retry-after"
    ) -> None:
        self.status_code = status_code
        self.response = type("Response", (), {"headers": {name: given}})


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    assert retry_after(Refused(429, "2.5")) == 2.5
    assert retry_after(Refused(429, "-1")) == 0
    soon = retry_after(Refused(429, format_datetime(datetime.now(UTC) + timedelta(seconds=30))))
    assert soon is not None
    assert 20 < soon <= 30
    assert retry_after(Refused(429, format_datetime(datetime.now(UTC) - timedelta(hours=1)))) == 0
    assert retry_after(Refused(429, "soon")) is None
    assert retry_after(Refused(429, "1500", "retry-after-ms")) == 1.5
    assert retry_after(Refused(429, "soon", "retry-after-ms")) is None
    assert retry_after(Refused(429)) is None
    assert retry_after(ValueError()) is None
