"""A chat model for tests and demos: it replays given turns and records what it was asked."""

import asyncio
import json
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any, Final

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from ..state.errors import SettingsError
from ..state.roles import ROLE_METADATA, ROLES
from ..state.snapshot import count_call_tokens
from ..text.loose_json import extract

_WORD: Final = re.compile(r"\S+\s*|\s+")
_ARGUMENTS_PIECE: Final = 16


class ScriptExhausted(AssertionError):
    """The script has no turn left for a call that was made."""


ScriptedReply = AIMessage | str | dict[str, Any] | list[dict[str, Any]] | Exception


@dataclass(frozen=True)
class Slow:
    """A turn that takes its time: seconds, then the turn."""

    seconds: float
    turn: ScriptedReply


@dataclass(frozen=True)
class Asked:
    """One call of a scripted model."""

    role: str
    """As the metadata of the call's config tells it; "" if it does not."""
    messages: list[BaseMessage]
    tools: list[str]
    schema: str | None
    may_call: bool = True
    """False if the tools are only shown: its `tool_choice` is none."""


Turn = ScriptedReply | Slow
Script = Callable[[list[BaseMessage], list[str]], Turn | Awaitable[Turn]]
Turns = Sequence[Turn] | Script


class ScriptedModel(BaseChatModel):
    """Replays turns, one for each call, so that tests of a graph need no provider.

    A turn is an `AIMessage`, a text, a dict (sent as JSON), a list of tool calls (each with `name`
    and `args`; one without `id` gets a new one), an exception to raise, or any of these as
    `Slow(seconds, turn)`. Turns are given

    - in order: `ScriptedModel(["first answer", {"taskCompleted": True, "summary": "42"}])`,
    - by role, which a graph tells in the metadata of each call's config:
      `ScriptedModel({"planner": [plan], "executor": [[{"name": "add", "args": {}}], report]})`,
    - by a function of the messages and the names of the schema and the tools it may call; it may be
      async: `ScriptedModel(lambda messages, offered: f"seen {len(messages)} messages")`.

    `astream` gives text by words and tool calls by pieces, with usage. `asked` lists every call.

    Raises:
        ScriptExhausted: On a call for which no turn is left; names the role.
    """

    _scripts: dict[str, Script | Iterator[Turn]] = PrivateAttr()
    _by_role: bool = PrivateAttr()
    _asked: list[Asked] = PrivateAttr(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, turns: Turns | Mapping[str, Turns], **kwargs: Any) -> None:
        """Take the script; it is not changed, so one script may serve several models."""
        super().__init__(**kwargs)
        self._by_role = isinstance(turns, Mapping)
        scripts = turns if isinstance(turns, Mapping) else {"": turns}
        self._scripts = {role: s if callable(s) else iter(s) for role, s in scripts.items()}

    @property
    def asked(self) -> list[Asked]:
        """The calls made so far, in order; a copy."""
        with self._lock:
            return list(self._asked)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; a script sees their names."""
        specs = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=specs, **kwargs)

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **_: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Ask for a schema, as providers with native JSON schemas do; the answer is not checked."""
        wanted = convert_to_openai_tool(schema)["function"]
        bound = self.bind(response_format={"type": "json_schema", "json_schema": wanted})

        def parse(raw: AIMessage) -> Any:
            parsed, _ = extract(raw.text)
            return {"raw": raw, "parsed": parsed, "parsing_error": None} if include_raw else parsed

        return bound | RunnableLambda(parse)

    # LangChain hands the config's metadata on to `_generate`, but not to `_stream`.

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Give the next turn of the role that the config's metadata tells."""
        return super().invoke(input, config, **_with_role(config, kwargs))

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Give the next turn, as `invoke` does."""
        return await super().ainvoke(input, config, **_with_role(config, kwargs))

    async def astream(
        self, input: Any, config: Any = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        """Stream the next turn."""
        async for chunk in super().astream(input, config, **_with_role(config, kwargs)):
            yield chunk

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        return _result(self._reply(messages, kwargs))

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        return _result(await self._areply(messages, kwargs))

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _pieces(await self._areply(messages, kwargs)):
            yield chunk

    def _reply(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        turn = self._next(messages, kwargs)
        if isawaitable(turn):
            if iscoroutine(turn):
                turn.close()
            msg = "This script is async: call the model with ainvoke or astream."
            raise TypeError(msg)
        turn, seconds = (turn.turn, turn.seconds) if isinstance(turn, Slow) else (turn, 0.0)
        time.sleep(seconds)
        return _message(turn, messages)

    async def _areply(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        turn = self._next(messages, kwargs)
        if isawaitable(turn):
            turn = await turn
        turn, seconds = (turn.turn, turn.seconds) if isinstance(turn, Slow) else (turn, 0.0)
        await asyncio.sleep(seconds)
        return _message(turn, messages)

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Turn | Awaitable[Turn]:
        wanted = kwargs.get("response_format") or {}
        asked = Asked(
            role=str(kwargs.get(ROLE_METADATA, "")),
            messages=list(messages),
            tools=[tool["function"]["name"] for tool in kwargs.get("tools") or []],
            schema=wanted.get("json_schema", {}).get("name"),
            may_call=kwargs.get("tool_choice") != "none",
        )
        with self._lock:
            self._asked.append(asked)
            script = self._scripts.get(asked.role if self._by_role else "", iter(()))
            turn = None if callable(script) else next(script, None)
        if callable(script):
            offered = asked.tools if asked.may_call else []
            return script(messages, [*offered, *([asked.schema] if asked.schema else [])])
        if turn is None:
            raise ScriptExhausted(self._explain_exhausted(asked))
        return turn

    def _explain_exhausted(self, asked: Asked) -> str:
        whom = f"the role {asked.role!r}" if asked.role else "a call that tells no role"
        whose = f" for {sorted(self._scripts)}" if self._by_role else ""
        last = asked.messages[-1].text[:200] if asked.messages else ""
        return f"The script{whose} has no turn left for {whom}; it was asked: {last!r}"


def _with_role(config: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    metadata = ensure_config(config).get("metadata", {})
    return {ROLE_METADATA: metadata.get(ROLE_METADATA, ""), **kwargs}


def _message(turn: Any, messages: list[BaseMessage]) -> AIMessage:
    if isinstance(turn, Exception):
        raise turn
    if isinstance(turn, AIMessage):
        message = turn.model_copy()
    elif isinstance(turn, list):
        calls = [{"id": f"call_{uuid.uuid4().hex[:12]}", "args": {}} | call for call in turn]
        message = AIMessage("", tool_calls=calls)
    else:
        message = AIMessage(turn if isinstance(turn, str) else json.dumps(turn))
    if not message.usage_metadata:
        asked, answered = count_call_tokens(messages, message)
        message.usage_metadata = UsageMetadata(
            input_tokens=asked, output_tokens=answered, total_tokens=asked + answered
        )
    return message


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _pieces(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """The message as chunks that add up to it: words, pieces of arguments, then the rest."""
    rest = AIMessageChunk(
        content="" if isinstance(message.content, str) else message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )
    words = _WORD.findall(message.content) if isinstance(message.content, str) else []
    chunks = [AIMessageChunk(content=word) for word in words]
    chunks += [AIMessageChunk(content="", tool_call_chunks=[p]) for p in _call_pieces(message)]
    for chunk in [*chunks, rest]:
        chunk.id = message.id
        yield ChatGenerationChunk(message=chunk)


def _call_pieces(message: AIMessage) -> Iterator[ToolCallChunk]:
    calls = [(c["name"], json.dumps(c["args"]), c["id"]) for c in message.tool_calls]
    calls += [(c["name"] or "", c["args"] or "", c["id"]) for c in message.invalid_tool_calls]
    for index, (name, arguments, call_id) in enumerate(calls):
        yield ToolCallChunk(name=name, args="", id=call_id, index=index, type="tool_call_chunk")
        for start in range(0, len(arguments), _ARGUMENTS_PIECE):
            piece = arguments[start : start + _ARGUMENTS_PIECE]
            yield ToolCallChunk(name=None, args=piece, id=None, index=index, type="tool_call_chunk")


def read_script(path: str) -> ScriptedModel:
    """A model that plays a file: a JSON object of role to list of turns.

    A turn is a text, an object (sent as JSON), a list of tool calls `{"name", "args"}`,
    `{"error": "why"}` for a call that fails, or `{"seconds": 1.5, "turn": …}` for one that takes
    its time.

    Raises:
        SettingsError: The file cannot be read or is no such script; says where and what to do.
    """
    try:
        return ScriptedModel(_script_of(json.loads(Path(path).read_text("utf-8"))))
    except OSError as error:
        why = f"{error.strerror or error}"
    except RecursionError:
        why = "it is nested too deeply"
    except (ValueError, TypeError) as error:
        why = str(error)
    msg = (
        f"The script {path} cannot be played: {why}. Give a JSON object such as "
        '{"planner": [{"todos": [{"id": "1", "description": "look"}]}], "executor": ["done"]}.'
    )
    raise SettingsError(msg)


def _script_of(script: object) -> dict[str, list[Turn]]:
    if not isinstance(script, dict):
        msg = "it is no JSON object of role to turns"
        raise TypeError(msg)
    for role, turns in script.items():
        if role not in ROLES or not isinstance(turns, list):
            msg = f"{role!r} is no role with a list of turns; the roles are {', '.join(ROLES)}"
            raise TypeError(msg)
    return {
        role: [_turn_of(turn, f"turn {n} of {role!r}") for n, turn in enumerate(turns, start=1)]
        for role, turns in script.items()
    }


def _turn_of(turn: Any, where: str) -> Any:
    """A turn as JSON spells it."""
    if isinstance(turn, dict) and turn.keys() == {"error"}:
        return RuntimeError(str(turn["error"]))
    if isinstance(turn, dict) and turn.keys() == {"seconds", "turn"}:
        return Slow(max(0.0, float(turn["seconds"])), _turn_of(turn["turn"], where))
    if isinstance(turn, str | dict):
        return turn
    if isinstance(turn, list) and all(isinstance(c, dict) and c.get("name") for c in turn):
        return turn
    msg = (
        f"{where} is neither a text nor an object nor a list of tool calls such as "
        '{"name": "add", "args": {}}'
    )
    raise TypeError(msg)
