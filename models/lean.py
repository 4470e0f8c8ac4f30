"""ChatOpenAI at a fraction of its cost: the same bytes, without the walk over every message.

Before the openai package sends a request it compares each part of it with all types it knows, once
more for every message of the history: at 100 turns that takes longer than all the rest of a call.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Final

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI


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

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        lean = same_bytes(responses="input" in payload)
        return _ready(self, payload) if lean else payload


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
