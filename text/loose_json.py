"""JSON as models write it: the object in a text, and the arguments of a call. Pure.

A contract is checked once more by what it must hold, so the likeliest object is taken, repaired by
guesses where need be. Arguments are acted on: they are read only where nothing is in doubt.
"""

import json
import re
from collections.abc import Collection
from itertools import accumulate
from typing import Any, Final

from json_repair import repair_json

from .canonical import DEEPEST
from .sentences import say


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

# The spellings of JavaScript and Python, of which each has one meaning.
_SPELLINGS: Final = re.compile(
    r"""
    (?P<text>"(?:\\.|[^"\\])*")
    | '(?P<single>(?:\\.|[^'\\])*)'
    | (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
    | (?P<key>[^\W\d]\w*)(?=\s*:)
    | \b(?P<word>True|False|None)\b
    | ,(?=(?:\s|//[^\n]*\n|\#[^\n]*\n|/\*.*?\*/)*[}\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_QUOTES: Final = re.compile(r'\\?(["\'])')
_LOOKS_FILLED: Final = re.compile("[\"':]")


class KeyTwice(Exception):
    """An object gives a key twice, with different values; the text is the key."""


def strip_thoughts(text: str, thoughts: tuple[re.Pattern[str], re.Pattern[str]] = _IN_WORDS) -> str:
    """The text without think blocks, in which models rehearse what they will say."""
    blocks, until = thoughts
    return until.sub("", blocks.sub("", text))


def extract(text: str, keys: Collection[str] = ()) -> tuple[dict[str, Any] | None, str]:
    """Find the JSON object in a model's answer.

    Think blocks, Markdown fences and prose are passed over; trailing commas, single quotes,
    comments and Python literals are repaired; an object wrapped in another one or in a string is
    unwrapped. Of several objects the one with most of `keys` is taken; two that have as many and
    differ are in doubt.

    Args:
        text: The answer as the model wrote it.
        keys: The field names that the wanted object may have.

    Returns:
        The object or None, and in words for the model why it is missing or must not be trusted:
        of a text that ends inside the object it is what could be read of it. '' if it is whole.
    """
    try:
        return _extract(text[:_LONGEST], keys)
    except KeyTwice as twice:
        return None, say("key_twice", name=repr(str(twice)))


def _extract(text: str, keys: Collection[str]) -> tuple[dict[str, Any] | None, str]:
    aloud = text
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
        count = _count_known_keys(best, keys)
        rivals = [o for o in unwrapped if o != best and _count_known_keys(o, keys) == count]
        return (None, say("several_objects")) if count and rivals else (best, "")
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
        return _as_object(load_json(text))
    except (ValueError, RecursionError):
        return None


def load_json(text: str) -> Any:
    """A JSON value; line breaks may stand in its texts as they are.

    Raises:
        ValueError: It is no JSON.
        KeyTwice: It can be read in two ways.
    """
    return json.loads(text, strict=False, object_pairs_hook=_join_pairs)


def _join_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) and (odd := [key for key, value in pairs if found[key] != value]):
        raise KeyTwice(odd[0])
    return found


# The arguments of a call.


def read_arguments(text: str) -> tuple[dict[str, Any], str]:
    """The arguments of a call, in each form in which models send one object.

    It may stand in fences, in words, in a string, or alone in a list; comments, trailing commas,
    single quotes, keys without quotes, Python's words and line breaks in texts leave no doubt of
    what is meant. Two objects do, one that is cut, and two values of one key.

    Returns:
        The arguments; and why there are none, in words for a model, or "". No text is no arguments.
    """
    try:
        values = _list_values(text)
    except KeyTwice as twice:
        return {}, say("key_twice", name=repr(str(twice)))
    except RecursionError:
        return {}, say("nested_too_deeply")
    except ValueError as error:
        return {}, str(error)
    match values:
        case [dict(args)]:
            return args, ""
        case [value]:
            return {}, say("it_is_a", kind=type(value).__name__)
    return {}, say("several_objects")


def _list_values(text: str) -> list[Any]:
    """The one value a text is, or the objects in it.

    Raises:
        ValueError: It is cut or broken, or there is no object in it.
    """
    try:
        value = load_json(text) if text.strip() else {}
    except ValueError as error:
        thoughts = AROUND_JSON[0].match(text := text.strip())
        return _list_objects(text[thoughts.end() if thoughts else 0 :], error)
    if isinstance(value, str):
        return _list_values(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value
    return [{} if value is None else value]


def _list_objects(text: str, error: ValueError) -> list[Any]:
    slices, _ = _slice_objects(text)
    rest, objects = text, list[Any]()
    for slice_ in slices:
        rest = rest.replace(slice_, "", 1)
        if not _LOOKS_FILLED.search(slice_):  # a placeholder in words
            continue
        try:
            objects.append(load_json(_spell_plainly(slice_)))
        except ValueError:
            raise error from None
    if "{" in rest or not objects:
        raise error
    return objects


def _spell_plainly(text: str) -> str:
    """The spellings of other languages as JSON's; nothing is guessed."""

    def spell(found: re.Match[str]) -> str:
        if found["text"]:
            return found[0]
        if (single := found["single"]) is not None:
            plain = _QUOTES.sub(lambda one: "'" if one[1] == "'" else '\\"', single)
            return f'"{plain}"'
        return f'"{found["key"]}"' if found["key"] else _WORDS.get(found["word"] or "", "")

    return _SPELLINGS.sub(spell, text)


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
