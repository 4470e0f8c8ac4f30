"""What a model's message says: tool calls, a contract, or nothing of use and why.

From the outside in: the message with its calls, the text as a contract, the JSON object in it.
Nothing a model writes makes any of this raise.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Generic, TypeVar

from json_repair import repair_json
from langchain_core.messages import AIMessage
from pydantic import ValidationError

from ..state.contracts import Contract, ExecutorResponse, PlannerResponse, VerifierResponse
from ..state.told import ENGLISH, SENTENCES, say

C = TypeVar("C", bound=Contract)
Check = Callable[[C], list[str]]

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
    check: Check[C] | None = None,
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
    answer: object, text: str, contract: type[C] | None, check: Check[C] | None
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
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    own = [call for call in calls if name and str(call["name"]).lower() == name.lower()]
    if not own:
        return None, message
    return own[-1]["args"], _without(message, own)


def _without(message: AIMessage, calls: Sequence[Any]) -> AIMessage:
    """The message without these of its calls; copies of them inside it go too."""
    if not calls:
        return message
    ids = {call["id"] for call in calls}
    content = message.content
    if isinstance(content, list):
        content = [block for block in content if not _is_call(block, ids)]
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


def _without_calls(message: AIMessage) -> AIMessage:
    return _without(message, [*message.tool_calls, *message.invalid_tool_calls])


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


# A text or an object as a contract.

_SHOWN: Final = 12
_LONGEST_INPUT: Final = 80


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
    found = extract(text, field_names(contract))
    if found.value is None or found.problem:
        return None, [found.problem]
    return read_object(found.value, contract, check)


def read_object(
    value: dict[str, Any], contract: type[C], check: Check[C] | None = None
) -> tuple[C | None, list[str]]:
    """Read a contract out of an object: the contract, or None with the problems.

    `check` names problems that the contract's type cannot see; it runs on valid contracts only.
    """
    try:
        parsed = contract.model_validate(value)
    except ValidationError as error:
        return None, _in_words(error)
    except RecursionError:
        return None, [say("json_too_deep")]
    problems = check(parsed) if check else []
    return (None, problems) if problems else (parsed, [])


@cache
def field_names(contract: type[Contract]) -> frozenset[str]:
    """The names a contract's fields may have on the wire."""
    fields = contract.model_fields
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


def _in_words(error: ValidationError) -> list[str]:
    problems = []
    for item in error.errors(include_url=False)[:_SHOWN]:
        kind, where = item["type"], ".".join(str(part) for part in item["loc"])
        what = item["msg"].removeprefix("Value error, ")
        if f"invalid_{kind}" in SENTENCES[ENGLISH]:
            what = say(f"invalid_{kind}", **item.get("ctx", {}))
        if kind not in ("missing", "value_error"):
            what = say(
                "problem_not_this", problem=what, given=f"{item['input']!r:.{_LONGEST_INPUT}}"
            )
        problems.append(say("problem_at", place=where, problem=what) if where else what)
    return problems


# The JSON object in a text, whatever stands around it.

_THOUGHT: Final = re.compile(
    r"<(/?)(?:think|thinking|thought|reasoning|reflection)>", re.IGNORECASE
)
_SIGNS: Final = re.compile(r'\\.|["{}]', re.DOTALL)
# Longer answers are cut: a plan of a thousand steps has a third of it.
_LONGEST: Final = 1_000_000
# Repairing takes time that grows with the square of the length: here a second or two at worst.
_LONGEST_REPAIRED: Final = 20_000
# Objects tried in one text; prose full of braces must not cost minutes.
_MOST: Final = 20
_MOST_UNCLOSED: Final = 4


@dataclass(frozen=True)
class Extracted:
    """What was found in a text.

    `value` is the object, None where there is none. `problem` says in words for the model why the
    value is missing or must not be trusted; it is empty where the object was whole.
    """

    value: dict[str, Any] | None
    problem: str = ""


