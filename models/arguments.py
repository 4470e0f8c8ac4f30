"""The arguments of calls as a provider streamed them: what was cut is closed by no parser here."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
)

from ..text.canonical import storable

_SHORT: Final = 10_000
_MORE: Final = 50
"""Of a text longer than `_SHORT` the listener is told when it has grown by one part in so many."""


class Heard(AsyncCallbackHandler):
    """Listens to one model call, and keeps what is streamed of its tool calls.

    LangChain joins the chunks of a stream to a message that no longer has the text of the
    arguments, only what its parser made of it; that parser closes what was cut.
    """

    run_inline = True

    def __init__(
        self,
        tell: Callable[[str], None] | None = None,
        pieces: Callable[[AIMessageChunk], None] | None = None,
    ) -> None:
        """Nothing is heard yet; `tell` is given all that is written, text or arguments.

        Whoever is told reads all of it: of a long text that is not done at every piece. `pieces`
        is given each.
        """
        self._each = pieces
        self._chunks: list[AIMessageChunk] = []
        self._tell, self._written = tell, list[str]()
        self._length = self._next = 0

    async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Nothing; without it LangChain makes one text of all messages, for listeners to texts."""

    async def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:  # noqa: ARG002 - LangChain's signature
        """Keep a piece of the stream."""
        piece = getattr(chunk, "message", None)
        if self._each is not None and isinstance(piece, AIMessageChunk):
            self._each(piece)
        if self._tell is not None and isinstance(piece, AIMessageChunk):
            pieces = [piece.text, *(part["args"] or "" for part in piece.tool_call_chunks)]
            self._written += pieces
            self._length += sum(map(len, pieces))
            if self._length >= self._next:
                self._next = self._length + max(0, self._length - _SHORT) // _MORE
                self._tell("".join(self._written))
        if isinstance(piece, AIMessageChunk) and piece.tool_call_chunks:
            bare = AIMessageChunk(content="", tool_call_chunks=piece.tool_call_chunks)
            self._chunks.append(bare)

    def whole(self, message: AIMessage) -> AIMessage:
        """The message; those of its calls whose text is no whole JSON object are invalid.

        Its words can be stored, also where a character came in two halves.
        """
        content = _storable(message.content)
        if content != message.content:
            message = message.model_copy(update={"content": content})
        pieces = (
            self._pieces if not isinstance(message, AIMessageChunk) else message.tool_call_chunks
        )
        if not pieces:
            return message
        pieces = _beside(message, pieces)
        calls: list[ToolCall] = []
        broken: list[InvalidToolCall] = []
        for piece in pieces:
            name, id_, text = piece["name"] or "", piece["id"], piece["args"] or ""
            args = _object(text)
            if args is None:
                broken.append(InvalidToolCall(
                    type="invalid_tool_call", name=name, args=text, id=id_, error=None
                ))  # fmt: skip
            else:
                calls.append(ToolCall(type="tool_call", name=name, args=args, id=id_))
        kept = {} if not isinstance(message, AIMessageChunk) else {"tool_call_chunks": pieces}
        return message.model_copy(
            update={"tool_calls": calls, "invalid_tool_calls": broken, **kept}
        )

    @property
    def _pieces(self) -> list[ToolCallChunk]:
        """What was heard of each call, joined once: each joining reads all of it."""
        return (AIMessageChunk(content="") + self._chunks).tool_call_chunks


def _beside(message: AIMessage, pieces: list[ToolCallChunk]) -> list[ToolCallChunk]:
    """The pieces with the text that the provider's own calls have beside the content.

    Clients that stream these alone have a chunk of the first piece of a call, and of no other.
    """
    own = message.additional_kwargs.get("tool_calls")
    functions = [one.get("function") for one in own or () if isinstance(one, Mapping)]
    texts = [str(f.get("arguments") or "") for f in functions if isinstance(f, Mapping)]
    pairs = zip(texts, pieces, strict=False)
    if len(texts) != len(pieces) or any(not t.startswith(p["args"] or "") for t, p in pairs):
        return pieces
    return [{**piece, "args": text} for piece, text in zip(pieces, texts, strict=True)]


def _storable(content: Any) -> Any:
    match content:
        case str():
            return storable(content)
        case list():
            return [_storable(block) for block in content]
        case {"type": "text", "text": str(text)}:
            return {**content, "text": storable(text)}
    return content


def _object(text: str) -> dict[str, Any] | None:
    """What a text says that is one JSON object; no text at all stands for no arguments."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
