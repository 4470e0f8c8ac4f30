r"""Text in which `{{…}}` stands for values, read piece by piece. Pure, linear time.

`{{s1}}` refers to the result of step s1, `{{s1.rows[0].name}}` to a part of it. White space around
a name is ignored, inside it counts: `{{s1.Exchange Rate}}`. `[-1]` is the last item of a list; a
key with one of `.[]{}` in it stands in quotes: `{{s1["a.b"]}}`. `\{{` is a literal `{{`; a lone
`}}` is text. A reference ends at its first `}}` that is not inside quotes.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ..state.shortened import shortened

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
_SHORT: Final = 1_000


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
    return _remembered(text) if len(text) <= _SHORT else tuple(_all_pieces(text))


@lru_cache(maxsize=4096)
def _remembered(text: str) -> tuple[Piece, ...]:
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
        return _flaw(text, start, at, "it does not begin with the id of a step")
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
        return "another '{{' comes before its '}}'"
    if text.startswith(".", at):
        return "a name is missing after a '.'"
    if text.startswith("[", at):
        return "between [ and ] stands either a whole number or a key in quotes"
    return f"{text[at : at + 1]!r} cannot stand there"


def _flaw(text: str, start: int, at: int, why: str) -> tuple[Flaw, int]:
    close = text.find(_CLOSE, at)
    # After one that is not closed there is no other: the same '}}' is missing to it.
    end = len(text) if close < 0 else close + len(_CLOSE)
    if close < 0:
        why = "it is never closed by '}}'"
    shown = shortened(text[start:end])
    return Flaw(f"{shown!r} is no reference: {why}; braces meant as text are '\\{{{{'"), end
