"""What a row of a policy says of one thing, such as `at most 14`, and which values it covers. Pure.

A `Dimension` is a thing that decides: a word of a list, or a number. The conditions of all rows cut
its values into pieces: no row tells two values of one piece apart, so to try one is to try all.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from typing import Final, NamedTuple

from ..text.sentences import synonyms_of

Value = str | Decimal
"""A word of a list, or a number."""

YES_NO: Final = ("yes", "no")
COMPARED: Final = ("below", "equal", "above")
"""What one number can be to another."""
MATCHED: Final = ("equal", "other")
"""What one id can be to another."""

_BOUND: Final = re.compile(r"(\D*?)\s*(-?\d+(?:\.\d+)?)")
_WORDS: Final = ("at least", "at most", "above", "below", "exactly")
_SHAPE: Final = "such as `at most 14`, `above 14 and below 30`, `at least 5` or `7`"


class ConditionError(ValueError):
    """A condition that says nothing; the message follows the name of its place."""


@dataclass(frozen=True)
class Interval:
    """The numbers between two bounds, each of which may belong to it; None: no bound."""

    low: Decimal | None = None
    high: Decimal | None = None
    low_in: bool = True
    high_in: bool = True

    def contains(self, value: Value) -> bool:
        """Whether the number lies in it; a word does not."""
        if isinstance(value, str):
            return False
        low, high = self.low, self.high
        above = low is None or value > low or (self.low_in and value == low)
        return above and (high is None or value < high or (self.high_in and value == high))

    @property
    def is_empty(self) -> bool:
        """Whether no number lies in it."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (
            self.low == self.high and not (self.low_in and self.high_in)
        )

    def is_followed_by(self, other: "Interval") -> bool:
        """Whether the other range starts where this one ends, without a gap."""
        return self.high == other.low and (self.high_in or other.low_in)

    def __str__(self) -> str:
        """In the words in which it is written."""
        if self.low is not None and self.low == self.high:
            return f"{self.low:f}"
        parts = []
        if self.low is not None:
            parts.append(f"{'at least' if self.low_in else 'above'} {self.low:f}")
        if self.high is not None:
            parts.append(f"{'at most' if self.high_in else 'below'} {self.high:f}")
        return " and ".join(parts) or "any number"


def read_interval(text: str) -> Interval:
    """The numbers that words such as `above 14 and at most 30` mean; else a ConditionError."""
    found, others = Interval(), synonyms_of("range")
    joints = "".join(rf"|\s*{re.escape(word)}\s*" for word in others if others[word] == "and")
    for part in re.split(rf"\s+and\s+{joints}", text.strip()):
        bound = _BOUND.fullmatch(part.strip())
        word = bound and (others.get(bound[1]) or bound[1] or "exactly")
        if bound is None or word not in _WORDS:
            msg = f"{text!r} is no range of numbers: write words {_SHAPE}"
            raise ConditionError(msg)
        found = _add_bound(found, word, Decimal(bound[2]), text)
    if found.is_empty:
        msg = f"no number is {text!r}"
        raise ConditionError(msg)
    return found


def _add_bound(known: Interval, word: str, number: Decimal, text: str) -> Interval:
    low, high, low_in, high_in = known.low, known.high, known.low_in, known.high_in
    lower = word in ("at least", "above", "exactly")
    upper = word in ("at most", "below", "exactly")
    if (lower and low is not None) or (upper and high is not None):
        msg = f"{text!r} has two bounds on one side: keep one"
        raise ConditionError(msg)
    if lower:
        low, low_in = number, word != "above"
    if upper:
        high, high_in = number, word != "below"
    return Interval(low, high, low_in, high_in)


class Piece(NamedTuple):
    """Values of a dimension that no row tells apart: one of them, and what all of them are."""

    sample: Value
    parts: tuple[str | Interval, ...]

    @property
    def words(self) -> str:
        """All of its values."""
        return " or ".join(map(str, self.parts))


