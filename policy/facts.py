"""The facts that decide a policy: how reading tools are asked, and what in an answer counts. Pure.

What is missing, of another type, no number or out of all measure is `Unread`, and allows nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, Literal

from .conditions import YES_NO, Dimension, Value
from .origin_words import CONFIDENTIAL, MODEL, OTHER, select_origins
from .paths import (
    CALL,
    CUSTOMER,
    MISSING,
    Answer,
    KnownFacts,
    Term,
    UnreadFact,
    gather_values,
    is_same_id,
    open_lists,
    refuse_value,
    render_value,
)

_HUGE: Final = Decimal(10) ** 15
_HOUR: Final = timedelta(hours=1) // timedelta(microseconds=1)

Kind = Literal["value", "days", "hours", "compared", "matched", "origin"]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Where a fact is read: the tool, its arguments and the owner of the answer.

    Attributes:
        name: The first part of paths to it.
        tool: The reading tool.
        ask: Its argument, and the place of its id, or of `each` id of a list.
        owner: The field of the answer that must be the verified customer; "" without one.
        same: Fields of the answer that must repeat an argument, so that the answer is about the
            requested record; a list one by one. A field with an argument's name must always repeat
            it.
    """

    name: str
    tool: str
    ask: Mapping[str, Term]
    owner: str = ""
    same: Mapping[str, str] = field(default_factory=dict)

    def build_question(self, known: KnownFacts) -> dict[str, Any] | UnreadFact:
        """The arguments of the reading tool, of what is known."""
        try:
            ids = {argument: known.list_ids(term) for argument, term in self.ask.items()}
        except UnreadFact as unread:
            return unread
        return {a: ids[a][0] if term.how == "one" else ids[a] for a, term in self.ask.items()}

    def check_answer(self, asked: Mapping[str, Any], data: object) -> Answer | UnreadFact:
        """What the tool gave, if it is about what was asked."""
        objects = all(isinstance(one, Mapping) for one in open_lists([data]))
        if not isinstance(data, Mapping | list) or not objects:
            return UnreadFact("policy_no_object", {"tool": self.tool})
        repeated = {
            name: name
            for name in asked
            if any(one is not MISSING for one in gather_values(data, [name]))
        }
        for place, argument in (repeated | {**self.same}).items():
            told, wanted = gather_values(data, place.split(".")), asked[argument]
            if isinstance(wanted, list):
                told = open_lists(told)
            else:
                wanted = [wanted] * len(told)
            if len(told) != len(wanted) or not all(map(is_same_id, told, wanted)):
                return UnreadFact(
                    "policy_other_answer",
                    {"tool": self.tool, "told": ", ".join(map(render_value, told[:3]))},
                )
        return data

    def is_owned(self, answer: Answer, customer: str | int | None) -> bool:
        """Whether all that was told is the customer's own."""
        found = gather_values(answer, self.owner.split("."))
        return not self.owner or (bool(found) and all(is_same_id(one, customer) for one in found))


@dataclass(frozen=True, kw_only=True)
class Source:
    """How the value of a dimension is computed.

    Attributes:
        kind: The value itself, days or hours since a time, the comparison of two numbers,
            whether ids match, or where an argument comes from.
        terms: Places whose numbers are added; a single place if it is no number.
        against: The numbers to compare or the ids to match with.
        zone: The time zone in which days begin.
    """

    kind: Kind = "value"
    terms: tuple[Term, ...]
    against: tuple[Term, ...] = ()
    zone: tzinfo = UTC

    @property
    def roots(self) -> list[str]:
        """The facts that it needs."""
        roots = [term.path[0] for term in (*self.terms, *self.against)]
        return [root for root in roots if root not in (CALL, CUSTOMER)]

    @property
    def argument(self) -> str:
        """The path of the argument whose origin it is; "" if it is none."""
        return ".".join(self.terms[0].path[1:]) if self.kind == "origin" else ""

    def read_values(
        self, known: KnownFacts, now: datetime, dimension: Dimension
    ) -> Sequence[Value] | UnreadFact:
        """The value that decides, or why it cannot be read; an argument has an origin or more."""
        if self.kind == "origin":
            return _read_origins(select_origins(known.origins, self.argument), dimension)
        try:
            if dimension.empty and len(self.terms) == 1 and known.is_empty(self.terms[0]):
                return [dimension.empty]
            found = self._look_up_value(known, now, dimension)
        except UnreadFact as unread:
            return unread
        if dimension.covers(found):
            return [found]
        return UnreadFact("policy_out_of_range", {"value": render_value(found)})

    def _look_up_value(self, known: KnownFacts, now: datetime, dimension: Dimension) -> Value:
        first = self.terms[0]
        if self.kind == "compared":
            return self._compare_values(known)
        if self.kind == "matched":
            return _match_ids(first, self.against[0], known)
        if dimension.numbers is None:
            return _read_word(first, known, dimension)
        if self.kind == "value":
            return _add_terms(self.terms, known, counted=len(self.terms) > 1)
        return _measure_since(known.get_path(first.path), now, self.zone, days=self.kind == "days")

    def _compare_values(self, known: KnownFacts) -> Value:
        left = _add_terms(self.terms, known, counted=True)
        right = _add_terms(self.against, known, counted=True)
        return "equal" if left == right else "below" if left < right else "above"


