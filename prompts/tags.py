"""Finds section tags in data, in any spelling, and escapes them.

A model takes more for a tag than a parser does: capitals, blanks, invisible characters, brackets
and letters of another script, attributes. In a text a tag gets a backslash, which reading removes;
in JSON its bracket is escaped. `List<Task>`, `<taskbar>` and a tag between the words of a line
stay as they are.
"""

import re
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Final

from ..text.words import fold_case

NAMES: Final = (
    "additional_context", "answers", "articles", "conversation", "earlier_evidence", "evidence",
    "failures", "improvements", "limits", "messages", "more_tools", "notes", "previous_plan",
    "reply", "request", "results_so_far", "situation", "snapshot", "steps", "strategies", "task",
    "tasks", "tools",
)  # fmt: skip
"""The sections there are."""

_OPENED: Final = re.compile(
    "[<\u00ab\u02c2\u1438\u2039\u226a\u227a\u2329\u276c\u276e\u2770\u27e8\u27ea\u29fc\u3008\u300a"
    "\u3010\ufe3d\ufe3f\ufe64\uff1c]|&(?:lt|#0*60(?!\\d)|#x0*3c(?![0-9a-f]));?",
    re.IGNORECASE,
)
_CLOSED: Final = (
    "(?:[>\u00bb\u02c3\u1433\u203a\u226b\u227b\u232a\u276d\u276f\u2771\u27e9\u27eb\u29fd\u3009"
    "\u300b\u3011\ufe3e\ufe40]|&(?:gt|#0*62(?!\\d)|#x0*3e(?![0-9a-f])))"
)
# Takes no room: controls that are no white space, joiners, variants, fillers, language tags.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    "\U000e0000-\U000e0fff]"
)
# Letters and signs that are drawn like ours.
_DRAWN_ALIKE: Final = str.maketrans(
    "аеорсухіѕԁԛһӏ" + "αεικνορτυ" + "ıɡ\u2044\u2215\u27cb\u29f8\u2571",  # noqa: RUF001 - on purpose
    "aeopcyxisdqhl" + "aeikvoptu" + "ig/////",
)
_NAMED: Final = "|".join(name.replace("_", r"[\W_]{0,3}") for name in NAMES)
_SPACED: Final = "|".join(r"[\s_-]{0,2}".join(name.replace("_", "")) for name in NAMES)
_TAG: Final = re.compile(
    # One that closes may have any sign in it but those of a path and of other tags.
    rf"[^\w<>/.~]*+/[^\w<>.~]*+(?:{_SPACED})(?![-.:]?\w)"
    # One that opens is closed soon, or its line ends with it.
    rf"|[\s|\\]*+(?:{_NAMED})(?:[\s|]*+/?[\s|]*+(?:{_CLOSED}|\Z)|[^\S\n]*+\n|\s.{{0,200}}?{_CLOSED})",
    re.DOTALL,
)
_CLOSING: Final = re.compile(_CLOSED, re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]")
_A_TYPE: Final = re.compile(r"[A-Z]\w*>")
_LINE_ENDS: Final = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_BLANKS: Final = re.compile(r"[^\S\n]+")
_ESCAPES: Final = re.compile(r"\\(u[0-9a-f]{4}|.)", re.IGNORECASE)
_MEANT: Final = {"n": "\n", "r": "\n", "t": " ", "f": " ", "\\": "\\", '"': '"', "/": "/"}


@dataclass(frozen=True)
class _Tag:
    """The start of a tag's bracket in a text, and the start of the text behind it."""

    start: int
    behind: int


def escape_tags(text: str) -> str:
    """The text with a backslash behind the bracket of each tag."""
    return _rewrite_tags(text, _find_edge_tags(text), lambda bracket: f"{bracket}\\")


def unescape_tags(text: str) -> str:
    """An escaped text as it was."""
    tags = [tag for tag in _find_edge_tags(text) if text.startswith("\\", tag.behind)]
    cut = [replace(tag, behind=tag.behind + 1) for tag in tags]
    return _rewrite_tags(text, cut, lambda bracket: bracket.removesuffix("\\"))


def escape_tags_in_json(text: str) -> str:
    """The same JSON with the bracket of each tag in its strings escaped."""
    tags = _find_tags(text, lambda rest: _ESCAPES.sub(lambda sign: _MEANT.get(sign[1], ""), rest))
    return _rewrite_tags(text, tags, lambda bracket: f"\\u{ord(bracket[0]):04x}{bracket[1:]}")


def _rewrite_tags(text: str, tags: Iterable[_Tag], mark: Callable[[str], str]) -> str:
    parts, done = [], 0
    for tag in tags:
        parts += [text[done : tag.start], mark(text[tag.start : tag.behind])]
        done = tag.behind
    return "".join([*parts, text[done:]])


def _find_edge_tags(text: str) -> list[_Tag]:
    """The tags of every line that begins or ends with one; between words none means anything."""
    tags = _find_tags(text)
    ends = list(accumulate(map(len, text.splitlines(keepends=True)))) if tags else []
    found: list[_Tag] = []
    for line, group in groupby(tags, lambda tag: bisect(ends, tag.start)):
        here = list(group)
        before = text[ends[line - 1] if line else 0 : here[0].start]
        last = text[here[-1].behind : ends[line]]
        closed = _CLOSING.search(last)
        after = last[closed.end() :] if closed else ""
        found += [] if _WORD.search(before) and _WORD.search(after) else here
    return found


def _find_tags(text: str, read: Callable[[str], str] = str) -> list[_Tag]:
    """All that is spelled like a tag; `read` decodes what is behind a bracket."""
    brackets = list(_OPENED.finditer(text))
    ends = [*(bracket.start() for bracket in brackets[1:]), len(text)]
    spans = [(*bracket.span(), end) for bracket, end in zip(brackets, ends, strict=False)]
    return [
        _Tag(start, behind)
        for start, behind, end in spans
        if _begins_tag(text[start - 1 : start], text[start:behind], read(text[behind:end]))
    ]


def _begins_tag(before: str, bracket: str, rest: str) -> bool:
    bare = rest.lstrip("\\")
    if bracket == "<" and before.isalnum() and _A_TYPE.match(bare):
        return False
    return _TAG.match(_normalize_text(bare)) is not None


def _normalize_text(text: str) -> str:
    """The text as a reader sees it: small plain letters, single blanks, one kind of line end."""
    seen = _BLANKS.sub(" ", _LINE_ENDS.sub("\n", _UNSEEN.sub("", text)))
    if seen.isascii():
        return seen.lower()
    apart = fold_case(seen, "NFKD")
    plain = "".join(sign for sign in apart if not unicodedata.combining(sign))
    return plain.translate(_DRAWN_ALIKE)
