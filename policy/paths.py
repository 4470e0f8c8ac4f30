"""Where values stand in a call and in the facts, and which of a list count. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, NoReturn, cast

from .origin_words import ValueOrigins

CALL: Final = "call"
"""Begins the path of an argument of the call that is judged."""
CUSTOMER: Final = "customer"
"""Stands for the verified customer."""
MISSING: Final = object()
"""Where nothing stands."""

Path = tuple[str, ...]
How = Literal["one", "each", "any", "count", "sum"]
Answer = Mapping[str, Any] | list[Any]
"""What a reading tool told."""

_INDEX: Final = re.compile(r"-?\d{1,3}")
_SIGN: Final = re.compile(r"\s+([+-])\s+(?![^(]*\))")
_TERM: Final = re.compile(
    r"(?:(\d{1,9}(?:\.\d{1,9})?)\s*\*\s*)?(?:(each|any|count|sum)\(([^()=]+)(?:=([^()=]+))?\)|(\S+))"
)


@dataclass(eq=False)
class UnreadFact(Exception):
    """Something cannot be read: the name of the sentence that says why, and its slots.

    It stands for the fact where others are known, and is raised where that decides.
    """

    why: str
    slots: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """A place in data, and how to read it.

    Attributes:
        path: The path.
        how: `one` value; of values in lists `each`, `any`, their number or their sum.
        word: Only values equal to this word count or decide; "" for all.
        factor: The factor of a number, such as -1 to subtract it.
    """

    path: Path
    how: How = "one"
    word: str = ""
    factor: Decimal = Decimal(1)


def parse_terms(text: str) -> list[Term]:
    """What `a.b`, `sum(a.b) - 2 * count(a.c=word)` means; nothing where it is no such text."""
    first, *more = _SIGN.split(text.strip())
    found = []
    for sign, told in zip(["+", *more[::2]], [first, *more[1::2]], strict=True):
        match = _TERM.fullmatch(told)
        place = (match[3] or match[5]).strip() if match else ""
        if match is None or set(place) & set("()=*+") or " - " in place:
            return []
        factor = Decimal(match[1] or 1) * (-1 if sign == "-" else 1)
        path = tuple(place.split("."))
        found.append(Term(path, cast("How", match[2] or "one"), (match[4] or "").strip(), factor))
    return found


@dataclass(frozen=True, kw_only=True)
class KnownFacts:
    """What is known of a call: its arguments, the verified customer, and the facts read for it.

    `origins` of its values are empty where nobody knows them.
    """

    call: Mapping[str, Any]
    customer: str | int | None = None
    facts: Mapping[str, Answer | UnreadFact] = field(default_factory=dict)
    origins: ValueOrigins = field(default_factory=dict)

    def get_path(self, path: Path) -> Any:
        """The value at a path; `MISSING` without one; raises `UnreadFact` if no fact was read."""
        value = self._get_root(path)
        for part in path[1:]:
            value = _get_part(value, part)
        return value

    def _get_root(self, path: Path) -> Any:
        if path == (CUSTOMER,):
            return MISSING if self.customer is None else self.customer
        found = self.call if path[0] == CALL else self.facts.get(path[0], MISSING)
        if isinstance(found, UnreadFact):
            raise found
        return found

    def is_empty(self, term: Term) -> bool:
        """Whether what stands there is null, or a list without anything in it."""
        if term.how == "one":
            return self.get_path(term.path) is None
        found = gather_values(self._get_root(term.path), term.path[1:])
        return not open_lists(found) or (len(found) == 1 and found[0] is None)

    def list_values(self, term: Term) -> list[Any]:
        """All that stands at a path through lists, in their order; a gap cannot be read.

        A list of the call's that is empty says nothing but its number: a tool may take it for all.
        Of no values nobody can say what each of them is.
        """
        root, path = self._get_root(term.path), term.path[1:]
        steps = [gather_values(root, path[:end]) for end in range(len(path) + 1)]
        found = open_lists(steps[-1])
        if any(value is MISSING or value is None for value in found):
            refuse_value(None, "policy_missing")
        if not any(isinstance(value, list) for step in steps for value in step):
            refuse_value(found[0], "policy_no_list")
        if not found and term.how != "count" and (term.how == "each" or term.path[0] == CALL):
            refuse_value(found, "policy_empty_list")
        if term.word and (odd := [one for one in found if not isinstance(one, str)]):
            refuse_value(odd[0], "policy_no_word")
        return found

    def list_ids(self, term: Term) -> list[str] | list[int]:
        """The ids that stand there, one or those of a list: of one type, and none of them empty."""
        found = [self.get_path(term.path)] if term.how == "one" else self.list_values(term)
        if not all(is_same_id(one, one) and type(one) is type(found[0]) for one in found):
            why = "policy_no_id"
            raise UnreadFact(why, {"what": ".".join(term.path)})
        return found


def is_same_id(left: object, right: object) -> bool:
    """Whether two ids are the same: texts or whole numbers, of one type, and not empty."""
    return type(left) is type(right) and type(left) in (str, int) and left == right and left != ""


def gather_values(value: object, path: Sequence[str]) -> list[Any]:
    """What stands at a path that may lead through lists; a list at its end stays one."""
    found = [value]
    for part in path:
        if not _INDEX.fullmatch(part):
            found = open_lists(found)
        found = [_get_part(one, part) for one in found]
    return found


def open_lists(values: Iterable[Any]) -> list[Any]:
    """The values, with those that stand in a list in its place."""
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _get_part(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(part, MISSING)
    if isinstance(value, list) and _INDEX.fullmatch(part):
        return value[int(part)] if -len(value) <= int(part) < len(value) else MISSING
    return MISSING


def refuse_value(value: object, why: str) -> NoReturn:
    """Raise `UnreadFact`: a value is missing, or is not what is read there."""
    is_missing = value is MISSING or value is None
    raise UnreadFact("policy_missing" if is_missing else why, {"value": render_value(value)})


def render_value(value: object) -> str:
    """The beginning of a value, as a sentence says what cannot be read."""
    try:
        return repr(value)[:60]
    except ValueError:  # Python refuses to write out an integer of thousands of digits
        return "…"
