"""Find matching lines; a pattern that somebody else wrote gets a time limit.

Python's own `re` may take exponential time and cannot be stopped; `regex` reads the same patterns
and can.
"""

import time
from collections.abc import Iterable
from itertools import islice

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

from .plain_server import Refused

SECONDS = 5.0
"""How long one search may take."""

_LINE_CHARACTERS = 240
_BEFORE_MATCH = 60


def find(
    texts: Iterable[tuple[str, str]], pattern: str, *, match_case: bool, limit: int
) -> list[str]:
    """Give the first `limit` lines with a match, as `path:number: line`; long lines are cut.

    Args:
        texts: Paths as shown, and what is in the files.
        pattern: A regular expression; refused if it does not compile or takes over `SECONDS`.
        match_case: Whether upper and lower case are different.
        limit: The most lines.
    """
    try:
        wanted = regex.compile(pattern, 0 if match_case else regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError) as error:
        message = f"The regular expression is not valid: {error}."
        raise Refused(message) from error
    try:
        return list(islice(_search_lines(wanted, list(texts)), limit))
    except TimeoutError as error:
        message = (
            f"The search took longer than {SECONDS:g} s; simplify the regular expression"
            " (a repeat inside a repeat is slow) or narrow it by path or glob."
        )
        raise Refused(message) from error


def _search_lines(wanted: regex.Pattern[str], texts: list[tuple[str, str]]) -> Iterable[str]:
    deadline = time.monotonic() + SECONDS
    for path, text in texts:
        for number, line in enumerate(text.split("\n"), start=1):
            left = max(deadline - time.monotonic(), 0.001)
            if found := wanted.search(line, timeout=left):
                yield f"{path}:{number}: {_clip_line(line, found.start())}"


def _clip_line(line: str, start: int) -> str:
    line = line.rstrip("\r")
    if len(line) <= _LINE_CHARACTERS:
        return line
    first = max(0, start - _BEFORE_MATCH)
    last = first + _LINE_CHARACTERS
    return ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")
