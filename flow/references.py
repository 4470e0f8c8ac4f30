r"""References of a plan to what its steps gave: read, found, renamed, replaced. Pure, linear time.

`{{s1}}` refers to the result of step s1, `{{s1.rows[0].name}}` to a part of it, `{{global.x}}` to a
variable of the plan, `{{global}}` to all of them. White space around a name is ignored, inside it
counts: `{{s1.Exchange Rate}}`. `[-1]` is the last item of a list; a key with one of `.[]{}` in it
stands in quotes: `{{s1["a.b"]}}`. `\{{` is a literal `{{`; a lone `}}` is text. A reference ends at
its first `}}` that is not inside quotes.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..state.canonical import shortened
from ..state.told import LANGUAGE, say

GLOBAL: Final = "global"
"""The root by which references read the plan's variables."""

_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
# Paths that mean the result itself: on an object without such a key, and on anything else.
_ALL_OF_OBJECT: Final = frozenset({("output",), ("result",)})
_ALL_OF_OTHER: Final = _ALL_OF_OBJECT | {("text",), ("content",)}
_NAMES_SHOWN: Final = 20
_MANY: Final = 2
_LONGEST: Final = 10_000_000

OPEN: Final = "{{"
_CLOSE: Final = "}}"
# Neither pattern can read the same text in two ways: they are linear on any text.
_ROOT: Final = re.compile(r"\s*([^\s.\[\]{}][^.\[\]{}]*)")
_PART: Final = re.compile(
    r"""
    \.\s*(?P<name>[^\s.\[\]{}][^.\[\]{}]*)
    | \[\s*(?:(?P<index>-?[0-9]{1,9})|"(?P<key>[^"]*)"|'(?P<quoted>[^']*)')\s*\]\s*
    """,
    re.VERBOSE,
)
_SHORT: Final = 1_000  # characters; longer texts are not remembered


class Reference(NamedTuple):
    """One reference.

    Attributes:
        root: Id of the step, or "global" for the plan's variables.
        path: The way from its result to the value: `.name` and `["name"]` are text, `[0]` is a
            number. Empty where the whole is meant.
        text: What stands between the braces, without the white space around it.
    """

    root: str
    path: tuple[str | int, ...]
    text: str


class Flaw(NamedTuple):
    """Braces that are no reference, and why in one sentence."""

    why: str


class Piece(NamedTuple):
    r"""A part of a text as written, and what it means: text means itself, `\{{` its braces."""

    raw: str
    means: Reference | Flaw | str


def pieces(text: str) -> Sequence[Piece]:
    """The text in pieces; as written, they are the text again."""
    # A plan is read again and again: to check it, to compare it, to run it.
    if len(text) > _SHORT:
        return tuple(_all_pieces(text))
    return _remembered(text, LANGUAGE.get())


@lru_cache(maxsize=4096)
def _remembered(text: str, _language: str) -> tuple[Piece, ...]:
    """Remembered with its flaws, which are told in a language."""
    return tuple(_all_pieces(text))


def _all_pieces(text: str) -> Iterator[Piece]:
    done = 0
    while (start := text.find(OPEN, done)) >= 0:
        escaped = text[done:start].endswith("\\")
        before = text[done : start - escaped]
        if before:
            yield Piece(before, before)
        if escaped:
            done = start + len(OPEN)
            yield Piece(text[start - 1 : done], OPEN)
        else:
            means, done = _read(text, start)
            yield Piece(text[start:done], means)
    if done < len(text):
        yield Piece(text[done:], text[done:])


def _read(text: str, start: int) -> tuple[Reference | Flaw, int]:
    """What begins here, and where all that belongs to it ends."""
    at = start + len(OPEN)
    root = _ROOT.match(text, at)
    if not root:
        return _flaw(text, start, at, say("reference_begins_odd"))
    at = root.end()
    path: list[str | int] = []
    while not text.startswith(_CLOSE, at):
        found = _PART.match(text, at)
        if not found:
            return _flaw(text, start, at, _why(text, at))
        path.append(_part(found))
        at = found.end()
    inside = text[start + len(OPEN) : at].strip()
    return Reference(root[1].rstrip(), tuple(path), inside), at + len(_CLOSE)


