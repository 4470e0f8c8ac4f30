"""A model on record: it keeps what it is asked and what it answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from ..state.context import Context
from ..state.roles import ROLE_METADATA
from ..store.base.recordings import Recordings
from ..text.loose_json import read_arguments
from .choice import Models, name_of
from .refusals import delay_before, status_of

MODEL: Final = "model"
_NOTED: Final = "loopwright_asked"
_FROM: Final = "loopwright_from"
_SETTINGS: Final = ("temperature", "top_p", "max_tokens", "reasoning_effort", "seed")


def record_model(model: str | BaseChatModel, folder: str | Path) -> BaseChatModel:
    """The model, which from now on keeps each request and its answer as a file in a folder.

    It can be used like the model itself. Secrets of the environment are masked.

    Args:
        model: A chat model, or `provider:name`.
        folder: Where to; it is made if it is not there.

    Raises:
        ModelUnavailable: The model cannot be built.
    """
    if isinstance(model, str):
        model = Models(model).choose("", Context()).model
    recorded = model.model_copy()
    object.__setattr__(recorded, "__class__", _record_class(type(model)))
    private = {**(model.__pydantic_private__ or {})}
    private |= {"_tape": Recordings(folder), "_plain": type(model), "_schema": None}
    object.__setattr__(recorded, "__pydantic_private__", {**private, "_refuses": set()})
    return recorded


class _Recorder(BaseChatModel):
    """The part of a recorded model that stands before its own class."""

    _tape: Recordings = PrivateAttr()
    _plain: type[BaseChatModel] = PrivateAttr()
    _schema: dict[str, Any] | None = PrivateAttr(default=None)
    _refuses: set[str] = PrivateAttr(default_factory=set)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Offer tools, as the model does; noted in the one spelling that recordings have."""
        try:
            bound = super().bind_tools(tools, **kwargs)
        except NotImplementedError:
            self._refuses.add("bind_tools")
            raise
        noted = {"tools": list(map(spell_tool, tools)), "tool_choice": kwargs.get("tool_choice")}
        return bound.bind(**{_NOTED: noted}) if hasattr(bound, "bind") else bound

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        """Ask for a schema, as the model does."""
        noted = self.model_copy()
        noted._schema = spell_tool(schema)
        try:
            return super(_Recorder, noted).with_structured_output(schema, **kwargs)
        except NotImplementedError:
            self._refuses.add("with_structured_output")
            raise

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Ask, and keep it."""
        return super().invoke(input, config, **_note_origin(config, kwargs))

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:
        """Ask, and keep it."""
        return await super().ainvoke(input, config, **_note_origin(config, kwargs))

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[AIMessageChunk]:
        """Ask, and keep it."""
        yield from super().stream(input, config, **_note_origin(config, kwargs))

    async def astream(
        self, input: Any, config: Any = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:
        """Ask, and keep it."""
        async for chunk in super().astream(input, config, **_note_origin(config, kwargs)):
            yield chunk

    def _split(self, messages: Any, stop: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The model itself, and what is kept of the request; `kwargs` lose what is ours."""
        origin, noted = kwargs.pop(_FROM, {}), kwargs.pop(_NOTED, {})
        if self._schema is not None:
            noted = {}
        elif not noted and kwargs.get("tools"):
            noted = {"tools": [*map(spell_tool, kwargs["tools"])]}
        request = {
            "messages": [*map(message_to_json, messages)],
            "tools": noted.get("tools") or [],
            "tool_choice": noted.get("tool_choice"),
            "schema": self._schema,
            "stop": stop,
        }
        settings = {name: getattr(self, name, None) for name in _SETTINGS}
        record = {
            **origin,
            "model": name_of(self),
            "profile": self.profile,
            "settings": {name: value for name, value in settings.items() if value is not None},
            "refuses": sorted(self._refuses),
            "request": request,
        }
        plain = self.model_copy()
        object.__setattr__(plain, "__class__", self._plain)
        return plain, record


def _generate(self: Any, messages: Any, stop: Any = None, manager: Any = None, **kw: Any) -> Any:
    plain, record = self._split(messages, stop, kw)
    try:
        result = plain._generate(messages, stop, manager, **kw)
    except Exception as error:
        self._tape.save(MODEL, record | _error_to_json(error))
        raise
    self._tape.save(MODEL, record | _result_to_json(result))
    return result


async def _agenerate(
    self: Any, messages: Any, stop: Any = None, manager: Any = None, **kw: Any
) -> Any:
    plain, record = self._split(messages, stop, kw)
    try:
        result = await plain._agenerate(messages, stop, manager, **kw)
    except Exception as error:
        await asyncio.to_thread(self._tape.save, MODEL, record | _error_to_json(error))
        raise
    await asyncio.to_thread(self._tape.save, MODEL, record | _result_to_json(result))
    return result


