"""What a model's message says: tool calls, a contract, or nothing of use and why.

From the outside in: the message with its calls, the text as a contract, the JSON object in it.
Nothing a model writes makes any of this raise.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

from json_repair import repair_json
from langchain_core.messages import AIMessage
from pydantic import ValidationError

from ..state.contracts import Contract, ExecutorResponse, PlannerResponse, VerifierResponse
from ..state.messages import calls_in
from ..text.canonical import DEEPEST
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


# The JSON object in a text, whatever stands around it.


def _compile_thoughts(names: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Think blocks, and all up to the last end of one: some servers drop the tag before it."""
    closing, how = rf"</(?:{names})>", re.IGNORECASE | re.DOTALL
    blocks = re.compile(rf"<(?:{names})>.*?(?:{closing}|\Z)", how)
    return blocks, re.compile(rf"\A.*{closing}", how)


_IN_WORDS: Final = _compile_thoughts("think|thinking")
# Words for a reader may be about the other tags; what stands around an object is never shown.
AROUND_JSON: Final = _compile_thoughts("think|thinking|thought|reasoning|reflection")
_SIGNS: Final = re.compile(r'\\.|["{}]', re.DOTALL)
# Signs of a Chinese keyboard instead of those of JSON; within quotes they are text.
_WIDE: Final = re.compile(r'((?<!\\)"(?:\\.|[^"\\])*")|“([^“”]*)”|[：，]', re.DOTALL)  # noqa: RUF001
_PLAIN: Final = {"：": ":", "，": ","}  # noqa: RUF001
# Longer answers are cut: a plan of a thousand steps has a third of it.
_LONGEST: Final = 1_000_000
# Repairing takes time that grows with the square of the length: here a second or two at worst.
_LONGEST_REPAIRED: Final = 20_000
# Objects tried in one text; prose full of braces must not cost minutes.
_MOST: Final = 20
_MOST_UNCLOSED: Final = 4


def strip_thoughts(text: str, thoughts: tuple[re.Pattern[str], re.Pattern[str]] = _IN_WORDS) -> str:
    """The text without think blocks, in which models rehearse what they will say."""
    blocks, until = thoughts
    return until.sub("", blocks.sub("", text))


def extract(text: str, keys: Collection[str] = ()) -> tuple[dict[str, Any] | None, str]:
    """Find the JSON object in a model's answer.

    Think blocks, Markdown fences and prose are passed over; trailing commas, single quotes,
    comments and Python literals are repaired; an object wrapped in another one or in a string is
    unwrapped. Of several objects the one with most of `keys` is taken, the last one of equals.

    Args:
        text: The answer as the model wrote it.
        keys: The field names that the wanted object may have.

    Returns:
        The object or None, and in words for the model why it is missing or must not be trusted:
        of a text that ends inside the object it is what could be read of it. '' if it is whole.
    """
    text = aloud = text[:_LONGEST]
    opened, whole = "", _loads(text)
    objects = [] if whole is None else [whole]
    if whole is None:
        # Some models answer without closing their thoughts: without other words these are searched.
        aloud = strip_thoughts(text, AROUND_JSON)
        searched = aloud if aloud.strip() else AROUND_JSON[1].sub("", text)
        slices, opened = _slice_objects(searched)
        objects = [value for slice_ in slices if (value := _repair_object(slice_)) is not None]
    unwrapped = [_unwrap(value, keys) for value in reversed(objects)]
    best = max(unwrapped, key=lambda value: _count_known_keys(value, keys), default=None)
    if opened and (best is None or not _count_known_keys(best, keys)):
        closed = _loads(opened + "}")  # forgetting the very last brace loses nothing
        return (closed, "") if closed else (_repair_object(opened), say("cut_json"))
    if best is not None:
        return best, ""
    if not aloud.strip():
        return None, say("only_thoughts" if text.strip() else "empty_json")
    return None, say("a_list" if aloud.strip().startswith("[") else "no_json")


def _slice_objects(text: str) -> tuple[list[str], str]:
    """The outermost balanced `{…}` slices; and all from the first brace on, if it never closes."""
    slices: list[str] = []
    first = start = text.find("{")
    opened, unclosed = "", 0
    while start >= 0 and len(slices) < _MOST and unclosed < _MOST_UNCLOSED:
        end = _find_object_end(text, start)
        if end is not None:
            slices.append(text[start:end])
        else:
            unclosed += 1
            if start == first:
                opened = text[start:].rstrip().removesuffix("```").rstrip()
        start = text.find("{", end or start + 1)
    return slices, opened


def _find_object_end(text: str, start: int) -> int | None:
    """Where the object that opens at `start` ends; None if it never does."""
    depth, quoted = 0, False
    for match in _SIGNS.finditer(text, start):
        sign = match.group()
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "{}":
            depth += 1 if sign == "{" else -1
            if depth == 0:
                return match.end()
    return None


def _repair_object(slice_: str) -> dict[str, Any] | None:
    """Read one slice, strictly first, then with repairs."""
    value = _loads(slice_)
    depth = max(accumulate((sign == "{") - (sign == "}") for sign in slice_))
    if value is not None or len(slice_) > _LONGEST_REPAIRED or depth > DEEPEST:
        return value
    plain = _WIDE.sub(
        lambda sign: _PLAIN.get(sign[0]) or sign[1] or json.dumps(sign[2], ensure_ascii=False),
        slice_,
    )
    if (value := _loads(plain)) is not None:
        return value
    try:
        return _as_object(repair_json(plain, return_objects=True))
    except Exception:  # noqa: BLE001 - a repair that fails in any way is no repair
        return None


def _loads(text: str) -> dict[str, Any] | None:
    try:
        return _as_object(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None


def _as_object(value: object) -> dict[str, Any] | None:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _loads(value)
    return value if isinstance(value, dict) and value else None


def _count_known_keys(value: dict[str, Any], keys: Collection[str]) -> int:
    return sum(1 for key in value if key in keys)


def _unwrap(value: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Take the object out of a wrapper such as `{"name": …, "arguments": {…}}`."""
    inner = [held for item in value.values() if (held := _as_object(item)) is not None]
    fullest = max(inner, key=lambda held: _count_known_keys(held, keys), default=value)
    return fullest if _count_known_keys(fullest, keys) > _count_known_keys(value, keys) else value