def join_pieces(pieces: Sequence[Piece]) -> Piece:
    """Pieces that stand in the order of their values, as one; numbers side by side are a range."""
    parts: list[str | Interval] = []
    for part in chain.from_iterable(piece.parts for piece in pieces):
        last = parts[-1] if parts else ""
        if isinstance(part, Interval) and isinstance(last, Interval) and last.is_followed_by(part):
            parts[-1] = replace(last, high=part.high, high_in=part.high_in)
        else:
            parts.append(part)
    return Piece(pieces[0].sample, tuple(parts))


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One dimension of a table.

    Attributes:
        name: Its name in rows.
        values: Its possible words; empty for a number.
        numbers: Its possible numbers; others cannot be judged.
        whole: Only whole numbers count, so nothing lies between 14 and 15.
        empty: The word for a fact that exists but is empty; "" if an empty one is an error.
        label: Its name for people, by language.
        told: Its words for people, if they differ.
    """

    name: str
    values: tuple[str, ...] = ()
    numbers: Interval | None = None
    whole: bool = False
    empty: str = ""
    label: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word that it can be."""
        return (*self.values, self.empty) if self.empty else self.values

    def covers(self, value: Value) -> bool:
        """Whether rows can speak of the value at all."""
        if isinstance(value, str):
            return value in self.words
        if self.numbers is None or not self.numbers.contains(value):
            return False
        return not self.whole or value == value.to_integral_value()

    def read_condition(self, told: str | Sequence[str]) -> "Condition":
        """What a row says of it: a word, a range, or a list of them; else a ConditionError."""
        parts = [told] if isinstance(told, str) else [*told]
        if not parts:
            msg = "the list is empty: name a value, or leave the line out"
            raise ConditionError(msg)
        return Condition(tuple(self._read_part(part) for part in parts))

    def _read_part(self, told: str) -> str | Interval:
        if told in self.words:
            return told
        if self.numbers is None:
            msg = f"{told!r} is none of its values: {', '.join(self.words)}"
            raise ConditionError(msg)
        found = read_interval(told)
        bounds = [bound for bound in (found.low, found.high) if bound is not None]
        if self.whole and any(bound != bound.to_integral_value() for bound in bounds):
            msg = f"{told!r} has a fraction, but only whole numbers are meant"
            raise ConditionError(msg)
        if outside := [bound for bound in bounds if not self._may_bound(bound)]:
            msg = f"{told!r} goes to {outside[0]:f}, but it is always {self.numbers}"
            raise ConditionError(msg)
        return found

    def _may_bound(self, bound: Decimal) -> bool:
        known = self.numbers or Interval()
        return bound in (known.low, known.high) or known.contains(bound)

    def cut_pieces(self, conditions: Iterable["Condition"]) -> list[Piece]:
        """Its values, cut where one of the conditions begins or ends."""
        words = [Piece(word, (word,)) for word in self.words]
        if self.numbers is None:
            return words
        cuts = {self.numbers.low, self.numbers.high}
        for condition in conditions:
            for part in condition.parts:
                cuts |= {part.low, part.high} if isinstance(part, Interval) else set()
        return [*words, *self._cut_numbers(sorted(cut for cut in cuts if cut is not None))]

    def _cut_numbers(self, cuts: Sequence[Decimal]) -> Iterable[Piece]:
        for cut, following in zip(cuts, [*cuts[1:], None], strict=True):
            if self.covers(cut):
                yield Piece(cut, (Interval(cut, cut),))
            if following is None:
                return
            sample = cut + 1 if self.whole else (cut + following) / 2
            between = Interval(cut, following, low_in=False, high_in=False)
            if between.contains(sample) and self.covers(sample):
                yield Piece(sample, (between,))


@dataclass(frozen=True)
class Condition:
    """What a row says of one dimension: words and ranges, one of which must fit."""

    parts: tuple[str | Interval, ...]

    def fits(self, value: Value) -> bool:
        """Whether it covers the value."""
        return any(
            part.contains(value) if isinstance(part, Interval) else part == value
            for part in self.parts
        )

    def __str__(self) -> str:
        """In the words in which it is written."""
        return " or ".join(map(str, self.parts))
