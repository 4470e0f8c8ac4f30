"""ChatOpenAI at a fraction of its cost: the same bytes, without the walk over every message.

Before the openai package sends a request it compares each part of it with all types it knows, once
more for every message of the history: at 100 turns that takes longer than all the rest of a call.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Final
from weakref import ref

import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models import base
from pydantic import PrivateAttr


class _Known:
    """Messages as they were spelled for the API of chats, each by itself: a history only grows.

    What a message is spelled as depends on nothing but what `_told` takes of it, which is compared:
    a program may change a message. System messages are spelled anew; models differ about them.
    """

    def __init__(self) -> None:
        self._spelled: dict[int, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}

    def spelled(self, messages: list[BaseMessage], make: Callable[[Any], Any]) -> dict[str, Any]:
        """The payload that `make` makes of messages, which here makes it of new ones alone."""
        told = [_told(message) for message in messages]
        known = [self._spelled.get(id(message), _NOTHING) for message in messages]
        old = [k[2] if k[1] == t else None for k, t in zip(known, told, strict=True)]
        new = [place for place, one in enumerate(old) if one is None]
        payload: dict[str, Any] = make([messages[place] for place in new])
        for place, spelled in zip(new, payload["messages"], strict=True):
            old[place] = spelled
            if (state := told[place]) is not None:
                self._keep(messages[place], state, spelled)
        return {**payload, "messages": old}

    def _keep(self, message: BaseMessage, told: tuple[Any, ...], spelled: dict[str, Any]) -> None:
        key = id(message)
        self._spelled[key] = ref(message, lambda _: self._spelled.pop(key, None)), told, spelled


def _told(message: BaseMessage) -> tuple[Any, ...] | None:
    """All that a message is spelled from, where that is text; None where it is not."""
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

    It takes what `ChatOpenAI` takes and gives what that gives. Where the installed packages would
    send other bytes, it is `ChatOpenAI` and nothing more; `loopwright doctor` says so.
    """

    @classmethod
    def lc_id(cls) -> list[str]:
        """Saved and traced as the class whose work it does."""
        return ChatOpenAI.lc_id()

    @property
    def lean(self) -> bool:
        """Whether it is more than `ChatOpenAI` here, as far as its own API goes."""
        return same_bytes(responses=self._use_responses_api({}))

    def model_post_init(self, context: Any, /) -> None:
        """Find out what is sent before an event loop would have to wait for it."""
        super().model_post_init(context)
        _ = self.lean

    _known: _Known = PrivateAttr(default_factory=_Known)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        def make(given: LanguageModelInput) -> dict[str, Any]:
            return ChatOpenAI._get_request_payload(self, given, stop=stop, **kwargs)

        responses = self._use_responses_api({**self._default_params, **kwargs})
        if not same_bytes(responses=responses):
            return make(input_)
        if responses:
            return _ready(self, make(input_))
        whole = isinstance(input_, list) and all(isinstance(m, BaseMessage) for m in input_)
        messages: Any = input_ if whole else self._convert_input(input_).to_messages()
        return _ready(self, self._known.spelled(messages, make))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        """As `ChatOpenAI` does it, but an answer in words or calls is read where it arrives.

        There it is handed to a thread of asyncio's few, which costs more than to read it.
        """
        given = {**self._default_params, **kwargs}
        special = self.include_response_headers or getattr(self, "_uses_gateway", False)
        if special or "response_format" in given or self._use_responses_api(given) or not _KNOWN:
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        try:
            answer = (await self.async_client.with_raw_response.create(**payload)).parse()
        except openai.BadRequestError as error:
            base._handle_openai_bad_request(error)
            raise
        except openai.APIError as error:
            base._handle_openai_api_error(error)
            raise
        return self._create_chat_result(answer, {})


class _Unchecked(ChatOpenAI):
    """The same, whatever is sent."""

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        return _ready(self, super()._get_request_payload(input_, stop=stop, **kwargs))


def _ready(client: ChatOpenAI, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with messages and tools as parts of the body that are sent as they are."""
    lean = _beside(payload, "messages", "input", "tools")
    # Where an answer is parsed the SDK reads the tools itself, and some choose the API.
    parsed = {"response_format", "text_format"} & payload.keys()
    if parsed or client._use_responses_api(lean) != client._use_responses_api(payload):
        return _beside(payload, "messages", "input")
    return lean


def _beside(payload: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The payload with these lists in `extra_body`, which is sent as it is.

    An empty list holds the place of each, for the order of the body is that of the payload.
    """
    moved = {name: payload[name] for name in names if isinstance(payload.get(name), list)}
    more = payload.get("extra_body") or {}
    return {**payload, **{name: [] for name in moved}, "extra_body": {**moved, **more}}


@cache
def same_bytes(*, responses: bool = False) -> bool:
    """Whether both ways send the same to an API of OpenAI; found out once, without a network."""
    # In a thread of its own, for an event loop may be running in this one.
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(asyncio.run, _compared(responses=responses))
    return told.exception() is None and told.result()


class _Ear(openai.DefaultAsyncHttpxClient):
    """Keeps the body of what it is given, and sends nothing."""

    body = b""

    async def send(self, request: Any, **_: Any) -> Any:
        self.body = request.content
        raise ConnectionError


async def _key() -> str:
    return "none"


async def _compared(*, responses: bool) -> bool:
    ear = _Ear(verify=SSLContext(PROTOCOL_TLS_CLIENT))  # no certificates are read for nothing
    settings: dict[str, Any] = {
        "model": "gpt", "api_key": _key, "max_retries": 0, "use_responses_api": responses,
        "http_async_client": ear,
    }  # fmt: skip
    stock, lean = ChatOpenAI(**settings), _Unchecked(**settings)
    for options in _ASKED:
        body = await _body(stock, ear, options)
        if not body or body != await _body(lean, ear, options):
            return False
    return True


async def _body(client: ChatOpenAI, ear: _Ear, options: Mapping[str, Any]) -> bytes:
    ear.body = b""
    with suppress(Exception):  # nothing answers; what else fails leaves no body
        if options.get("stream"):
            await anext(client._astream(_HISTORY))
        else:
            await client._agenerate(_HISTORY, **options)
    return ear.body


_KNOWN: Final = {"_handle_openai_bad_request", "_handle_openai_api_error"} <= vars(base).keys()
"""Whether errors can be told as the stock client tells them."""
_GROWING: Final = (HumanMessage, AIMessage, ToolMessage)
_NOTHING: Final = (None, (), None)
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
