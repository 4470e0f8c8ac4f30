"""JSON values in one spelling, texts that can be stored, and sizes in words. Pure."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from .sentences import say


def canonical(value: Any) -> str:
    """The value as JSON with sorted keys and no spaces; what is no JSON counts as its text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def hash_of(value: Any) -> str:
    """SHA-256 of the canonical JSON, 64 hexadecimal digits."""
    # Halves of surrogate pairs have no UTF-8, but two different ones are two different values.
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


# NUL, and halves of surrogate pairs: no UTF-8, no text column, no JSON body takes them.
_REFUSED: Final = re.compile("[\x00\ud800-\udfff]")
# What MessagePack, the format of checkpoints, has integers for.
_INTEGERS: Final = range(-(2**63), 2**64)
# Far above what tools use; checkpoints give up at a few hundred.
DEEPEST: Final = 64

# Two escapes of JSON that stand for one character, which were read apart.
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def make_storable(text: str) -> str:
    """The text with a replacement character for each one that could not be stored or sent."""
    if _REFUSED.search(text) is None:
        return text
    whole = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _REFUSED.sub("\ufffd", whole)


def make_storable_json(value: Any, depth: int = 0) -> Any:
    """A JSON value that a checkpoint can hold.

    Integers beyond 64 bits become text, and so does what is nested deeper than `DEEPEST`.
    """
    if isinstance(value, str):
        return make_storable(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value in _INTEGERS else str(value)
    if isinstance(value, dict | list) and depth >= DEEPEST:
        return _as_text(value)
    if isinstance(value, dict):
        return {make_storable(str(k)): make_storable_json(v, depth + 1) for k, v in value.items()}
    return [make_storable_json(v, depth + 1) for v in value] if isinstance(value, list) else value


def _as_text(value: object) -> str:
    try:
        return make_storable(json.dumps(value, ensure_ascii=False, default=str))
    except (RecursionError, ValueError):
        return "…"


_SHOWN: Final = 100
_NAMES_SHOWN: Final = 20


def shorten_text(text: str, most: int = _SHOWN) -> str:
    """The text in `most` characters at most, the last of them '…' where something is left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def list_names(names: Iterable[object]) -> str:
    """The first names for a message, and how many more there are."""
    given = list(names)
    shown = ", ".join(repr(shorten_text(str(name))) for name in given[:_NAMES_SHOWN])
    more = len(given) - _NAMES_SHOWN
    return say("listed_and_more", listed=shown, count=more) if more > 0 else shown


def beginning_of(text: str, most: int) -> str:
    """The first `most` characters of a text, and how many are left out, for models and people."""
    left = len(text) - most
    return text if left <= 0 else say("left_out_at_the_end", text=text[:most], left=left)


# Rules of thumb of tokenizers: English text, and scripts written without spaces.
_CHARACTERS_PER_TOKEN: Final = 4.0
_CJK_CHARACTERS_PER_TOKEN: Final = 1.5
_CJK: Final = re.compile(
    "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+"
)


def weigh(text: str) -> float:
    """Length in Latin characters; one of Chinese, Japanese or Korean counts as 2.7 of them."""
    if text.isascii():
        return len(text)
    wide = sum(map(len, _CJK.findall(text)))
    return len(text) + (_CHARACTERS_PER_TOKEN / _CJK_CHARACTERS_PER_TOKEN - 1) * wide


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 characters each, 1.5 for Chinese, Japanese and Korean."""
    return round(weigh(text) / _CHARACTERS_PER_TOKEN)


def cut_middle(text: str, most: int) -> str:
    """Head and tail of a text in about `most` characters, and how many are left out between."""
    half = max(most // 2, 1)
    left = len(text) - 2 * half
    if left <= 0:
        return text
    return f"{text[:half]}\n{say('left_out_in_between', left=left)}\n{text[-half:]}"


def find_cap(sizes: Sequence[int], room: int) -> int:
    """The most that each of these may have so that all together have this room."""
    for place, size in enumerate(ordered := sorted(sizes)):
        if size * (len(ordered) - place) > room:
            return max(room, 0) // (len(ordered) - place)
        room -= size
    return max(sizes, default=0)


_KILO: Final = 1000


def format_size(count: int) -> str:
    """A number of bytes: three digits, and the largest unit that fits."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < _KILO:
            break
        amount, unit = amount / _KILO, larger
    return f"{amount:.3g} {unit}" if amount < _KILO else f"{amount:,.0f} {unit}"


def format_seconds(seconds: float) -> str:
    """A time in the largest unit of which it is at least one; what is over is left out."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return plural(int(seconds // size), unit)
    return f"{seconds:.0f} s"


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