def _part(found: re.Match[str]) -> str | int:
    if found["name"] is not None:
        return found["name"].rstrip()
    return int(found["index"]) if found["index"] else found[found.lastgroup or 0]


def _why(text: str, at: int) -> str:
    """Why a path cannot go on here."""
    if text.startswith(OPEN, at):
        return say("reference_nested", open=OPEN)
    if text.startswith(".", at):
        return say("reference_name_missing")
    if text.startswith("[", at):
        return say("reference_brackets")
    return say("reference_odd_sign", sign=repr(text[at : at + 1]))


def _flaw(text: str, start: int, at: int, why: str) -> tuple[Flaw, int]:
    close = text.find(_CLOSE, at)
    # After one that is not closed there is no other: the same '}}' is missing to it.
    end = len(text) if close < 0 else close + len(_CLOSE)
    if close < 0:
        why = say("reference_unclosed")
    shown = shortened(text[start:end])
    return Flaw(say("no_reference", text=repr(shown), why=why, open=OPEN)), end


# What a plan does with them.


class MissingValue(Exception):
    """A reference to what is not there: which one, where, and what is there instead."""


def references_in(value: Any) -> list[Reference]:
    """All references in the texts of a JSON value, in order, repeated ones too.

    Keys of objects are no place for them. What is malformed is left out: `malformed_in` names it.
    """
    return [p.means for p in _pieces_in(value) if isinstance(p.means, Reference)]


def malformed_in(value: Any) -> list[str]:
    """What looks like a reference and is none: one sentence each, none twice."""
    told = [p.means.why for p in _pieces_in(value) if isinstance(p.means, Flaw)]
    return list(dict.fromkeys(told))


def is_whole(text: str) -> bool:
    """Whether the text is exactly one reference: it then stands for a value of any type."""
    found = pieces(text)
    return len(found) == 1 and isinstance(found[0].means, Reference)


