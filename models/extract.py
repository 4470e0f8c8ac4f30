"""The JSON object in what a model wrote, whatever stands around it. Nothing here raises."""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from json_repair import repair_json

from ..state.told import say

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
    found = [value for slice_ in _objects(spoken) if (value := _read(slice_)) is not None]
    best = _best(found, keys)
    opened = _opened(spoken)
    if opened and (best is None or not _known(best, keys)):
        closed = _loads(opened + "}")  # forgetting the very last brace loses nothing
        return Extracted(closed) if closed else Extracted(_read(opened), say("cut_json"))
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


def _read(slice_: str) -> dict[str, Any] | None:
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
