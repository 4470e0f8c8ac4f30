"""The arguments of calls as a provider streamed them: what was cut is closed by no parser here."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
)


class Heard(AsyncCallbackHandler):
    """Listens to one model call, and keeps what is streamed of its tool calls.

    LangChain joins the chunks of a stream to a message that no longer has the text of the
    arguments, only what its parser made of it; that parser closes what was cut.
    """

    run_inline = True

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        """Nothing is heard yet; `tell` is given all that is written, text or arguments."""
        self._sum: AIMessageChunk | None = None
        self._tell, self._written = tell, ""

    async def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:  # noqa: ARG002 - LangChain's signature
        """Keep a piece of the stream."""
        piece = getattr(chunk, "message", None)
        if self._tell is not None and isinstance(piece, AIMessageChunk):
            pieces = [piece.text, *(part["args"] or "" for part in piece.tool_call_chunks)]
            self._written += "".join(pieces)
            self._tell(self._written)
        if isinstance(piece, AIMessageChunk) and piece.tool_call_chunks:
            bare = AIMessageChunk(content="", tool_call_chunks=piece.tool_call_chunks)
            self._sum = bare if self._sum is None else self._sum + bare

    def whole(self, message: AIMessage) -> AIMessage:
        """The message; those of its calls whose text is no whole JSON object are invalid."""
        heard = message if isinstance(message, AIMessageChunk) else self._sum
        pieces = heard.tool_call_chunks if heard is not None else []
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


def _object(text: str) -> dict[str, Any] | None:
    """What a text says that is one JSON object; no text at all stands for no arguments."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
