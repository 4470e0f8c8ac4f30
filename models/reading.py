"""What a model's message says: tool calls, a contract, or nothing of use and why.

From the outside in: the message with its calls, the text as a contract, the JSON object in it.
Nothing a model writes makes any of this raise.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, TypeVar

from langchain_core.messages import AIMessage
from pydantic import ValidationError

from ..state.contracts import Contract, ExecutorResponse, PlannerResponse, VerifierResponse
from ..state.messages import calls_in
from ..text.loose_json import extract, strip_thoughts
from ..text.sentences import ENGLISH, SENTENCES, say

C = TypeVar("C", bound=Contract)
Check = Callable[[C], list[str]]

# How OpenAI, Anthropic, Gemini and Ollama say that a message stops before its end.
# fmt: off
_STOPPED: Final = {
    "answer_cut": {"length", "max_tokens", "max_output_tokens", "model_length", "incomplete",
                   "model_context_window_exceeded", "pause_turn"},
    "answer_filtered": {"content_filter", "content_filtered", "safety", "recitation", "blocklist",
                        "refusal", "prohibited_content", "spii", "guardrail_intervened"},
    "answer_broken": {"malformed_function_call", "error", "unexpected_tool_call"},
}
# fmt: on
_REASONS: Final = ("finish_reason", "stop_reason", "done_reason", "finishReason", "status")
_SHOWN: Final = 12
_LONGEST_INPUT: Final = 80


@dataclass(frozen=True)
class Reading(Generic[C]):
    """A message, read."""

    message: AIMessage
    """Without calls of the contract itself, and of tools that were not offered."""
    parsed: C | None = None
    """The contract; None with tool calls, without a contract, or if it cannot be read."""
    problems: list[str] = field(default_factory=list)
    """Why the answer is of no use; empty if it is fine."""
    complete: bool = True
    """False if the message was cut or filtered: its tool calls must not run."""
    text: str = ""
    """What the model wrote as its answer; of a call of the contract, the arguments."""
    wanted: str = ""
    """The sentence that says what to answer with instead; '' leaves it to the contract."""


def read_answer(
    message: AIMessage,
    contract: type[C] | None,
    check: Check[C] | None = None,
    *,
    with_tools: bool = False,
) -> Reading[C]:
    """Read a message.

    Args:
        message: As the provider gave it.
        contract: What it should hold; None if any text will do.
        check: Names problems of a valid contract.
        with_tools: Tools were offered, so their calls are an answer and win over the contract.

    Returns:
        The message without calls of the contract itself, and what was read of it.
    """
    name = contract.__name__.lower() if contract else None
    calls = calls_in(message)
    own = [call for call in calls if str(call["name"]).lower() == name]
    rest, args = _drop_calls(message, own), own[-1]["args"] if own else None
    answer = message.text if args is None else args
    text = (
        answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    )
    problem = explain_unusable(message)
    if with_tools and len(calls) > len(own):
        return Reading(rest, complete=not problem, text=text)
    rest = _drop_calls(rest, calls)
    if problem:
        return Reading(rest, None, [problem], complete=False, text=text)
    if contract is None:
        parsed, problems = None, [] if text.strip() else [say("empty_answer")]
    elif isinstance(answer, dict):
        parsed, problems = read_object(answer, contract, check)
    else:
        parsed, problems = read_text(text, contract, check)
    if problems and len(calls) > len(own):
        problems = [*problems, say("no_tool_here_json" if contract else "no_tool_here_words")]
    return Reading(rest, parsed, problems, text=text)


def _drop_calls(message: AIMessage, calls: Sequence[Any]) -> AIMessage:
    """The message without these of its calls; copies of them inside it go too."""
    if not calls:
        return message
    ids, content = {call["id"] for call in calls if call["id"]}, message.content
    if isinstance(content, list):
        content = [
            block
            for block in content
            if isinstance(block, str) or ids.isdisjoint({block.get("id"), block.get("call_id")})
        ]
    copies = ("tool_calls", "function_call", "parsed")
    extra = {k: v for k, v in message.additional_kwargs.items() if k not in copies}
    return message.model_copy(
        update={
            "content": content,
            "additional_kwargs": extra,
            "tool_calls": [call for call in message.tool_calls if call not in calls],
            "invalid_tool_calls": [c for c in message.invalid_tool_calls if c not in calls],
        }
    )


def explain_unusable(message: AIMessage) -> str:
    """Why the message must not be trusted as a whole; empty if it may."""
    blocks = message.content if isinstance(message.content, list) else []
    parts = [message.additional_kwargs, *(block for block in blocks if isinstance(block, dict))]
    if refusals := [part["refusal"] for part in parts if part.get("refusal")]:
        return say("model_refused", why=f"{refusals[0]!s:.300}")
    values = (str(message.response_metadata.get(name)).lower() for name in _REASONS)
    reasons = {reason.rsplit(".", 1)[-1] for reason in values}
    kind = next((kind for kind, known in _STOPPED.items() if reasons & known), None)
    return say(kind) if kind else ""


# A text or an object as a contract.


def parse_planner(text: str) -> PlannerResponse:
    """Read a planner's answer; a ValueError names every problem in words a model can act on."""
    return _parse(text, PlannerResponse)


def parse_executor(text: str) -> ExecutorResponse:
    """Read an executor's answer, likewise."""
    return _parse(text, ExecutorResponse)


def parse_verifier(text: str) -> VerifierResponse:
    """Read a verifier's answer, likewise."""
    return _parse(text, VerifierResponse)


def _parse(text: str, contract: type[C]) -> C:
    parsed, problems = read_text(text, contract)
    if parsed is None:
        msg = f"This is no {contract.__name__}: {'; '.join(problems)}."
        raise ValueError(msg)
    return parsed


def read_text(
    text: str, contract: type[C], check: Check[C] | None = None
) -> tuple[C | None, list[str]]:
    """Read a contract out of a text: the contract, or None with the problems."""
    if (other := contract.read_other_spelling(strip_thoughts(text))) is not None:
        return read_object(other, contract, check)
    value, problem = extract(text, field_names(contract))
    if value is None or problem:
        return None, [problem]
    return read_object(value, contract, check)


def read_object(
    value: dict[str, Any], contract: type[C], check: Check[C] | None = None
) -> tuple[C | None, list[str]]:
    """Read a contract out of an object: the contract, or None with the problems.

    `check` names problems that the contract's type cannot see; it runs on valid contracts only.
    """
    try:
        parsed = contract.model_validate(value)
    except ValidationError as error:
        return None, describe_errors(error)
    except RecursionError:
        return None, [say("json_too_deep")]
    problems = check(parsed) if check else []
    return (None, problems) if problems else (parsed, [])


@cache
def field_names(contract: type[Contract]) -> frozenset[str]:
    """The names a contract's fields may have on the wire."""
    fields = contract.model_fields
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


def describe_errors(error: ValidationError) -> list[str]:
    """What pydantic found wrong, in words for a model."""
    problems = []
    for item in error.errors(include_url=False)[:_SHOWN]:
        kind, where = item["type"], ".".join(str(part) for part in item["loc"])
        what = item["msg"].removeprefix("Value error, ")
        if f"invalid_{kind}" in SENTENCES[ENGLISH]:
            what = say(f"invalid_{kind}", **item.get("ctx", {}))
        if kind not in ("missing", "value_error"):
            value = f"{item['input']!r:.{_LONGEST_INPUT}}"
            what = say("problem_not_this", problem=what, given=value)
        problems.append(say("problem_at", place=where, problem=what) if where else what)
    return problems
