"""The facts that decide a policy: how reading tools are asked, and what in an answer counts. Pure.

What is missing, of another type, no number or out of all measure is `Unread`, and allows nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, Literal

from .conditions import YES_NO, Dimension, Value

CALL: Final = "call"
"""Begins the path of an argument of the call that is judged."""
CUSTOMER: Final = "customer"
"""Stands for the verified customer."""

_HUGE: Final = Decimal(10) ** 15
_HOUR: Final = timedelta(hours=1) // timedelta(microseconds=1)
_MISSING: Final = object()

Path = tuple[str, ...]
Kind = Literal["value", "days", "hours", "compared"]


@dataclass(frozen=True)
class UnreadFact:
    """Something that could not be read: the name of the sentence that says why, and its slots."""

    why: str
    slots: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KnownFacts:
    """What is known of a call: its arguments, the verified customer, and the facts read for it."""

    call: Mapping[str, Any]
    customer: str | int | None = None
    facts: Mapping[str, Mapping[str, Any] | UnreadFact] = field(default_factory=dict)

    def get_path(self, path: Path) -> Any:
        """What stands at a path; `_MISSING` where nothing does, `Unread` where it is not known."""
        root, *rest = path
        if root == CUSTOMER and not rest:
            return _MISSING if self.customer is None else self.customer
        value: Any = self.call if root == CALL else self.facts.get(root, _MISSING)
        for part in rest:
            if isinstance(value, UnreadFact):
                return value
            value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
        return value


def is_same_id(left: object, right: object) -> bool:
    """Whether two ids are the same: texts or whole numbers, of one type, and not empty."""
    return type(left) is type(right) and type(left) in (str, int) and left == right and left != ""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Where a fact is read: a tool, what it is asked, and whose the answer is.

    Attributes:
        name: As paths begin with it.
        tool: The reading tool.
        ask: Its argument to the path of the value that it is given.
        owner: The field of the answer that must be the verified customer; "" where it is nobody's.
        same: Field of the answer to the argument that it must repeat, so that the answer is about
            what was asked. A field with the name of an argument must repeat it in any case.
    """

    name: str
    tool: str
    ask: Mapping[str, Path]
    owner: str = ""
    same: Mapping[str, str] = field(default_factory=dict)

    def build_question(self, known: KnownFacts) -> dict[str, Any] | UnreadFact:
        """The arguments of the reading tool, of what is known."""
        asked: dict[str, Any] = {}
        for argument, path in self.ask.items():
            value = known.get_path(path)
            if not is_same_id(value, value):  # an id, nothing else
                return UnreadFact("policy_no_id", {"what": ".".join(path)})
            asked[argument] = value
        return asked

    def check_answer(
        self, asked: Mapping[str, Any], data: object
    ) -> Mapping[str, Any] | UnreadFact:
        """What the tool gave, if it is about what was asked."""
        if not isinstance(data, Mapping):
            return UnreadFact("policy_no_object", {"tool": self.tool})
        repeated = {argument: argument for argument in asked if argument in data}
        for told, argument in (repeated | {**self.same}).items():
            if not is_same_id(data.get(told), asked[argument]):
                return UnreadFact(
                    "policy_other_answer",
                    {"tool": self.tool, "told": _render_value(data.get(told))},
                )
        return data


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the value of a dimension is taken from.

    Attributes:
        kind: The value itself, days or hours since a point in time, or how two numbers compare.
        terms: Paths with their signs, added up; of what is no number one path alone.
        against: What `compared` numbers are compared with.
        zone: Where days begin.
    """

    kind: Kind = "value"
    terms: tuple[tuple[int, Path], ...]
    against: tuple[tuple[int, Path], ...] = ()
    zone: tzinfo = UTC

    @property
    def roots(self) -> list[str]:
        """The facts that it needs."""
        paths = [path for _, path in (*self.terms, *self.against)]
        return [path[0] for path in paths if path[0] not in (CALL, CUSTOMER)]

    def read_value(
        self, known: KnownFacts, now: datetime, dimension: Dimension
    ) -> Value | UnreadFact:
        """The value that decides, or why it cannot be read."""
        if dimension.empty and len(self.terms) == 1 and known.get_path(self.terms[0][1]) is None:
            return dimension.empty
        found = self._look_up_value(known, now, dimension)
        if isinstance(found, UnreadFact) or dimension.covers(found):
            return found
        return UnreadFact("policy_out_of_range", {"value": _render_value(found)})

    def _look_up_value(
        self, known: KnownFacts, now: datetime, dimension: Dimension
    ) -> Value | UnreadFact:
        if self.kind == "compared":
            return self._compare_values(known)
        if dimension.numbers is None:
            return _read_word(known.get_path(self.terms[0][1]), dimension)
        if self.kind == "value":
            return _add_terms(self.terms, known, counted=len(self.terms) > 1)
        return _measure_since(
            known.get_path(self.terms[0][1]), now, self.zone, days=self.kind == "days"
        )

    def _compare_values(self, known: KnownFacts) -> Value | UnreadFact:
        left = _add_terms(self.terms, known, counted=True)
        right = _add_terms(self.against, known, counted=True)
        if isinstance(left, UnreadFact):
            return left
        if isinstance(right, UnreadFact):
            return right
        return "equal" if left == right else "below" if left < right else "above"


def _read_word(value: object, dimension: Dimension) -> Value | UnreadFact:
    if isinstance(value, UnreadFact):
        return value
    if dimension.values == YES_NO:
        if not isinstance(value, bool):
            return _make_unread(value, "policy_no_boolean")
        return "yes" if value else "no"
    return value if isinstance(value, str) else _make_unread(value, "policy_no_word")


def _add_terms(
    terms: tuple[tuple[int, Path], ...], known: KnownFacts, *, counted: bool
) -> Decimal | UnreadFact:
    """The numbers of the terms added up; where something is `counted` none may be below 0."""
    total = Decimal(0)
    for sign, path in terms:
        number = _read_number(known.get_path(path))
        if isinstance(number, UnreadFact):
            return number
        if number < 0 and counted:  # it would make the others look smaller
            return UnreadFact("policy_out_of_range", {"value": _render_value(known.get_path(path))})
        total += sign * number
    return total


def _read_number(value: object) -> Decimal | UnreadFact:
    """A number as it is told; a text is none, and neither is a truth value."""
    if isinstance(value, UnreadFact):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _make_unread(value, "policy_no_number")
    if isinstance(value, int) and abs(value) > _HUGE:
        return UnreadFact("policy_no_number", {"value": _render_value(value)})
    number = Decimal(repr(value))  # 0.1 is meant, not its nearest binary fraction
    if not number.is_finite() or abs(number) > _HUGE:
        return UnreadFact("policy_no_number", {"value": _render_value(value)})
    return number


def _measure_since(
    value: object, now: datetime, zone: tzinfo, *, days: bool
) -> Decimal | UnreadFact:
    """Days of the calendar, or hours, from a point in time until now."""
    if isinstance(value, UnreadFact):
        return value
    if not isinstance(value, str):
        return _make_unread(value, "policy_no_time")
    try:
        then = date.fromisoformat(value) if days and len(value) == len("2026-01-31") else None
        moment = datetime.fromisoformat(value) if then is None else None
        if moment is not None:
            if moment.tzinfo is None:  # nobody knows where it is meant
                return UnreadFact("policy_no_zone", {"value": _render_value(value)})
            then = moment.astimezone(zone).date()
    except (ValueError, OverflowError):
        return _make_unread(value, "policy_no_time")
    if days and then is not None:
        return Decimal((now.astimezone(zone).date() - then).days)
    if moment is None:
        return _make_unread(value, "policy_no_time")
    return Decimal((now - moment) // timedelta(microseconds=1)) / _HOUR


def _make_unread(value: object, why: str) -> UnreadFact:
    if value is _MISSING or value is None:
        return UnreadFact("policy_missing")
    return UnreadFact(why, {"value": _render_value(value)})


def _render_value(value: object) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # Python refuses to write out an integer of thousands of digits
        return "…"
