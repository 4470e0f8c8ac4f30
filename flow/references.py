r"""References of a plan to what its steps gave: read, found, renamed, replaced. Pure, linear time.

`{{s1}}` refers to the result of step s1, `{{s1.rows[0].name}}` to a part of it, `{{global.x}}` to a
variable of the plan, `{{global}}` to all of them. White space around a name is ignored, inside it
counts: `{{s1.Exchange Rate}}`. `[-1]` is the last item of a list; a key with one of `.[]{}` in it
stands in quotes: `{{s1["a.b"]}}`. `\{{` is a literal `{{`; a lone `}}` is text. A reference ends at
its first `}}` that is not inside quotes.

`$s1.x`, `${s1.x}`, `{s1.x}`, `<s1.x>`, `#E1`, `$.steps.s1.x`, `s1.output.x`, `s1.x}}` are foreign:
other plan languages spell them so, or half is missing, and a tool would get them as they stand, as
it would `{{s1.x}}` in the wide signs of a Chinese keyboard. What looks like one and names no step
of the plan is text: `${HOME}`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..text.canonical import list_names, shorten_text
from ..text.secrets import MASK
from ..text.sentences import LANGUAGE, say

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
_LONGEST: Final = 10_000_000
_SHORT: Final = 1_000  # characters; longer texts are not remembered


class Reference(NamedTuple):
    """One reference: its root (a step's id or "global"), the path from there, and its text.

    In a path `.name` and `["name"]` are texts, `[0]` is a number. It is empty if the whole is
    meant.
    """

    root: str
    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        """The reference in braces, for a message."""
        return f"{{{{{shorten_text(self.text)}}}}}"


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


def split_pieces(text: str) -> Sequence[Piece]:
    """The text in pieces; as written, they are the text again."""
    if OPEN not in text:
        return (Piece(text, text),) if text else ()
    # A plan is read again and again: to check it, to compare it, to run it.
    read = _split_cached if len(text) <= _SHORT else _split_cached.__wrapped__
    return read(text, LANGUAGE.get())


@lru_cache(maxsize=4096)
def _split_cached(text: str, _language: str) -> tuple[Piece, ...]:
    """Remembered with its flaws, which are told in a language."""
    return tuple(_scan_pieces(text))


def _scan_pieces(text: str) -> Iterator[Piece]:
    done = 0
    while (start := text.find(OPEN, done)) >= 0:
        escaped = text[done:start].endswith("\\")
        if before := text[done : start - escaped]:
            yield Piece(before, before)
        if escaped:
            done = start + len(OPEN)
            yield Piece(text[start - 1 : done], OPEN)
        else:
            means, done = _read_reference(text, start)
            yield Piece(text[start:done], means)
    if done < len(text):
        yield Piece(text[done:], text[done:])


def _read_reference(text: str, start: int) -> tuple[Reference | Flaw, int]:
    """What begins here, and where all that belongs to it ends."""
    at = start + len(OPEN)
    root = _ROOT.match(text, at)
    if not root:
        return _make_flaw(text, start, at, say("reference_begins_odd"))
    at = root.end()
    path: list[str | int] = []
    while not text.startswith(_CLOSE, at):
        found = _PART.match(text, at)
        if not found:
            return _make_flaw(text, start, at, _explain_path(text, at))
        if found["index"]:
            path.append(int(found["index"]))
        else:
            path.append(found["name"].rstrip() if found["name"] else found[found.lastgroup or 0])
        at = found.end()
    inside = text[start + len(OPEN) : at].strip()
    return Reference(root[1].rstrip(), tuple(path), inside), at + len(_CLOSE)


def _explain_path(text: str, at: int) -> str:
    """Why a path cannot go on here."""
    if text.startswith(OPEN, at):
        return say("reference_nested", open=OPEN)
    if text.startswith(".", at):
        return say("reference_name_missing")
    if text.startswith("[", at):
        return say("reference_brackets")
    return say("reference_odd_sign", sign=repr(text[at : at + 1]))


def _make_flaw(text: str, start: int, at: int, why: str) -> tuple[Flaw, int]:
    close = text.find(_CLOSE, at)
    # After one that is not closed there is no other: the same '}}' is missing to it.
    end = len(text) if close < 0 else close + len(_CLOSE)
    if close < 0:
        why = say("reference_unclosed")
    shown = shorten_text(text[start:end])
    return Flaw(say("no_reference", text=repr(shown), why=why, open=OPEN)), end


# Walking over the texts of a plan; keys of objects are no place for references.


def find_references(value: Any) -> list[Reference]:
    """All references in the texts of a JSON value, in order; malformed ones are left out."""
    return [p.means for text in _split_texts(value) for p in text if isinstance(p.means, Reference)]


def find_malformed(value: Any) -> list[str]:
    """What looks like a reference and is none: one sentence each, none twice."""
    told = [p.means.why for text in _split_texts(value) for p in text if isinstance(p.means, Flaw)]
    return list(dict.fromkeys(told))


def _split_texts(value: Any) -> Iterator[Sequence[Piece]]:
    """All texts of a JSON value in order, each in its pieces."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield split_pieces(item)
        elif isinstance(item, dict | list):
            waiting.extend(reversed(item.values() if isinstance(item, dict) else item))


def map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """A copy of a JSON value in which each text is changed, keys excepted."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list) else value


def is_whole(text: str) -> bool:
    """Whether the text is exactly one reference: it then stands for a value of any type."""
    found = split_pieces(text)
    return len(found) == 1 and isinstance(found[0].means, Reference)


def rename_steps(value: Any, names: Mapping[str, str]) -> Any:
    """A copy of the value with references to other steps, old id to new; all else byte for byte."""

    def rename_piece(piece: Piece) -> str:
        root = piece.means.root if isinstance(piece.means, Reference) else GLOBAL
        return piece.raw if root == GLOBAL else piece.raw.replace(root, names.get(root, root), 1)

    return map_texts(value, lambda text: "".join(map(rename_piece, split_pieces(text))))


# Foreign references.

Fields = Mapping[str, Collection[str]]
"""The ids of a plan's steps, and what is known of the fields of their results."""


_ID: Final = r"(?:steps?\.)?(?P<id>[\w-]+)"
_PATH: Final = r"""(?P<path>(?:\.[\w-]+|\[(?:-?\d+|"[^"\]]*"|'[^'\]]*')\])*)"""
_ALONE: Final = re.compile(
    rf"\s*+(?P<sign>[$#@%<(\[{{]*+)\s*+\.?+{_ID}{_PATH}\s*+(?P<close>[>)\]}}%]*+)\s*"
)
_OPENING: Final = re.compile(r"[%<({\[]")
_LONGEST_FOREIGN: Final = 300
_WITHIN: Final = (
    re.compile(rf"(?P<sign>\$?\{{)\s*[$.]*{_ID}{_PATH}\s*\}}"),
    re.compile(rf"(?P<sign>(?<![\w$])\$)(?:\.)?{_ID}{_PATH}(?![\w-])"),
    re.compile(rf"(?P<sign><)\s*{_ID}{_PATH}\s*>"),
    re.compile(rf"(?P<sign>(?<![\w/&#])#){_ID}{_PATH}(?![\w-])"),
)
_HALF: Final = re.compile(rf"(?P<sign>(?<![\w.{{-])){_ID}{_PATH}\s*\}}\}}")
"""A reference without its first braces."""
_SIGNS: Final = frozenset("${<#")
# As a Chinese keyboard writes these signs; each is one character here and there.
_NARROW: Final = str.maketrans(
    "\uff5b\uff5d\uff04\uff1c\uff1e\uff03\uff0e\uff3b\uff3d", "{}$<>#.[]"
)
# An id that is no word of any language: nobody writes it but to name the step.
_MADE_UP: Final = re.compile(r"[A-Za-z]{1,8}[-_]?\d{1,4}")
_WORD: Final = re.compile(r"\.[^\W\d]")
_RESULT: Final = re.compile(r"\.(output|result)s?(?![\w-])")
_PLURAL: Final = re.compile(r"\A\.(?:output|result)s(?![\w-])")


def find_foreign(value: Any, fields: Fields) -> list[str]:
    """One sentence for each wrong reference to another plan in a value, without repeats."""
    problems: dict[str, None] = {}
    for parts in _split_texts(value):
        whole, escaped = len(parts) == 1, any(part.means == OPEN for part in parts)
        for text in (part.raw for part in parts if isinstance(part.means, str)):
            found = _find_foreign_in_text(text, fields, whole=whole, escaped=escaped)
            problems |= dict.fromkeys(found)
    return list(problems)


def _find_foreign_in_text(
    written: str, fields: Fields, *, whole: bool, escaped: bool
) -> Iterator[str]:
    """The same of a text that stands alone (`whole`), or beside braces that are `escaped`."""
    text = written.translate(_NARROW)
    match = _ALONE.fullmatch(text) if whole and len(text) <= _LONGEST_FOREIGN else None
    closed = match is not None and len(match["close"]) == len(_OPENING.findall(match["sign"]))
    if match and closed and (problem := _explain_foreign(match, fields, written, whole=True)):
        yield problem
        return
    patterns = [] if _SIGNS.isdisjoint(text) else [*_WITHIN]
    patterns += [_HALF] if not escaped and text.count("}") > text.count("{") else []
    for match in (found for pattern in patterns for found in pattern.finditer(text)):
        if problem := _explain_foreign(match, fields, written[slice(*match.span())], whole=False):
            yield problem


def _explain_foreign(match: re.Match[str], fields: Fields, written: str, *, whole: bool) -> str:
    """Why a foreign reference is wrong; '' if it names no step or may be plain text."""
    sign, path = match["sign"], match["path"]
    step = next((i for i in (match["id"], sign[-1:] + match["id"]) if i in fields), None)
    if step is None or (step.isdigit() and not _WORD.match(path)):
        return ""
    if not sign:
        surely = _is_result_path(path, fields[step]) or ("steps." in match[0] and bool(path))
        surely |= match[0].endswith(_CLOSE) and bool(path or _MADE_UP.fullmatch(step))
    elif _MADE_UP.fullmatch(match["id"]):
        surely = "<" not in sign or whole or bool(path)
    elif sign[0] in _SIGNS:
        surely = bool(path) or sign == "${" or (whole and sign[0] in "${")
    else:
        surely = _is_result_path(path, fields[step])
    if not surely:
        return ""
    right = f"{OPEN}{step}{_PLURAL.sub('', path, count=1)}{_CLOSE}"
    text = repr(shorten_text(written.strip()))
    return say("reference_foreign", text=text, step=repr(step), right=shorten_text(right))


def _is_result_path(path: str, fields: Collection[str]) -> bool:
    """Whether a path can hardly be anything but the way into a result: no end of a file's name."""
    first = re.match(r"\.([\w-]+)", path)
    return bool(_RESULT.match(path) or "[" in path or (first and first[1] in fields))


# What references stand for.


def resolve_references(value: Any, results: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """A copy of the value with every reference replaced by what it stands for.

    A text that is one reference becomes the value itself. In a longer text, texts are inserted as
    they are, all else as JSON; what was inserted is not read again. A path that begins with
    `output` or `result` goes on from the result if that has no such key; `text` and `content` mean
    a result that is no object.

    Raises:
        MissingValue: Something is missing or malformed, or the result would be too long to send.
    """

    def resolve_text(text: str) -> Any:
        if OPEN not in text:
            return text
        means = (piece.means for piece in split_pieces(text))
        values = [
            m if isinstance(m, str) else resolve_reference(m, results, variables) for m in means
        ]
        return map_texts(values[0], str) if is_whole(text) else "".join(map(_render_text, values))

    references = find_references(value)
    if len(references) > 1:  # one adds nothing
        times = Counter(references)
        size = sum(
            n * len(_render_text(resolve_reference(r, results, variables)))
            for r, n in times.items()
        )
        if size > _LONGEST:
            limit = f"{_LONGEST:,}"
            raise MissingValue(say("too_many_characters", count=f"{size:,}", limit=limit))
    return map_texts(value, resolve_text)


def resolve_reference(
    reference: Reference | Flaw, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> Any:
    """What one reference stands for, as it is there; see `resolve`."""
    if isinstance(reference, Flaw):
        raise MissingValue(reference.why)
    root, path, _ = reference
    if root != GLOBAL and root not in results:
        kind = "no_result_of_step" if results else "no_result_yet"
        step = repr(shorten_text(root))
        raise MissingValue(say(kind, reference=reference, step=step, known=list_names(results)))
    whole = dict(variables) if root == GLOBAL else results[root]
    if root != GLOBAL and path[:1] in WHOLE and not (isinstance(whole, dict) and path[0] in whole):
        reference = reference._replace(path=path[1:])
    elif root != GLOBAL and path in _ALL_OF_OTHER and not isinstance(whole, dict):
        reference = reference._replace(path=())
    value = _follow_path(reference, whole)
    if value == MASK:  # which is not there
        raise MissingValue(say("masked_value", reference=reference))
    return value


def _render_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _follow_path(reference: Reference, value: Any) -> Any:
    """What the reference's path leads to from this value."""
    for place, part in enumerate(reference.path):
        key = _find_key(value, part)
        if key is None:
            raise MissingValue(_explain_no_entry(reference, place, value))
        value = value[key]
    return value


def _find_key(value: Any, part: str | int) -> str | int | None:
    """By which key or index the value holds this part; None where it does not."""
    if isinstance(value, dict):
        return str(part) if str(part) in value else None
    if not isinstance(value, list) or not _INDEX.fullmatch(str(part)):
        return None
    return int(part) if -len(value) <= int(part) < len(value) else None


def _explain_no_entry(reference: Reference, place: int, value: Any) -> str:
    root, path, _ = reference
    sentence = {GLOBAL: "the_variables", ITEM: "the_item"}.get(root, "the_result_of_step")
    whole = say(sentence, step=repr(shorten_text(root)))
    way = "".join(f"[{json.dumps(part, ensure_ascii=False)}]" for part in path[:place])
    where = say("part_of", part=shorten_text(way), whole=whole) if way else whole
    part = path[place]
    name = f"[{part}]" if isinstance(part, int) else repr(shorten_text(part))
    return say("no_entry", reference=reference, entry=name, where=where, kind=describe_kind(value))


def describe_kind(value: Any) -> str:
    """What a value is, in words: its keys, its length, its type."""
    if isinstance(value, dict):
        return say("kind_object", keys=list_names(value)) if value else say("kind_empty_object")
    if isinstance(value, list):
        return say("kind_list", count=len(value)) if value else say("kind_empty_list")
    if isinstance(value, str):
        return say("kind_text", count=len(value))
    return say("kind_value", value=json.dumps(value))
