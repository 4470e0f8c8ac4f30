"""The client without the SDK's walk over the messages: the bytes that the stock client sends."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import openai._base_client
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI

from loopwright.models.choice import Models
from loopwright.models.openai_client import LeanChatOpenAI, sends_same_bytes
from loopwright.state.context import Context
from support.fake_openai import (
    ClosingHandler,
    Reply,
    bad_request,
    call as asked_call,
    fake_openai,
    serving,
)

Sent = tuple[str, dict[str, str], bytes]
WORDS = ("look", "写", "é\u2028", 'a "quote"', "\\n", "<b>", "", "😀", "null", "3.0")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["at"],
    "properties": {"at": {"type": "array", "items": {"type": "number"}}},
}  # fmt: skip


@contextmanager
def listening() -> Iterator[tuple[str, list[Sent]]]:
    """A server that keeps what it is sent, and takes none of it."""
    sent: list[Sent] = []

    class Handler(ClosingHandler):
        def do_POST(self) -> None:  # noqa: N802 - http.server names it
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sent.append((self.path, dict(self.headers), body))
            self.send_response(400)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with serving(Handler) as url:
        yield url, sent


def some_value(dice: random.Random, depth: int = 2) -> Any:
    kind = dice.randrange(7 if depth else 5)
    if kind == 5:
        return [some_value(dice, depth - 1) for _ in range(dice.randrange(3))]
    if kind == 6:
        return {dice.choice(WORDS): some_value(dice, depth - 1) for _ in range(dice.randrange(3))}
    return (dice.choice(WORDS), None, dice.random(), dice.randrange(-9, 10**12), True)[kind]


def text(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randrange(5)))


def turn(dice: random.Random, place: int) -> list[BaseMessage]:
    """One user's turn: a question, thoughts and calls, results, perhaps a text."""
    blocks: Any = [{"type": "text", "text": text(dice)}, PICTURE]
    asked = HumanMessage(dice.choice([text(dice), blocks]), name=dice.choice([None, "ann"]))
    ids = [f"call_{place}_{n}" for n in range(dice.randrange(4))]
    calls = [{"name": "look", "args": {"at": some_value(dice)}, "id": id_} for id_ in ids]
    said: Any = text(dice)
    if dice.random() < 0.4:
        thought = {"type": "reasoning", "id": f"rs_{place}", "summary": []}
        said = [thought, {"type": "text", "text": said}]
    broken = {"name": "look", "args": "{", "id": f"bad_{place}", "error": None}
    answer = AIMessage(
        said, tool_calls=calls, invalid_tool_calls=[broken] if dice.random() < 0.2 else [],
        id=dice.choice([None, f"msg_{place}", f"resp_{place}"]),
        additional_kwargs=dice.choice([{}, {"refusal": "no"}]),
        response_metadata=dice.choice([{}, {"id": f"resp_{place}"}]),
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )  # fmt: skip
    results = [ToolMessage(dice.choice([text(dice), blocks]), tool_call_id=id_) for id_ in ids]
    return [asked, answer, *results]


def tool(dice: random.Random, name: str) -> dict[str, Any]:
    function = {"name": name, "description": text(dice), "parameters": SCHEMA}
    return {"type": "function", "function": function | dice.choice([{}, {"strict": True}])}


def asked_for(dice: random.Random) -> dict[str, Any]:
    """What stands beside the messages: tools or a schema, mostly."""
    form = {"name": "Seen", "schema": SCHEMA, "strict": True}
    tools = [tool(dice, f"look{n}") for n in range(dice.randrange(1, 4))]
    strict = [t | {"function": t["function"] | {"strict": True}} for t in tools]
    wanted = {"response_format": {"type": "json_schema", "json_schema": form}}
    kinds: list[dict[str, Any]] = [
        {}, {"tools": tools}, {"tools": tools, "tool_choice": "none", "parallel_tool_calls": False},
        wanted, {"tools": strict, **wanted}, {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "web_search"}, *tools]}, {"stop": ["END"], "temperature": 0.5},
        {"extra_body": {"top_k": 3, "seed": 1}, "tools": tools}, {"top_p": 0.5, "user": "ann"},
    ]  # fmt: skip
    return dice.choice(kinds)


async def sent_by(kind: type[ChatOpenAI], url: str, seed: int) -> None:
    dice = random.Random(seed)
    settings: dict[str, Any] = dice.choice([
        {}, {"use_responses_api": True}, {"reasoning": {"effort": "low"}}, {"max_tokens": 9},
        {"model": "o3-mini"}, {"output_version": "responses/v1"}, {"model": "gpt-6"},
        {"use_responses_api": True, "use_previous_response_id": True}, {"streaming": True},
    ])  # fmt: skip
    key: Any = {"api_key": "none", "max_retries": 0, "base_url": url, "stream_usage": True}
    model = kind(**{"model": "gpt-5.4-mini", **key, **settings})
    history: list[BaseMessage] = [SystemMessage(text(dice))] if dice.random() < 0.8 else []
    for place in range(dice.randrange(1, 6)):
        history += turn(dice, place)
    options, way = asked_for(dice), dice.randrange(4)
    with suppress(openai.BadRequestError):
        if way == 0:
            model.invoke(history, **options)
        elif way == 1:
            [_ async for _ in model.astream(history, **options)]
        else:
            await model.ainvoke(history, **options)