def _read_origins(
    things: Sequence[Sequence[str]] | None, dimension: Dimension
) -> Sequence[Value] | UnreadFact:
    """The words for where an argument's things come from; what names nothing is the model's.

    Of a thing that stands in several places the first word of the dimension counts.
    """
    if things is None:
        return [dimension.empty] if dimension.empty else UnreadFact("policy_missing")
    words: list[str] = []
    for one in things or [[MODEL]]:
        if {*one} - {CONFIDENTIAL}:
            named = (word for word in dimension.values if word in one and word != CONFIDENTIAL)
            words.append(next(named, OTHER))
        words += [CONFIDENTIAL] if CONFIDENTIAL in one else []
    return [*dict.fromkeys(words)]


def _match_ids(left: Term, right: Term, known: KnownFacts) -> Value:
    """Whether two ids are the same, or those of a list: in pairs, or each of them among others.

    Of `each` among `any` every one needs another one of its own, so none can be named twice.
    """
    ours, theirs = known.list_ids(left), known.list_ids(right)
    if ours and theirs and type(ours[0]) is not type(theirs[0]):  # they may well mean the same
        refuse_value(theirs[0], "policy_no_word")
    if left.how == right.how == "each":
        same = ours == theirs
    elif left.how == "each" and right.how == "any":
        same = not Counter(ours) - Counter(theirs)
    elif "any" in (left.how, right.how):
        same = not {*ours}.isdisjoint(theirs)
    else:
        same = len({*ours, *theirs}) == 1
    return "equal" if same else "other"


def _read_word(term: Term, known: KnownFacts, dimension: Dimension) -> Value:
    told = [known.get_path(term.path)] if term.how == "one" else known.list_values(term)
    if term.how == "one" and dimension.values != YES_NO:
        return told[0] if isinstance(told[0], str) else refuse_value(told[0], "policy_no_word")
    truths = [value == term.word for value in told] if term.word else told
    for value in truths:
        if not isinstance(value, bool):
            refuse_value(value, "policy_no_boolean")
    return "yes" if (any(truths) if term.how == "any" else all(truths)) else "no"


def _add_terms(terms: tuple[Term, ...], known: KnownFacts, *, counted: bool) -> Decimal:
    """The numbers of the terms added up; where something is `counted` none may be below 0."""
    total = Decimal(0)
    for term in terms:
        found = [known.get_path(term.path)] if term.how == "one" else known.list_values(term)
        if term.how == "count":
            found = [sum(not term.word or value == term.word for value in found)]
        for value in found:
            number = _read_number(value)
            if number < 0 and (counted or term.how == "sum"):  # it would make others look smaller
                refuse_value(value, "policy_out_of_range")
            total += term.factor * number
    return total


def _read_number(value: object) -> Decimal:
    """A number as it is told; a text is none, and neither is a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse_value(value, "policy_no_number")
    if isinstance(value, int) and abs(value) > _HUGE:
        refuse_value(value, "policy_no_number")
    number = Decimal(repr(value))  # 0.1 is meant, not its nearest binary fraction
    if not number.is_finite() or abs(number) > _HUGE:
        refuse_value(value, "policy_no_number")
    return number


def _measure_since(value: object, now: datetime, zone: tzinfo, *, days: bool) -> Decimal:
    """Days of the calendar, or hours, from a point in time until now."""
    if not isinstance(value, str):
        refuse_value(value, "policy_no_time")
    try:
        then = date.fromisoformat(value) if days and len(value) == len("2026-01-31") else None
        moment = datetime.fromisoformat(value) if then is None else None
        if moment is not None:
            if moment.tzinfo is None:  # nobody knows where it is meant
                refuse_value(value, "policy_no_zone")
            then = moment.astimezone(zone).date()
    except (ValueError, OverflowError):
        refuse_value(value, "policy_no_time")
    if days and then is not None:
        return Decimal((now.astimezone(zone).date() - then).days)
    if moment is None:
        refuse_value(value, "policy_no_time")
    return Decimal((now - moment) // timedelta(microseconds=1)) / _HOUR
