"""The client of OpenAI-style servers: `ChatOpenAI` at a fraction of its cost, with the same bytes.

Before the openai package sends a request it compares each part of it with all types it knows, once
more for every message of the history: at 100 turns that takes longer than all the rest of a call.

Connections are kept from call to call, by each event loop its own: a connection works in the event
loop that opened it and in no other, but a client is shared by all that ask its model: by runs in
several loops, and by one loop after another.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Final

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr

from ..state.errors import ModelCallFailed
from ..state.limits import Gauge
from ..state.messages import MessageNotes
from ..text.loose_json import KeyTwice, load_json
from .refusals import refuse_answer


class _PayloadCache:
    """Messages as the API of chats has them, made once for each: a history only grows.

    The payload of a message depends on its state alone (`_state_of`), which is compared, for a
    program may change a message. Those of system messages are always made; models differ in them.
    """

    def __init__(self) -> None:
        self._made = MessageNotes[tuple[tuple[Any, ...], dict[str, Any]]]()

    def of(self, messages: list[BaseMessage], make: Callable[[Any], Any]) -> dict[str, Any]:
        """The payload that `make` makes of all messages; it is called with the new ones alone."""
        states = [_state_of(message) for message in messages]
        kept = [self._made.get(message) or _NOTHING for message in messages]
        parts = [k[1] if k[0] == state else None for k, state in zip(kept, states, strict=True)]
        new = [place for place, part in enumerate(parts) if part is None]
        payload: dict[str, Any] = make([messages[place] for place in new])
        for place, part in zip(new, payload["messages"], strict=True):
            parts[place] = part
            if (state := states[place]) is not None:
                self._made.put(messages[place], (state, part))
        return {**payload, "messages": parts}


def _state_of(message: BaseMessage) -> tuple[Any, ...] | None:
    """All that the payload of a message depends on, if that is text; else None."""
    fields = message.__dict__  # read at every request, and a model's own way to it is slower
    if not isinstance(fields["content"], str) or not isinstance(message, _GROWING):
        return None
    calls, broken = fields.get("tool_calls"), fields.get("invalid_tool_calls")
    more = fields["additional_kwargs"]
    return (
        type(message), fields["content"], fields["name"], fields.get("tool_call_id"),
        repr(calls) if calls else "", repr(broken) if broken else "", repr(more) if more else "",
    )  # fmt: skip


class LeanChatOpenAI(ChatOpenAI):
    """`ChatOpenAI` that sends the same bytes for less CPU time, the more so the longer the history.

    It takes what `ChatOpenAI` takes and gives what that gives, but for calls in doubt. If the
    installed packages would send other bytes, its requests are those of `ChatOpenAI`;
    `loopwright doctor` says so.
    """

    @classmethod
    def lc_id(cls) -> list[str]:
        """Saved and traced as the class whose work it does."""
        return ChatOpenAI.lc_id()

    @property
    def is_fast(self) -> bool:
        """Whether it takes its own way here: it does if that sends the same bytes."""
        return sends_same_bytes(responses=self._use_responses_api({}))

    def model_post_init(self, context: Any, /) -> None:
        """Find out what is sent before an event loop would have to wait for it."""
        super().model_post_init(context)
        _ = self.is_fast

    _payloads: _PayloadCache = PrivateAttr(default_factory=_PayloadCache)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        def make(given: LanguageModelInput) -> dict[str, Any]:
            return ChatOpenAI._get_request_payload(self, given, stop=stop, **kwargs)

        responses = self._use_responses_api({**self._default_params, **kwargs})
        if not sends_same_bytes(responses=responses):
            return make(input_)
        if responses:
            return _prepare_body(self, make(input_))
        whole = isinstance(input_, list) and all(isinstance(m, BaseMessage) for m in input_)
        messages: Any = input_ if whole else self._convert_input(input_).to_messages()
        return _prepare_body(self, self._payloads.of(messages, make))

    def _create_chat_result(self, response: Any, generation_info: Any = None) -> ChatResult:
        """Calls whose arguments leave something in doubt are invalid ones, with their text.

        `ChatOpenAI` fails at arguments that are no object, and of a key given twice it forgets one.
        """
        for choice in getattr(response, "choices", None) or ():
            for call in getattr(choice.message, "tool_calls", None) or ():
                function = getattr(call, "function", None)
                if function is not None and _is_in_doubt(function.arguments):
                    function.arguments = _DOUBT + function.arguments
        result = super()._create_chat_result(response, generation_info)
        for generation in result.generations:
            for broken in getattr(generation.message, "invalid_tool_calls", ()):
                broken["args"] = (broken["args"] or "").removeprefix(_DOUBT)
        return result


def make_lean(model: ChatOpenAI) -> ChatOpenAI:
    """A `LeanChatOpenAI` with the fields and clients of a model, which itself is not changed.

    A model with methods of its own is given back as it is.
    """
    own = vars(model).keys() - type(model).model_fields.keys()
    if any(callable(vars(model)[name]) for name in own):
        return model
    twin, private = object.__new__(LeanChatOpenAI), model.__pydantic_private__ or {}
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__"):
        object.__setattr__(twin, name, getattr(model, name))
    object.__setattr__(twin, "__pydantic_private__", {**private, "_payloads": _PayloadCache()})
    _ = twin.is_fast
    return twin


_DOUBT: Final = "\0"
"""Before the arguments of a call that must not be read as JSON."""


def _is_in_doubt(arguments: str | None) -> bool:
    """Whether the arguments of a call are JSON, but not one object without doubt."""
    try:
        return not isinstance(load_json(arguments or "{}"), dict | None)
    except KeyTwice:
        return True
    except (ValueError, RecursionError):
        return False


class _Unchecked(ChatOpenAI):
    """The same, whatever is sent."""

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        return _prepare_body(self, super()._get_request_payload(input_, stop=stop, **kwargs))


def _prepare_body(client: ChatOpenAI, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with messages and tools as parts of the body that are sent as they are."""
    slim = _to_extra_body(payload, "messages", "input", "tools")
    # If an answer is parsed the SDK reads the tools itself, and some choose the API.
    parsed = {"response_format", "text_format"} & payload.keys()
    if parsed or client._use_responses_api(slim) != client._use_responses_api(payload):
        return _to_extra_body(payload, "messages", "input")
    return slim


