"""Find matching lines; a pattern somebody else wrote is tried in a process that can be ended.

Python's `re` backtracks, may take exponential time, and cannot be stopped from another thread.
The process is this file itself, run with the standard library alone; it reads one JSON request
from stdin and writes one JSON answer to stdout.
"""

import faulthandler
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

SECONDS = 5.0
"""How long one search by a regular expression may take."""

_LINE_CHARACTERS = 240
_BEFORE_MATCH = 60
_AT_ONCE = threading.BoundedSemaphore(2)


class Text(NamedTuple):
    """A file's path as shown, and its text."""

    path: str
    text: str


class Match(NamedTuple):
    """A matching line: the file's path, the line's number from 1, and the line, cut if long."""

    path: str
    line: int
    text: str


class BadPattern(Exception):
    """A regular expression that is not valid or takes too long; the text is one sentence."""


def find_plain(texts: Iterable[Text], words: str, *, match_case: bool, limit: int) -> list[Match]:
    """Give the first `limit` lines that hold the words as they stand."""
    pattern = re.compile(re.escape(words), _flags(match_case=match_case))
    return _find(pattern, texts, limit)


def find_regex(texts: Iterable[Text], regex: str, *, match_case: bool, limit: int) -> list[Match]:
    """Give the first `limit` lines in which the regular expression is found.

    Raises:
        BadPattern: it does not compile, or the search took longer than `SECONDS`.
    """
    request = json.dumps([regex, match_case, limit, list(texts)])
    command = [sys.executable, "-I", "-S", "-X", "utf8", __file__]
    try:
        with _AT_ONCE:
            answer = subprocess.run(
                command, input=request.encode(), capture_output=True, timeout=SECONDS, check=True
            )
    except subprocess.TimeoutExpired:
        message = (
            f"The search took longer than {SECONDS:g} s; simplify the regular expression"
            " (a repeat inside a repeat is slow) or narrow it by path or glob."
        )
        raise BadPattern(message) from None
    except subprocess.CalledProcessError:
        message = "The search by this regular expression broke off; simplify it."
        raise BadPattern(message) from None
    found, problem = json.loads(answer.stdout)
    if problem:
        message = f"The regular expression is not valid: {problem}."
        raise BadPattern(message)
    return [Match(*match) for match in found]


def _find(pattern: re.Pattern[str], texts: Iterable[Text], limit: int) -> list[Match]:
    matches = (
        Match(path, number, _clipped(line, found.start()))
        for path, text in texts
        for number, line in enumerate(text.split("\n"), start=1)
        if (found := pattern.search(line))
    )
    return list(islice(matches, limit))


def _flags(*, match_case: bool) -> re.RegexFlag:
    return re.RegexFlag(0) if match_case else re.IGNORECASE


def _clipped(line: str, start: int) -> str:
    line = line.rstrip("\r")
    if len(line) <= _LINE_CHARACTERS:
        return line
    first = max(0, start - _BEFORE_MATCH)
    last = first + _LINE_CHARACTERS
    return ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")


def _answer(request: str) -> tuple[list[Match], str]:
    regex, match_case, limit, texts = json.loads(request)
    try:
        pattern = re.compile(regex, _flags(match_case=match_case))
    except (re.error, OverflowError, RecursionError) as error:
        return [], str(error)
    return _find(pattern, (Text(*text) for text in texts), limit), ""


def _main() -> None:
    # Ends this process also when the one that started it is gone and cannot do so.
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(2 * SECONDS, exit=True, file=nowhere)
        sys.stdout.write(json.dumps(_answer(sys.stdin.read())))


if __name__ == "__main__":
    _main()