def resolve(value: Any, results: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """A copy of the value with every reference replaced by what it stands for.

    A text that is one reference becomes the value itself, whatever its type. Into a longer text,
    text is inserted as it is and everything else as JSON. What was inserted is not read again:
    braces in it stay. `output`, `result`, `text` and `content` as the whole path mean the result
    itself where it is no object; so do `output` and `result` on an object without such a key.

    Args:
        value: A JSON value, such as the arguments of a step.
        results: Step id to result, of the steps that are done.
        variables: The plan's variables.

    Raises:
        MissingValue: A step, a key or an item is not there, or a reference is malformed. Nothing
            is ever put in its place. Also where a few references would become more than can be
            sent: what each step takes twice doubles from step to step.
    """
    _refuse_flood(references_in(value), results, variables)
    return mapped(value, lambda text: _resolved(text, results, variables))


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A copy of the value with references to other steps, old id to new; all else byte for byte."""
    return mapped(value, lambda text: "".join(_renamed(p, names) for p in pieces(text)))


def mapped(value: Any, change: Callable[[str], Any]) -> Any:
    """A copy of a JSON value in which each text is changed, keys excepted."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return [mapped(item, change) for item in value] if isinstance(value, list) else value


def _pieces_in(value: Any) -> Iterator[Piece]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if OPEN in item:
                yield from pieces(item)
        elif isinstance(item, dict | list):
            waiting.extend(reversed(item.values() if isinstance(item, dict) else item))


def _renamed(piece: Piece, names: Mapping[str, str]) -> str:
    if not isinstance(piece.means, Reference) or piece.means.root == GLOBAL:
        return piece.raw
    root = piece.means.root
    return piece.raw.replace(root, names.get(root, root), 1)


def _refuse_flood(
    references: Sequence[Reference], results: Mapping[str, Any], variables: Mapping[str, Any]
) -> None:
    """Raise before more is put together than a machine can hold; one reference adds nothing."""
    if len(references) < _MANY:
        return
    times = Counter(references)
    size = sum(n * _length(_meaning_of(r, results, variables)) for r, n in times.items())
    if size > _LONGEST:
        limit = f"{_LONGEST:,}"
        raise MissingValue(say("too_many_characters", count=f"{size:,}", limit=limit))


def _length(value: Any) -> int:
    return len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _resolved(text: str, results: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    if OPEN not in text:
        return text
    found = pieces(text)
    values = [_meaning(piece, results, variables) for piece in found]
    if len(found) == 1 and isinstance(found[0].means, Reference):
        return mapped(values[0], str)
    return "".join(v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values)


def _meaning(piece: Piece, results: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    if isinstance(piece.means, str):
        return piece.means
    if isinstance(piece.means, Flaw):
        raise MissingValue(piece.means.why)
    return _meaning_of(piece.means, results, variables)


def _meaning_of(
    reference: Reference, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> Any:
    if reference.root == GLOBAL:
        return _followed(reference, dict(variables))
    return _of_step(reference, results)


def _of_step(reference: Reference, results: Mapping[str, Any]) -> Any:
    if reference.root not in results:
        raise MissingValue(_no_result(reference, results))
    result = results[reference.root]
    return result if _means_all(result, reference.path) else _followed(reference, result)


def _means_all(result: Any, path: tuple[str | int, ...]) -> bool:
    if isinstance(result, dict):
        return path in _ALL_OF_OBJECT and path[0] not in result
    return path in _ALL_OF_OTHER


def _followed(reference: Reference, value: Any) -> Any:
    """What the reference's path leads to from this value."""
    for place, part in enumerate(reference.path):
        key = _key(value, part)
        if key is None:
            raise MissingValue(_no_entry(reference, place, value))
        value = value[key]
    return value


def _key(value: Any, part: str | int) -> str | int | None:
    """By which key or index the value holds this part; None where it does not."""
    if isinstance(value, dict):
        return str(part) if str(part) in value else None
    if not isinstance(value, list) or not _INDEX.fullmatch(str(part)):
        return None
    return int(part) if -len(value) <= int(part) < len(value) else None


def _no_result(reference: Reference, results: Mapping[str, Any]) -> str:
    kind, step = "no_result_of_step" if results else "no_result_yet", shortened(reference.root)
    return say(kind, reference=_braced(reference), step=repr(step), known=_named(results))


def _no_entry(reference: Reference, place: int, value: Any) -> str:
    root, path, _ = reference
    step = repr(shortened(root))
    whole = say("the_variables") if root == GLOBAL else say("the_result_of_step", step=step)
    way = "".join(f"[{json.dumps(part, ensure_ascii=False)}]" for part in path[:place])
    where = say("part_of", part=shortened(way), whole=whole) if way else whole
    part = path[place]
    name = f"[{part}]" if isinstance(part, int) else repr(shortened(part))
    kind = _kind(value)
    return say("no_entry", reference=_braced(reference), entry=name, where=where, kind=kind)


def _kind(value: Any) -> str:
    """What a value is, in words: its keys, its length, its type."""
    if isinstance(value, dict):
        return say("kind_object", keys=_named(value)) if value else say("kind_empty_object")
    if isinstance(value, list):
        return say("kind_list", count=len(value)) if value else say("kind_empty_list")
    if isinstance(value, str):
        return say("kind_text", count=len(value))
    return say("kind_value", value=json.dumps(value))


def _named(names: Mapping[str, Any]) -> str:
    shown = [repr(shortened(str(name))) for name in list(names)[:_NAMES_SHOWN]]
    more = len(names) - len(shown)
    listed = ", ".join(shown)
    return say("listed_and_more", listed=listed, count=more) if more else listed


def _braced(reference: Reference) -> str:
    return f"{{{{{shortened(reference.text)}}}}}"
