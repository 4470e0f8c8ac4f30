"""The words for where a value comes from, and what a rule says of them. Pure."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

REQUEST: Final = "request"
MODEL: Final = "model"
ORIGINS: Final = (REQUEST, "operator", MODEL)
"""Who may command; a tool's name stands for a field of what it gave."""
FOREIGN: Final = "foreign"
CONFIDENTIAL: Final = "confidential"
OTHER: Final = "other record"
"""A field of what a tool gave that a table does not name."""
RESERVED: Final = frozenset({*ORIGINS, FOREIGN, CONFIDENTIAL, OTHER})
"""No names of tools."""

ValueOrigins = Mapping[str, Sequence[Sequence[str]]]
"""By the path of a value in a call: where each of the things that it names may come from."""

_INDEX: Final = re.compile(r"\[\d+\]")


def stands_under(place: str, path: str) -> bool:
    """Whether the path of a value leads through another, or is it; `*` stands for all."""
    return path == "*" or f"{_INDEX.sub('', place)}.".startswith(f"{path}.")


def select_origins(found: ValueOrigins, path: str) -> list[Sequence[str]] | None:
    """The origins of all things under a path; None where there is no value."""
    values = [things for place, things in found.items() if stands_under(place, path)]
    return [*chain.from_iterable(values)] if values else None


def has_origins(found: ValueOrigins, path: str, listed: Sequence[str], *, every: bool) -> bool:
    """Whether things under a path have one of these origins: `every` one of them, or any.

    Without a value nothing has any.
    """
    things = select_origins(found, path)
    fit = [not {*one}.isdisjoint(listed) for one in things or ()]
    return things is not None and all(fit) if every else any(fit)
