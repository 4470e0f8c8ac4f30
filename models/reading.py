"""What a model's message says: tool calls, a contract, or nothing of use and why."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from langchain_core.messages import AIMessage

from ..state.contracts import Contract
from ..state.told import say
from .parse import read_object, read_text

C = TypeVar("C", bound=Contract)

# How OpenAI, Anthropic, Gemini and Ollama say that a message stops before its end.
_CUT: Final = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"}
    | {"model_context_window_exceeded", "pause_turn"}
)
_FILTERED: Final = frozenset(
    {"content_filter", "content_filtered", "safety", "recitation", "blocklist", "refusal"}
    | {"prohibited_content", "spii", "guardrail_intervened"}
)
_BROKEN: Final = frozenset({"malformed_function_call", "error", "unexpected_tool_call"})


@dataclass(frozen=True)
class Reading(Generic[C]):
    """A message, read."""

    message: AIMessage
    parsed: C | None = None
    problems: list[str] = field(default_factory=list)
    complete: bool = True
    text: str = ""
    """What the model wrote as its answer; of a call of the contract, the arguments."""
    wanted: str = ""
    """What to answer with instead, in words for the model; '' leaves it to the contract."""


def read_answer(
    message: AIMessage,
    contract: type[C] | None,
    check: Callable[[C], list[str]] | None = None,
    *,
    with_tools: bool = False,
) -> Reading[C]:
    """Read a message.

    Args:
        message: As the provider gave it.
        contract: What it should hold; None where any text will do.
        check: Names problems of a valid contract.
        with_tools: Tools were offered, so their calls are an answer and win over the contract.

    Returns:
        The message without calls of the contract itself, and what was read of it.
    """
    answer, rest = _split(message, contract.__name__ if contract else "")
    problem = unusable(message)
    text = message.text if answer is None else _as_text(answer)
    if with_tools and (rest.tool_calls or rest.invalid_tool_calls):
        return Reading(rest, complete=not problem, text=text)
    if problem:
        return Reading(_without_calls(rest), None, [problem], complete=False, text=text)
    parsed, problems = _read(answer, text, contract, check)
    if problems and rest.tool_calls:
        problems = [*problems, say("no_tool_here_json" if contract else "no_tool_here_words")]
    return Reading(_without_calls(rest), parsed, problems, text=text)


def _read(
    answer: object,
    text: str,
    contract: type[C] | None,
    check: Callable[[C], list[str]] | None,
) -> tuple[C | None, list[str]]:
    if contract is None:
        return None, [] if text.strip() else [say("empty_answer")]
    if isinstance(answer, dict):
        return read_object(answer, contract, check)
    return read_text(text, contract, check)


def _as_text(answer: object) -> str:
    return (
        answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    )


def _split(message: AIMessage, name: str) -> tuple[object, AIMessage]:
    """The arguments of a call named like the contract, and the message without such calls."""
    wanted = name.lower()
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    own = [call for call in calls if wanted and str(call["name"]).lower() == wanted]
    if not own:
        return None, message
    ids = {call["id"] for call in own}
    return own[-1]["args"], _rebuilt(
        message,
        tool_calls=[call for call in message.tool_calls if call not in own],
        invalid_tool_calls=[call for call in message.invalid_tool_calls if call not in own],
        dropped_ids=ids,
    )


def _without_calls(message: AIMessage) -> AIMessage:
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    if not calls:
        return message
    ids = {call["id"] for call in calls}
    return _rebuilt(message, tool_calls=[], invalid_tool_calls=[], dropped_ids=ids)


def _rebuilt(message: AIMessage, *, dropped_ids: set[str | None], **calls: Any) -> AIMessage:
    """The message with other calls; copies of the dropped ones inside it go too."""
    content = message.content
    if isinstance(content, list):
        content = [block for block in content if not _is_call(block, dropped_ids)]
    extra = {
        key: value
        for key, value in message.additional_kwargs.items()
        if key not in ("tool_calls", "function_call", "parsed")
    }
    return message.model_copy(update={"content": content, "additional_kwargs": extra, **calls})


def _is_call(block: object, ids: set[str | None]) -> bool:
    if not isinstance(block, Mapping) or "type" not in block:
        return False
    kind = str(block["type"])
    is_call = "tool_" in kind or "function_call" in kind
    return is_call and (block.get("id") in ids or block.get("call_id") in ids)


def unusable(message: AIMessage) -> str:
    """Why the message must not be trusted as a whole; empty where it may."""
    refusal = message.additional_kwargs.get("refusal") or _refusal_block(message)
    if refusal:
        return say("model_refused", why=f"{refusal!s:.300}")
    reasons = _finish_reasons(message)
    if reasons & _CUT:
        return say("answer_cut")
    if reasons & _FILTERED:
        return say("answer_filtered")
    if reasons & _BROKEN:
        return say("answer_broken")
    return ""


def _finish_reasons(message: AIMessage) -> set[str]:
    metadata = message.response_metadata
    names = ("finish_reason", "stop_reason", "done_reason", "finishReason", "status")
    return {str(metadata[name]).lower().rsplit(".", 1)[-1] for name in names if metadata.get(name)}


def _refusal_block(message: AIMessage) -> str:
    blocks = message.content if isinstance(message.content, list) else []
    found = (block.get("refusal") for block in blocks if isinstance(block, dict))
    return next((str(text) for text in found if text), "")