def _to_extra_body(payload: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The payload with these lists in `extra_body`, which is sent as it is.

    An empty list holds the place of each, for the order of the body is that of the payload.
    """
    moved = {name: payload[name] for name in names if isinstance(payload.get(name), list)}
    more = payload.get("extra_body") or {}
    return {**payload, **{name: [] for name in moved}, "extra_body": {**moved, **more}}


@cache
def sends_same_bytes(*, responses: bool = False) -> bool:
    """Whether both ways send the same to an API of OpenAI; found out once, without a network."""
    # In a thread of its own, for an event loop may be running in this one.
    with ThreadPoolExecutor(1) as pool:
        comparison = pool.submit(asyncio.run, _compare_bytes(responses=responses))
    return comparison.exception() is None and comparison.result()


class _RecordingClient(openai.DefaultAsyncHttpxClient):
    """Keeps the body of what it is given, and sends nothing."""

    body = b""

    async def send(self, request: Any, **_: Any) -> Any:
        self.body = request.content
        raise ConnectionError


async def _get_dummy_key() -> str:
    return "none"


async def _compare_bytes(*, responses: bool) -> bool:
    ear = _RecordingClient(
        verify=SSLContext(PROTOCOL_TLS_CLIENT)
    )  # no certificates are read for nothing
    settings: dict[str, Any] = {
        "model": "gpt", "api_key": _get_dummy_key, "max_retries": 0, "use_responses_api": responses,
        "http_async_client": ear,
    }  # fmt: skip
    stock, fast = ChatOpenAI(**settings), _Unchecked(**settings)
    for options in _ASKED:
        body = await _capture_body(stock, ear, options)
        if not body or body != await _capture_body(fast, ear, options):
            return False
    return True


async def _capture_body(
    client: ChatOpenAI, ear: _RecordingClient, options: Mapping[str, Any]
) -> bytes:
    ear.body = b""
    with suppress(Exception):  # nothing answers; what else fails leaves no body
        if options.get("stream"):
            await anext(client._astream(_HISTORY))
        else:
            await client._agenerate(_HISTORY, **options)
    return ear.body


_GROWING: Final = (HumanMessage, AIMessage, ToolMessage)
_NOTHING: Final = ((), None)
_PICTURE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
_HISTORY: Final[list[BaseMessage]] = [
    SystemMessage("You look."),
    HumanMessage([{"type": "text", "text": "Look: é"}, _PICTURE]),
    AIMessage("", tool_calls=[{"name": "look", "args": {"at": [1, None]}, "id": "c1"}]),
    ToolMessage("seen", tool_call_id="c1"),
]
_SCHEMA: Final = {
    "type": "object", "additionalProperties": False, "required": ["at"],
    "properties": {"at": {"type": "array", "items": {"type": "number"}}},
}  # fmt: skip
_TOOL: Final = {"name": "look", "description": "Look.", "parameters": _SCHEMA, "strict": True}
_FORM: Final = {"name": "Seen", "schema": _SCHEMA, "strict": True}
_ASKED: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"stream": True},
    {"tools": [{"type": "function", "function": _TOOL}], "tool_choice": "auto"},
    {"response_format": {"type": "json_schema", "json_schema": _FORM}},
)


# Connections.

_IDLE: Final = 16
"""Connections that wait for the next request: the pool asks each one's socket at every request."""


def _build_limits() -> Any:
    """The SDK's limits, but for how many connections may wait."""
    usual = openai.DEFAULT_CONNECTION_LIMITS
    return type(usual)(
        max_connections=usual.max_connections,
        max_keepalive_connections=_IDLE,
        keepalive_expiry=usual.keepalive_expiry,
    )


class _AnswerRefused(ModelCallFailed, openai.OpenAIError):
    """One that every version of the SDK passes on: some say of any other that nothing connected."""


async def _read_within_limit(read: Callable[..., Any], *options: Any) -> AsyncIterator[bytes]:
    """The pieces of a body; raises ModelCallFailed once they are too long together."""
    gauge = Gauge("model body")
    async for piece in read(*options):
        if why := gauge.take(piece):
            raise _AnswerRefused(str(refuse_answer(why)))
        yield piece


class PerLoopClient(openai.DefaultAsyncHttpxClient):
    """A client that any event loop may use. With a loop its connections end."""

    def __init__(self) -> None:
        """Read the certificates, once for all loops; nothing is connected yet."""
        # httpx or httpx2, as the installed SDK has it.
        package = openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
        self._certificates = sys.modules[package].create_ssl_context()
        super().__init__(verify=self._certificates)
        self._open: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncIterator[None]]] = {}

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request over a connection of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            for closed in [loop for loop in self._open.copy() if loop.is_closed()]:
                self._open.pop(closed, None)  # it was closed without an end
            own = openai.DefaultAsyncHttpxClient(verify=self._certificates, limits=_build_limits())
            until_the_end = self._close_with(loop, own)
            self._open[loop] = own, until_the_end
            await anext(until_the_end)
        own, streamed = self._open[loop][0], options.pop("stream", False)
        response = await own.send(request, stream=True, **options)
        vars(response)["aiter_bytes"] = partial(_read_within_limit, response.aiter_bytes)
        if not streamed:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response

    async def _close_with(self, loop: asyncio.AbstractEventLoop, own: Any) -> AsyncIterator[None]:
        """Close a loop's connections when it ends, for it ends what was begun in it and waits."""
        try:
            yield
        finally:
            self._open.pop(loop, None)
            await own.aclose()


@cache
def get_shared_client() -> PerLoopClient:
    """The client of all models of this process."""
    return PerLoopClient()