def extract(text: str, keys: Collection[str] = ()) -> Extracted:
    """Find the JSON object in a model's answer.

    Think blocks, Markdown fences and prose are passed over; trailing commas, single quotes,
    comments and Python literals are repaired; an object wrapped in another one or in a string is
    unwrapped. Of several objects the one with most of `keys` is taken, the last one of equals.

    Args:
        text: The answer as the model wrote it.
        keys: The field names that the wanted object may have.

    Returns:
        The object, or why there is none. A text that ends inside the object gives what could be
        read of it together with a problem.
    """
    spoken = _without_thoughts(text[:_LONGEST])
    found = [value for slice_ in _objects(spoken) if (value := _object_in(slice_)) is not None]
    best = _best(found, keys)
    opened = _opened(spoken)
    if opened and (best is None or not _known(best, keys)):
        closed = _loads(opened + "}")  # forgetting the very last brace loses nothing
        return Extracted(closed) if closed else Extracted(_object_in(opened), say("cut_json"))
    if best is None:
        return Extracted(None, _why_none(text, spoken))
    return Extracted(best)


def _without_thoughts(text: str) -> str:
    if _loads(text) is not None:
        return text
    kept: list[str] = []
    start, inside = 0, False
    for tag in _THOUGHT.finditer(text):
        if tag[1]:
            if not inside:  # some servers drop the opening tag
                kept.clear()
            start, inside = tag.end(), False
        elif not inside:
            kept.append(text[start : tag.start()])
            start, inside = tag.end(), True
    never_closed = inside and any(part.strip() for part in kept)
    return " ".join([*kept, "" if never_closed else text[start:]])


def _objects(text: str) -> Iterator[str]:
    """The outermost balanced `{…}` slices, and a whole text that is a quoted JSON string."""
    if text.strip().startswith('"{'):
        yield text.strip()
    start, closed, unclosed = text.find("{"), 0, 0
    while start >= 0 and closed < _MOST and unclosed < _MOST_UNCLOSED:
        end = _balanced_end(text, start)
        if end is None:
            unclosed += 1
        else:
            closed += 1
            yield text[start:end]
        start = text.find("{", end or start + 1)


def _balanced_end(text: str, start: int) -> int | None:
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


def _object_in(slice_: str) -> dict[str, Any] | None:
    """Read one slice, strictly first, then with repairs."""
    value = _loads(slice_)
    if value is not None or len(slice_) > _LONGEST_REPAIRED:
        return value
    try:
        return _object(repair_json(slice_, return_objects=True))
    except Exception:  # noqa: BLE001 - a repair that fails in any way is no repair
        return None


def _loads(text: str) -> dict[str, Any] | None:
    try:
        return _object(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None


def _object(value: object) -> dict[str, Any] | None:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return _loads(value)
    return value if isinstance(value, dict) and value else None


def _best(found: list[dict[str, Any]], keys: Collection[str]) -> dict[str, Any] | None:
    unwrapped = [_unwrap(value, keys) for value in found]
    return max(reversed(unwrapped), key=lambda value: _known(value, keys), default=None)


def _known(value: dict[str, Any], keys: Collection[str]) -> int:
    return sum(1 for key in value if key in keys)


def _unwrap(value: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Take the object out of a wrapper such as `{"name": …, "arguments": {…}}`."""
    inner = [held for item in value.values() if (held := _object(item)) is not None]
    fullest = max(inner, key=lambda held: _known(held, keys), default=value)
    return fullest if _known(fullest, keys) > _known(value, keys) else value


def _opened(text: str) -> str:
    """The end of the text from the first object on, if that is never closed; else nothing."""
    start = text.find("{")
    if start < 0 or _balanced_end(text, start) is not None:
        return ""
    return text[start:].rstrip().removesuffix("```").rstrip()


def _why_none(text: str, spoken: str) -> str:
    if not text.strip():
        return say("empty_json")
    if not spoken.strip():
        return say("only_thoughts")
    if spoken.strip().startswith("["):
        return say("a_list")
    return say("no_json")
