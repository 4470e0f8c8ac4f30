"""How many tokens messages take: an estimate for what no provider has counted yet."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from ..text.canonical import estimate_tokens
from .messages import TOLD, calls_in

_IMAGE: Final = 3_000
_DOCUMENT: Final = 25_800
_MESSAGE: Final = 4
"""What a message costs beside its content: who says it, and which call it answers."""


def estimate_message_tokens(messages: Iterable[BaseMessage]) -> int:
    """Estimate the tokens of messages: their words, calls, images and documents."""
    return sum(map(_tokens, messages))


def _tokens(message: BaseMessage) -> int:
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    tokens = _MESSAGE + sum(map(_estimate_block, blocks))
    if told := message.additional_kwargs.get(TOLD):
        tokens += _MESSAGE + estimate_tokens(str(told))
    for call in calls_in(message):
        args = call["args"]
        spelled = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
        tokens += _MESSAGE + estimate_tokens(f"{call['name']}{spelled}")
    return tokens


def _estimate_block(block: Any) -> int:
    """A block of text by its words; what is no text by its kind, never by its length."""
    if isinstance(block, str):
        return estimate_tokens(block)
    if not isinstance(block, Mapping):
        return 0
    kind = str(block.get("type", ""))
    for key in ("text", "thinking", "reasoning"):
        if isinstance(words := block.get(key), str):
            return estimate_tokens(words)
    if kind in ("file", "document", "input_file"):
        return _DOCUMENT
    return _IMAGE if any(word in kind for word in ("image", "audio", "video", "media")) else 0


def count_call_tokens(asked: Sequence[BaseMessage], answer: AIMessage) -> tuple[int, int]:
    """Input and output tokens of one call: as the provider counted them, else estimated."""
    usage = answer.usage_metadata
    if usage and (usage["input_tokens"] or usage["output_tokens"]):
        return usage["input_tokens"], usage["output_tokens"]
    return estimate_message_tokens(asked), estimate_message_tokens([answer])
