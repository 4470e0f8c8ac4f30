"""A chat model for tests and demos: it replays given turns and records what it was asked."""

import asyncio
import json
import re
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any, Final

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from ..state.errors import SettingsError
from ..state.roles import ROLE_METADATA, ROLES
from ..turn.budget import tokens_of
from .reading import extract

_WORD: Final = re.compile(r"\s*\S+\s*")
_ARGUMENTS_PIECE: Final = 16


class ScriptExhausted(AssertionError):
    """The script has no turn left for a call that was made."""


@dataclass(frozen=True)
class Slow:
    """A turn that takes its time: seconds, then the turn."""

    seconds: float
    turn: "Turn"


@dataclass(frozen=True)
class Asked:
    """One call of a scripted model."""

    role: str
    """As the metadata of the call's config tells it; "" where it does not."""
    messages: list[BaseMessage]
    tools: list[str]
    schema: str | None
    time: float
    """Seconds of `time.monotonic()`."""


Turn = AIMessage | str | dict[str, Any] | list[dict[str, Any]] | Exception | Slow
Script = Callable[[list[BaseMessage], list[str]], Turn | Awaitable[Turn]]
Turns = Sequence[Turn] | Script


class ScriptedModel(BaseChatModel):
    """Replays turns, one for each call, so that tests of a graph need no provider.

    A turn is an `AIMessage`, a text, a dict (sent as JSON), a list of tool calls (each with `name`
    and `args`), an exception to raise, or any of these as `Slow(seconds, turn)`. Turns are given

    - in order: `ScriptedModel(["first answer", {"taskCompleted": True, "summary": "42"}])`,
    - by role, which a graph tells in the metadata of each call's config:
      `ScriptedModel({"planner": [plan], "executor": [[{"name": "add", "args": {}}], report]})`,
    - by a function of the messages and the names of the tools and the schema offered; it may be
      async: `ScriptedModel(lambda messages, offered: f"seen {len(messages)} messages")`.

    Streams text by words and tool calls by pieces, with usage. `asked` lists every call made.

    Raises:
        ScriptExhausted: On a call for which no turn is left; names the role.
    """

    _turns: Turns | Mapping[str, Turns] = PrivateAttr()
    _used: MutableMapping[str, int] = PrivateAttr(default_factory=dict)
    _asked: list[Asked] = PrivateAttr(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, turns: Turns | Mapping[str, Turns], **kwargs: Any) -> None:
        """Take the script; it is not changed, so one script may serve several models."""
        super().__init__(**kwargs)
        self._turns = turns

    @property
    def asked(self) -> list[Asked]:
        """The calls made so far, in order; a copy."""
        with self._lock:
            return list(self._asked)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; a script sees their names."""
        specs = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=specs, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **_: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Ask for a schema, as providers with native JSON schemas do; the answer is not checked."""
        name = convert_to_openai_tool(schema)["function"]["name"]
        bound = self.bind(response_format={"type": "json_schema", "json_schema": {"name": name}})

        def parse(raw: AIMessage) -> Any:
            parsed = extract(raw.text).value
            return {"raw": raw, "parsed": parsed, "parsing_error": None} if include_raw else parsed

        return bound | RunnableLambda(parse)

    # LangChain hands the config's metadata on to `_generate`, but not to `_stream`.

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Give the next turn of the role that the config's metadata tells."""
        return super().invoke(input, config, **_with_role(config, kwargs))

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Give the next turn, as `invoke` does."""
        return await super().ainvoke(input, config, **_with_role(config, kwargs))

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[AIMessageChunk]:
        """Stream the next turn."""
        yield from super().stream(input, config, **_with_role(config, kwargs))

    async def astream(
        self, input: Any, config: Any = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        """Stream the next turn."""
        async for chunk in super().astream(input, config, **_with_role(config, kwargs)):
            yield chunk

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - langchain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - langchain's signature
        **kwargs: Any,
    ) -> ChatResult:
        turn, seconds = self._next(messages, kwargs)
        time.sleep(seconds)
        if isawaitable(turn):
            if iscoroutine(turn):
                turn.close()
            msg = "This script is async: call the model with ainvoke or astream."
            raise TypeError(msg)
        return ChatResult(generations=[ChatGeneration(message=_message(turn, messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - langchain's signature
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 - langchain's signature
        **kwargs: Any,
    ) -> ChatResult:
        message = await self._answer(messages, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        result = self._generate(messages, stop, **kwargs)
        for chunk in _pieces(result.generations[0].message):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - langchain's signature
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _pieces(await self._answer(messages, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _answer(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        turn, seconds = self._next(messages, kwargs)
        if isawaitable(turn):
            turn = await turn
        turn, more = _unhurried(turn)
        await asyncio.sleep(seconds + more)
        return _message(turn, messages)

    def _next(
        self, messages: list[BaseMessage], kwargs: dict[str, Any]
    ) -> tuple[Turn | Awaitable[Turn], float]:
        asked = _asked(messages, kwargs)
        with self._lock:
            self._asked.append(asked)
            turns = self._script(asked.role)
            if not callable(turns):
                key = asked.role if isinstance(self._turns, Mapping) else ""
                place = self._used.get(key, 0)
                self._used[key] = place + 1
        if callable(turns):
            offered = [*asked.tools, *([asked.schema] if asked.schema else [])]
            turn = turns(messages, offered)
        elif place < len(turns):
            turn = turns[place]
        else:
            raise ScriptExhausted(_exhausted(asked, len(turns)))
        return (turn, 0.0) if isawaitable(turn) else _unhurried(turn)

    def _script(self, role: str) -> Turns:
        if not isinstance(self._turns, Mapping):
            return self._turns
        if role not in self._turns:
            whom = repr(role) if role else "a call that tells no role in its metadata"
            msg = f"The script has turns for {sorted(self._turns)}, none for {whom}."
            raise ScriptExhausted(msg)
        return self._turns[role]


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


def _script_of(found: object) -> dict[str, Turns]:
    if not isinstance(found, dict):
        msg = "it is no JSON object of role to turns"
        raise TypeError(msg)
    return {role: _turns_of(role, turns) for role, turns in found.items()}


def _turns_of(role: str, turns: object) -> list[Turn]:
    if role not in ROLES:
        msg = f"there is no role {role!r}; the roles are {', '.join(ROLES)}"
        raise ValueError(msg)
    if not isinstance(turns, list):
        msg = f"what {role!r} says is no list of turns"
        raise TypeError(msg)
    return [_turn_of(turn, f"turn {n} of {role!r}") for n, turn in enumerate(turns, start=1)]


def _turn_of(turn: Any, where: str) -> Turn:
    """A turn as JSON spells it."""
    if isinstance(turn, dict) and turn.keys() == {"error"}:
        return RuntimeError(str(turn["error"]))
    if isinstance(turn, dict) and turn.keys() == {"seconds", "turn"}:
        return Slow(max(0.0, float(turn["seconds"])), _turn_of(turn["turn"], where))
    if isinstance(turn, list) and not all(isinstance(c, dict) and c.get("name") for c in turn):
        msg = f'{where} is a list, but not of tool calls such as {{"name": "add", "args": {{}}}}'
        raise TypeError(msg)
    if not isinstance(turn, str | dict | list):
        msg = f"{where} is neither a text nor an object nor a list of tool calls"
        raise TypeError(msg)
    return turn


def _with_role(config: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    metadata = ensure_config(config).get("metadata", {})
    return {ROLE_METADATA: metadata.get(ROLE_METADATA, ""), **kwargs}


def _asked(messages: list[BaseMessage], kwargs: dict[str, Any]) -> Asked:
    wanted = kwargs.get("response_format") or {}
    return Asked(
        role=str(kwargs.get(ROLE_METADATA, "")),
        messages=list(messages),
        tools=[tool["function"]["name"] for tool in kwargs.get("tools") or []],
        schema=wanted.get("json_schema", {}).get("name"),
        time=time.monotonic(),
    )


def _exhausted(asked: Asked, turns: int) -> str:
    last = asked.messages[-1].text[:200] if asked.messages else ""
    who = f"the role {asked.role!r}" if asked.role else "this call"
    return f"The script has {turns} turns, none is left for {who}; it was asked: {last!r}"


def _unhurried(turn: Any) -> tuple[Turn, float]:
    seconds = 0.0
    while isinstance(turn, Slow):
        turn, seconds = turn.turn, seconds + turn.seconds
    return turn, seconds


def _message(turn: Any, messages: list[BaseMessage]) -> AIMessage:
    if isinstance(turn, Exception):
        raise turn
    if isinstance(turn, AIMessage):
        message = turn.model_copy()
    elif isinstance(turn, list):
        message = AIMessage("", tool_calls=[_call(n, call) for n, call in enumerate(turn)])
    else:
        message = AIMessage(turn if isinstance(turn, str) else json.dumps(turn))
    if not message.usage_metadata:
        asked, answered = tokens_of(messages, message)
        message.usage_metadata = {
            "input_tokens": asked,
            "output_tokens": answered,
            "total_tokens": asked + answered,
        }
    return message


def _call(number: int, call: dict[str, Any]) -> Any:
    return {"id": f"call_{number}", "args": {}, "type": "tool_call"} | call


def _pieces(message: BaseMessage) -> Iterator[ChatGenerationChunk]:
    """The message as chunks that add up to it: words, pieces of arguments, then the rest."""
    if not isinstance(message, AIMessage):
        return
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
