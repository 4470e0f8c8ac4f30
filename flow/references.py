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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..text.canonical import shortened
from ..text.secrets import MASK
from ..text.told import LANGUAGE, say

GLOBAL: Final = "global"
"""The root by which references read the plan's variables."""
ITEM: Final = "item"
"""The root by which a step that is made once for each item of a list reads the item."""
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
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
WHOLE: Final = frozenset({("output",), ("result",)})
"""Paths that mean the result itself, where it is no object with such a key."""
_ALL_OF_OTHER: Final = frozenset({("text",), ("content",)})
_NAMES_SHOWN: Final = 20
_MANY: Final = 2
_LONGEST: Final = 10_000_000
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

    def __str__(self) -> str:
        """The reference in braces, for a message."""
        return f"{{{{{shortened(self.text)}}}}}"


class Flaw(NamedTuple):
    """Braces that are no reference, and why in one sentence."""

    why: str


class Piece(NamedTuple):
    r"""A part of a text as written, and what it means: text means itself, `\{{` its braces."""

    raw: str
    means: Reference | Flaw | str


class MissingValue(Exception):
    """A reference to what is not there: which one, where, and what is there instead."""


# Reading.


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
        if before := text[done : start - escaped]:
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
        if found["index"]:
            path.append(int(found["index"]))
        else:
            path.append(found["name"].rstrip() if found["name"] else found[found.lastgroup or 0])
        at = found.end()
    inside = text[start + len(OPEN) : at].strip()
    return Reference(root[1].rstrip(), tuple(path), inside), at + len(_CLOSE)


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


# Walking over the texts of a plan; keys of objects are no place for references.


def references_in(value: Any) -> list[Reference]:
    """All references in the texts of a JSON value, in order, repeated ones too.

    What is malformed is left out: `malformed_in` names it.
    """
    return [p.means for p in _pieces_in(value) if isinstance(p.means, Reference)]


def roots_in(value: Any) -> list[str]:
    """Ids of the steps that the texts of a JSON value refer to, each once."""
    return list(dict.fromkeys(r.root for r in references_in(value) if r.root != GLOBAL))


def malformed_in(value: Any) -> list[str]:
    """What looks like a reference and is none: one sentence each, none twice."""
    told = [p.means.why for p in _pieces_in(value) if isinstance(p.means, Flaw)]
    return list(dict.fromkeys(told))


def literals_in(value: Any) -> Iterator[tuple[str, bool]]:
    """All text of a JSON value outside references, and whether it is all of its text."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts = pieces(item) if OPEN in item else (Piece(item, item),)
            texts = (part.raw for part in parts if isinstance(part.means, str))
            yield from ((text, len(parts) == 1) for text in texts)
        elif isinstance(item, dict | list):
            waiting.extend(reversed(item.values() if isinstance(item, dict) else item))


def _pieces_in(value: Any) -> Iterator[Piece]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if OPEN in item:
                yield from pieces(item)
        elif isinstance(item, dict | list):
            waiting.extend(reversed(item.values() if isinstance(item, dict) else item))


def mapped(value: Any, change: Callable[[str], Any]) -> Any:
    """A copy of a JSON value in which each text is changed, keys excepted."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return [mapped(item, change) for item in value] if isinstance(value, list) else value


def is_whole(text: str) -> bool:
    """Whether the text is exactly one reference: it then stands for a value of any type."""
    found = pieces(text)
    return len(found) == 1 and isinstance(found[0].means, Reference)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A copy of the value with references to other steps, old id to new; all else byte for byte."""

    def of_piece(piece: Piece) -> str:
        root = piece.means.root if isinstance(piece.means, Reference) else GLOBAL
        return piece.raw if root == GLOBAL else piece.raw.replace(root, names.get(root, root), 1)

    return mapped(value, lambda text: "".join(map(of_piece, pieces(text))))


# What references stand for.


def resolve(value: Any, results: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """A copy of the value with every reference replaced by what it stands for.

    A text that is one reference becomes the value itself, whatever its type. Into a longer text,
    text is inserted as it is and everything else as JSON. What was inserted is not read again:
    braces in it stay. A path that begins with `output` or `result` goes on from the result itself
    where that is no object with such a key; `text` and `content` mean a result that is no object.

    Args:
        value: A JSON value, such as the arguments of a step.
        results: Step id to result, of the steps that are done.
        variables: The plan's variables.

    Raises:
        MissingValue: A step, a key or an item is not there, or a reference is malformed. Nothing
            is ever put in its place. Also where a few references would become more than can be
            sent: what each step takes twice doubles from step to step.
    """

    def of_text(text: str) -> Any:
        if OPEN not in text:
            return text
        means = (piece.means for piece in pieces(text))
        values = [m if isinstance(m, str) else meaning_of(m, results, variables) for m in means]
        return mapped(values[0], str) if is_whole(text) else "".join(map(_as_text, values))

    references = references_in(value)
    if len(references) >= _MANY:  # one adds nothing
        times = Counter(references)
        size = sum(n * len(_as_text(meaning_of(r, results, variables))) for r, n in times.items())
        if size > _LONGEST:
            limit = f"{_LONGEST:,}"
            raise MissingValue(say("too_many_characters", count=f"{size:,}", limit=limit))
    return mapped(value, of_text)


def meaning_of(
    reference: Reference | Flaw, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> Any:
    """What one reference stands for, as it is there; see `resolve`."""
    if isinstance(reference, Flaw):
        raise MissingValue(reference.why)
    root, path, _ = reference
    if root == GLOBAL:
        return _shown(reference, _followed(reference, dict(variables)))
    if root not in results:
        kind = "no_result_of_step" if results else "no_result_yet"
        step = repr(shortened(root))
        raise MissingValue(say(kind, reference=reference, step=step, known=listed(results)))
    result = results[root]
    if path[:1] in WHOLE and not (isinstance(result, dict) and path[0] in result):
        reference = reference._replace(path=path[1:])
    means_all = path in _ALL_OF_OTHER and not isinstance(result, dict)
    return _shown(reference, result if means_all else _followed(reference, result))


def _shown(reference: Reference, value: Any) -> Any:
    """The value; a masked one is not there."""
    if value == MASK:
        raise MissingValue(say("masked_value", reference=reference))
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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


def _no_entry(reference: Reference, place: int, value: Any) -> str:
    root, path, _ = reference
    step = repr(shortened(root))
    named = {GLOBAL: "the_variables", ITEM: "the_item"}
    whole = say(named[root]) if root in named else say("the_result_of_step", step=step)
    way = "".join(f"[{json.dumps(part, ensure_ascii=False)}]" for part in path[:place])
    where = say("part_of", part=shortened(way), whole=whole) if way else whole
    part = path[place]
    name = f"[{part}]" if isinstance(part, int) else repr(shortened(part))
    return say("no_entry", reference=reference, entry=name, where=where, kind=kind_of(value))


def kind_of(value: Any) -> str:
    """What a value is, in words: its keys, its length, its type."""
    if isinstance(value, dict):
        return say("kind_object", keys=listed(value)) if value else say("kind_empty_object")
    if isinstance(value, list):
        return say("kind_list", count=len(value)) if value else say("kind_empty_list")
    if isinstance(value, str):
        return say("kind_text", count=len(value))
    return say("kind_value", value=json.dumps(value))


def listed(names: Iterable[object]) -> str:
    """The first names for a message, and how many more there are."""
    given = list(names)
    shown = ", ".join(repr(shortened(str(name))) for name in given[:_NAMES_SHOWN])
    more = len(given) - _NAMES_SHOWN
    return say("listed_and_more", listed=shown, count=more) if more > 0 else shown
