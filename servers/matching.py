"""Find matching lines; a pattern that somebody else wrote gets a time limit.

Python's own `re` may take exponential time and cannot be stopped; `regex` reads the same patterns
and can.
"""

import time
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

from .confined import Refused

SECONDS = 5.0
"""How long one search may take."""

_LINE_CHARACTERS = 240
_BEFORE_MATCH = 60


class Text(NamedTuple):
    """A file's path as shown, and its text."""

    path: str
    text: str


class Match(NamedTuple):
    """A matching line: the file's path, the line's number from 1, and the line, cut if long."""

    path: str
    line: int
    text: str


def find(texts: Iterable[Text], pattern: str, *, match_case: bool, limit: int) -> list[Match]:
    """Give the first `limit` lines in which the regular expression is found.

    Raises:
        Refused: it does not compile, or the search took longer than `SECONDS`.
    """
    try:
        wanted = regex.compile(pattern, 0 if match_case else regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError) as error:
        message = f"The regular expression is not valid: {error}."
        raise Refused(message) from error
    try:
        return list(islice(_found(wanted, list(texts)), limit))
    except TimeoutError as error:
        message = (
            f"The search took longer than {SECONDS:g} s; simplify the regular expression"
            " (a repeat inside a repeat is slow) or narrow it by path or glob."
        )
        raise Refused(message) from error


def _found(wanted: regex.Pattern[str], texts: list[Text]) -> Iterable[Match]:
    deadline = time.monotonic() + SECONDS
    for path, text in texts:
        for number, line in enumerate(text.split("\n"), start=1):
            left = max(deadline - time.monotonic(), 0.001)
            if found := wanted.search(line, timeout=left):
                yield Match(path, number, _clipped(line, found.start()))


def _clipped(line: str, start: int) -> str:
    line = line.rstrip("\r")
    if len(line) <= _LINE_CHARACTERS:
        return line
    first = max(0, start - _BEFORE_MATCH)
    last = first + _LINE_CHARACTERS
    return ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")