async def test_40_random_requests_have_the_bytes_of_the_stock_client() -> None:
    assert sends_same_bytes()
    assert sends_same_bytes(responses=True)
    with listening() as (url, sent):
        for seed in range(40):
            await sent_by(ChatOpenAI, url, seed)
            await sent_by(LeanChatOpenAI, url, seed)
            (*_, stock, bypassed) = sent
            assert len(sent) == 2 * seed + 2, seed
            assert bypassed == stock, seed
    paths = {path for path, _, _ in sent}
    assert paths == {"/v1/chat/completions", "/v1/responses"}
    bodies = [json.loads(body) for _, _, body in sent]
    for part in ("tools", "stream", "response_format", "text", "previous_response_id", "top_k"):
        assert sum(bool(body.get(part)) for body in bodies) > 2, part
    assert sum(b'"image_url"' in body for _, _, body in sent) > 8


async def asked_of(model: ChatOpenAI, seed: int) -> None:
    dice = random.Random(seed)
    history: list[BaseMessage] = [SystemMessage("You look.")]
    for place in range(4):
        history += turn(dice, place)
        with suppress(openai.BadRequestError):
            await model.ainvoke(history, **asked_for(dice))


@pytest.mark.req("W-113")
async def test_a_model_that_the_program_built_sends_the_same_bytes_for_less_and_stays_as_it_is():
    with listening() as (url, sent):
        settings: dict[str, Any] = {"model": "x", "api_key": "none", "base_url": url}
        model = ChatOpenAI(**settings, max_retries=0)
        for seed in range(10):
            await asked_of(model, seed)
        fields, before = dict(vars(model)), [body for _, _, body in sent]
        models = Models({"thought": model, "action": model})
        chosen = models.choose("thought", Context())
        assert isinstance(chosen.model, LeanChatOpenAI)
        assert chosen.model.is_fast
        assert models.choose("action", Context()).model is chosen.model
        sent.clear()
        for seed in range(10):
            await asked_of(chosen.model, seed)
        assert [body for _, _, body in sent] == before
        assert type(model) is ChatOpenAI
        assert dict(vars(model)) == fields
        model.temperature = 0.25  # what the program changes later holds
        await asked_of(chosen.model, 0)
        assert json.loads(sent[-1][2])["temperature"] == 0.25


@pytest.mark.req("W-113")
def test_a_subclass_and_a_model_with_methods_of_its_own_are_taken_as_they_are():
    class Own(ChatOpenAI):
        """With what the program wants of it."""

    settings: dict[str, Any] = {"model": "x", "api_key": "none"}
    patched = ChatOpenAI(**settings)
    object.__setattr__(patched, "_agenerate", lambda *_, **__: None)
    for model in (Own(**settings), patched, LeanChatOpenAI(**settings)):
        assert Models(model).choose("thought", Context()).model is model


async def told_by(kind: type[ChatOpenAI], url: str, **options: Any) -> Any:
    model = kind(model="x", api_key="none", base_url=url, max_retries=0)  # type: ignore[arg-type]
    try:
        answer = await model.ainvoke("hi", **options)
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error), str(error)
    return answer.model_copy(update={"id": None})


async def test_answers_and_errors_are_those_of_the_stock_client() -> None:
    calls = [asked_call("look", '{"at": [1]}'), asked_call("look", "{", "call_2")]
    overflow = {"message": "too long", "code": "context_length_exceeded"}
    replies = [
        Reply("ok"), Reply(tool_calls=calls, finish_reason="tool_calls"), Reply(None, refusal="no"),
        Reply("cut", finish_reason="length", usage=None), bad_request("odd", "tools"),
        Reply(status=400, error=overflow), Reply(status=401), Reply(status=404),
        Reply(status=429, headers={"Retry-After": "7"}), Reply(status=500),
    ]  # fmt: skip
    for reply in replies:
        with fake_openai([reply]) as fake:
            for options in ({}, {"tools": [tool(random.Random(0), "look")]}):
                stock = await told_by(ChatOpenAI, fake.url, **options)
                assert await told_by(LeanChatOpenAI, fake.url, **options) == stock


async def test_where_other_bytes_would_be_sent_it_is_the_stock_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = openai._base_client._merge_mappings
    monkeypatch.setattr(
        openai._base_client,
        "_merge_mappings",
        lambda one, other: dict(reversed(merged(one, other).items())),
    )
    sends_same_bytes.cache_clear()
    try:
        assert not sends_same_bytes()
        with listening() as (url, sent):
            for kind in (ChatOpenAI, LeanChatOpenAI):
                await sent_by(kind, url, 3)
        assert sent[0] == sent[1]
    finally:
        sends_same_bytes.cache_clear()
