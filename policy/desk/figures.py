"""Numbers, links, addresses and ids in a text, and which source carries each. Pure.

No word is understood: a figure is found by its digits, of any script, and carried where the same
figure stands in a source. So it works in every language alike.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any, Final

from ...text.words import UNSPACED, fold_digits

_LATIN: Final = "A-Za-z\u00c0-\u024f\uff21-\uff3a\uff41-\uff5a"
_END: Final = r"[^\s<>()\[\]\"'\u3002\uff0c\uff1b\uff09\u3011]"
LINK: Final = re.compile(
    rf"(?<=\]\(){_END}+|(?<![a-z0-9])(?:[a-z][a-z0-9+.-]{{1,20}}+:)?//{_END}+"
    rf"|(?<![a-z0-9])(?:mailto|javascript|data|tel):{_END}+"
    rf"|(?:(?!{UNSPACED.pattern})[\w.+-]){{1,64}}+@(?:[^\W_]|[.-](?=\w)){{1,253}}"
    rf"|(?<![\w@./-])(?:[\w-]{{1,63}}+\.){{1,10}}+[^\W\d_]{{2,24}}+(?![\w-])(?:/{_END}*)?",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile(
    rf"(?<![{_LATIN}\d])(?:[{_LATIN}]++[-_/#.]?+){{0,8}}+\d(?:[{_LATIN}\d]|[-_/.,:'\u2019\u066b\u066c](?=[{_LATIN}\d]))*+"
)
_NUMBER: Final = re.compile(r"\d+(?:[.,'\u2019]\d+)*")
_OTHER_NUMBERS: Final = frozenset({"No", "Nl"})
_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,'\u2019])\d{3})(?:\1\d{3})*")


@dataclass(frozen=True)
class Figure:
    """A figure as it stands in a text: where, and in one spelling."""

    start: int
    end: int
    text: str

    @cached_property
    def value(self) -> Decimal | None:
        """The number it begins with, where letters alone follow; None of an id or a date."""
        found = _NUMBER.match(self.text)
        if found is None or re.match(r"-?\w*\d|[a-z]", self.text[found.end() :]):
            return None
        return _read_number(found[0])


def find_links(text: str) -> Iterator[Figure]:
    """The links and addresses of a text, in one spelling: without case, widths and unseen signs."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(sign for sign in plain if unicodedata.category(sign) != "Cf")
    for found in LINK.finditer(plain):
        link = found[0].rstrip(".,;:!?")
        yield Figure(found.start(), found.start() + len(link), link)


def find_figures(text: str) -> Iterator[Figure]:
    """The numbers, dates and ids of a text; of its links none."""
    plain = LINK.sub(lambda link: " " * len(link[0]), text)
    for found in _TOKEN.finditer(plain):
        yield Figure(found.start(), found.end(), _spell(found[0]))
    for place, sign in enumerate(plain):
        if not sign.isascii() and unicodedata.category(sign) in _OTHER_NUMBERS:
            yield Figure(place, place + 1, _spell(sign))


def _spell(token: str) -> str:
    """A figure in one spelling: digits of any script, widths and case are one."""
    token = unicodedata.normalize("NFKC", token).replace("\u066b", ".").replace("\u066c", ",")
    return fold_digits(token).casefold()


def _read_number(text: str) -> Decimal:
    """A number as people write it: three digits behind a lone sign are thousands."""
    if _GROUPED.fullmatch(text):
        return Decimal(re.sub(r"\D", "", text))
    whole, _, part = re.sub(r"[,'\u2019]", ".", text).rpartition(".")
    return Decimal(f"{whole.replace('.', '')}.{part}" if whole else part)


@dataclass(frozen=True)
class Source:
    """What may carry a figure: texts, and data of results."""

    text: str = ""
    data: Any = None

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures of its text."""
        return [*find_figures(self.all_text)]

    @cached_property
    def all_text(self) -> str:
        """Its text, and each text in its data."""
        return "\n".join([self.text, *_iter_texts(self.data)])

    @cached_property
    def values(self) -> frozenset[Decimal]:
        """The numbers in it."""
        of_text = (figure.value for figure in self.figures)
        return frozenset(v for v in (*of_text, *_iter_numbers(self.data)) if v is not None)

    @cached_property
    def spellings(self) -> frozenset[str]:
        """Its figures as they are spelled."""
        return frozenset(figure.text for figure in self.figures)

    def carries(self, figure: Figure) -> bool:
        """Whether the figure stands in it, as it is spelled or as the same number."""
        return figure.text in self.spellings or figure.value in self.values

    @cached_property
    def links(self) -> frozenset[str]:
        """The links and addresses that stand in it whole."""
        return frozenset(one.text for one in find_links(self.all_text))

    def find_quotes(self, figure: Figure) -> list[Figure]:
        """The places of its text in which the figure stands."""
        return [
            one
            for one in self.figures
            if one.text == figure.text or (figure.value is not None and one.value == figure.value)
        ]


def _iter_texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for one in data.values():
            yield from _iter_texts(one)
    elif isinstance(data, list):
        for one in data:
            yield from _iter_texts(one)


def _iter_numbers(data: Any) -> Iterator[Decimal]:
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            yield from _iter_numbers(one)
    elif isinstance(data, int | float) and not isinstance(data, bool) and isfinite(data):
        yield Decimal(repr(data))


_BEFORE: Final = re.compile(
    r"([^\W\d_]+|[^\w\s.,;:!?()\[\]\"«»„“”'\u3000-\u303f\uff00-\uff0f])\s*$"
)
_AFTER: Final = re.compile(
    r"[^\S\n]*-?([^\W\d_]+|[^\w\s.,;:!?()\[\]\"«»„“”'\u3000-\u303f\uff00-\uff0f])"
)


def read_neighbors(text: str, figure: Figure) -> tuple[str, str]:
    """The words beside a figure, its comparator and unit; "" where a stop stands between."""
    before = _BEFORE.search(text, max(0, figure.start - 60), figure.start)
    after = _AFTER.match(text, figure.end, figure.end + 60)
    first, last = (before[1] if before else ""), (after[1] if after else "")
    if UNSPACED.search(first[-1:]):
        first = first[-1:]
    if UNSPACED.match(last):
        last = last[:1]
    return first.casefold(), last.casefold()


def end_of_unit(text: str, figure: Figure) -> int:
    """Where the word behind a figure ends, else the figure."""
    after = _AFTER.match(text, figure.end)
    return after.end() if after and not UNSPACED.match(after[1]) else figure.end


def is_quoted(text: str, figure: Figure, source: Source, *, whole: bool) -> bool:
    """Whether a figure has the unit that it has in a source; `whole`: and the word before it."""
    here = read_neighbors(text, figure)[0 if whole else 1 :]
    for place in source.find_quotes(figure):
        there = read_neighbors(source.all_text, place)[0 if whole else 1 :]
        if all(not wanted or wanted == given for wanted, given in zip(there, here, strict=True)):
            return True
    return False


def quote_around(source: Source, figure: Figure) -> str:
    """The words around a figure in a source, for whoever has to quote them."""
    place, text = source.find_quotes(figure)[0], source.all_text
    start, end = max(0, place.start - 40), place.end + 40
    return " ".join(text[start:end].split())