def _stream(self: Any, messages: Any, stop: Any = None, manager: Any = None, **kw: Any) -> Any:
    plain, record = self._split(messages, stop, kw)
    pieces = []
    try:
        for chunk in plain._stream(messages, stop, manager, **kw):
            pieces.append(chunk)
            yield chunk
    except Exception as error:
        self._tape.save(MODEL, record | _error_to_json(error))
        raise
    self._tape.save(MODEL, record | _pieces_to_json(pieces))


async def _astream(
    self: Any, messages: Any, stop: Any = None, manager: Any = None, **kw: Any
) -> Any:
    plain, record = self._split(messages, stop, kw)
    pieces = []
    try:
        async for chunk in plain._astream(messages, stop, manager, **kw):
            pieces.append(chunk)
            yield chunk
    except Exception as error:
        await asyncio.to_thread(self._tape.save, MODEL, record | _error_to_json(error))
        raise
    await asyncio.to_thread(self._tape.save, MODEL, record | _pieces_to_json(pieces))


_WAYS: Final = {f.__name__: f for f in (_generate, _agenerate, _stream, _astream)}


@cache
def _record_class(of: type[BaseChatModel]) -> type[BaseChatModel]:
    """A class of recorded models: of the ways to ask it has those that the model itself has."""
    own = {n: f for n, f in _WAYS.items() if getattr(of, n) is not getattr(BaseChatModel, n)}
    return type(of.__name__, (_Recorder, of), {"__module__": of.__module__, **own})


def _note_origin(config: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    given = ensure_config(config)
    metadata, keys = given.get("metadata", {}), given.get("configurable", {})
    thread = keys.get("thread_id") or metadata.get("thread_id") or ""
    return {**kwargs, _FROM: {"role": metadata.get(ROLE_METADATA, ""), "thread": str(thread)}}


def spell_tool(tool: Any) -> dict[str, Any]:
    """A tool or a schema in OpenAI's format, without its shell."""
    try:
        function: dict[str, Any] = convert_to_openai_tool(tool)["function"]
    except (ValueError, TypeError, KeyError):
        return tool if isinstance(tool, dict) else {"name": str(tool)}
    return function


def message_to_json(message: BaseMessage) -> dict[str, Any]:
    """What a provider reads of a message."""
    shown: dict[str, Any] = {"type": message.type, "content": message.content}
    if name := getattr(message, "name", None):
        shown["name"] = name
    if calls := [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]:
        shown["tool_calls"] = [{key: c[key] for key in ("name", "args", "id")} for c in calls]
    if call := getattr(message, "tool_call_id", None):
        shown |= {"tool_call_id": call, "status": getattr(message, "status", "success")}
    return shown


def _pieces_to_json(pieces: Sequence[ChatGenerationChunk]) -> dict[str, Any]:
    about: dict[str, Any] = {}
    for piece in pieces:
        about |= piece.generation_info or {}
    whole = AIMessageChunk(content="") + [cast("AIMessageChunk", p.message) for p in pieces]
    return _answer_to_json(whole, about)


def _result_to_json(result: ChatResult) -> dict[str, Any]:
    (first, *_) = result.generations
    return _answer_to_json(
        first.message, {**(result.llm_output or {}), **(first.generation_info or {})}
    )


def _answer_to_json(message: Any, about: Mapping[str, Any]) -> dict[str, Any]:
    """An answer, and what is said about it. Arguments are a text where they are in doubt."""
    sent = getattr(message, "tool_call_chunks", None) or message.invalid_tool_calls
    whole = [] if getattr(message, "tool_call_chunks", None) else message.tool_calls
    calls = [{"name": c["name"], "id": c["id"], "args": c["args"]} for c in whole]
    for call in sent:
        args, problem = read_arguments(call["args"] or "")
        shown = call["args"] or "" if problem else args
        calls.append({"name": call["name"] or "", "id": call["id"], "args": shown})
    answer = {
        "content": message.content,
        "tool_calls": calls,
        "usage": message.usage_metadata,
        "response_metadata": {**about, **message.response_metadata},
        "additional_kwargs": message.additional_kwargs,
    }
    return {"answer": {name: value for name, value in answer.items() if value}}


def _error_to_json(error: Exception) -> dict[str, Any]:
    status = status_of(error)
    known = {name: getattr(error, name, None) for name in ("code", "param")}
    kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, Exception)]
    told = {"kinds": kinds, "text": str(error), "status_code": status, **known}
    told["again"] = delay_before(0, error) is not None
    return {"error": {name: value for name, value in told.items() if value is not None}}
