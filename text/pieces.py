"""Finds pieces of secrets in whatever spelling: broken by white space, in capitals, in escapes.

All in linear time: a text is looked at once in short steps, and closer only where one is known.
"""

import html
import re
from collections.abc import Iterable
from typing import Final

PIECE: Final = 12
"""So many characters of a secret, one after another, are hidden."""
# Within each piece of a text there is one of these that begins at a multiple of the step.
_PROBE: Final = 6
_STEP: Final = PIECE - _PROBE + 1

_NOISE: Final = re.compile(
    "[\\s\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
"""White space, and what has no width."""
_HEX: Final = "[0-9a-fA-F]"
_ESCAPE: Final = re.compile(
    rf"(?<!\\)\\+(?:u({_HEX}{{4}})|u\{{({_HEX}{{1,6}})\}}|x({_HEX}{{2}})|U({_HEX}{{8}})|[nrtbfv]|(?=[\"'/]))"
    rf"|%(?:25)*({_HEX}{{2}})|&#?\w{{1,31}};|&#(?:\d{{1,7}}|[xX]{_HEX}{{1,6}})"
)
_SPECIAL: Final = re.compile(rf"{_ESCAPE.pattern}|{_NOISE.pattern}|\Z")
_KNOWN_FORM: Final = re.compile(r"[/~{\[]|\.{1,2}/|-----|[A-Za-z]:\\|.*://", re.DOTALL)
"""Paths, addresses, JSON: much of such a value stands in other texts for other reasons."""


class Pieces:
    """The pieces of some secrets."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Take the secrets that have as many characters, and are no paths, addresses or JSON."""
        plain = [_simplify(value) for value in values if not _KNOWN_FORM.match(value)]
        self._pieces = frozenset(p for one in plain for p in _cut(one, PIECE))
        self._probes = frozenset(p for one in self._pieces for p in _cut(one, _PROBE))

    def may_be_in(self, text: str) -> bool:
        """Whether to look closer at a text."""
        if not self._probes:
            return False
        plain, probes = _simplify(text), self._probes
        return any(plain[i : i + _PROBE] in probes for i in range(0, len(plain), _STEP))

    def hide(self, text: str, mask: str) -> str:
        """The text with the mask in the place of each run of pieces."""
        if not self.may_be_in(text):
            return text
        whole, places = _map_simplified(text)
        end, shown = 0, []
        for i in range(len(whole) - PIECE + 1):
            if whole[i : i + PIECE] in self._pieces:
                start = places[i][0]
                shown += [text[end:start], mask] if start >= end else []
                end = places[i + PIECE - 1][1]
        return "".join([*shown, text[end:]])


def _map_simplified(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A simplified text, and where each of its characters begins and ends in the text itself."""
    plain: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0
    for token in _SPECIAL.finditer(text):
        start, end = token.span()
        said = _simplify(token[0])
        plain += [_lower(text[at:start]), said]
        places += zip(range(at, start), range(at + 1, start + 1), strict=True)
        places += [(start, end)] * len(said)
        at = end
    return "".join(plain), places


def _cut(text: str, length: int) -> Iterable[str]:
    return (text[i : i + length] for i in range(len(text) - length + 1))


def _simplify(text: str) -> str:
    """A text without escapes, white space, what has no width, and capitals."""
    if "\\" in text or "%" in text or "&" in text:
        text = _ESCAPE.sub(_decode, text)
    return _lower(_NOISE.sub("", text))


def _lower(text: str) -> str:
    """The text in small letters, each of them one character still."""
    return text.replace("\u0130", "i").lower()


def _decode(escape: re.Match[str]) -> str:
    if code := next(filter(None, escape.groups()), ""):
        return chr(min(int(code, 16), 0x10FFFF))
    return html.unescape(escape[0]) if escape[0].startswith("&") else ""
