"""The calls of a model's message as they were sent, each with what is wrong with its form. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk

_NO_JSON: Final = (
    "Not run: the arguments are no complete JSON object ({why}). "
    "Send the call again with valid JSON."
)
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def calls_of(message: AIMessage) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every call in the message, invalid ones last, with what is wrong with its form, or ""."""
    raw = _raw_arguments(message)
    for index, call in enumerate(message.tool_calls):
        problem = _no_object(raw[index]) if index < len(raw) else ""
        yield call, _NO_JSON.format(why=problem) if problem else ""
    for invalid in message.invalid_tool_calls:
        why = _no_object(invalid.get("args") or "") or invalid.get("error") or "not readable"
        yield invalid, _NO_JSON.format(why=str(why)[:200])


def unique_id(given: object, fallback: str, taken: set[str]) -> str:
    """The provider's call id where it is one; otherwise one made of the evidence id.

    Args:
        given: What the provider sent.
        fallback: The evidence id.
        taken: The ids of the calls before; the new one is added.
    """
    made = "call_" + _FOREIGN.sub("_", fallback)
    call_id = given if isinstance(given, str) and given and given not in taken else made
    while call_id in taken:
        call_id += "_"
    taken.add(call_id)
    return call_id


def _raw_arguments(message: AIMessage) -> list[str]:
    """The arguments as the provider sent them, where the message still has them.

    A streaming parser closes what was cut, so a broken call looks whole once it is parsed.
    """
    if isinstance(message, AIMessageChunk):
        texts = [chunk.get("args") or "" for chunk in message.tool_call_chunks]
    else:
        calls = message.additional_kwargs.get("tool_calls")
        functions = [c.get("function") or {} for c in calls or () if isinstance(c, Mapping)]
        texts = [str(function.get("arguments") or "") for function in functions]
    # More raw texts than calls means that some were unreadable, so the order tells nothing.
    return texts if len(texts) == len(message.tool_calls) else []


def _no_object(text: str) -> str:
    """Why a text is no JSON object; no text at all stands for no arguments."""
    if not text.strip():
        return ""
    try:
        value = json.loads(text)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    return "" if isinstance(value, dict) else f"it is a {type(value).__name__}"
