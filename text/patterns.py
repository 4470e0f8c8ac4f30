"""An operator's regular expressions, each search with a time limit.

Python's own `re` may take exponential time and cannot be stopped; `regex` reads the same patterns
and can.
"""

from typing import Final

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

PatternError: Final = regex.error

SECONDS: Final = 1.0
"""How long one search may take."""


def find_pattern_error(pattern: str) -> str:
    """Why a text is no regular expression; '' where it is one."""
    try:
        regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text.

    Raises:
        TimeoutError: The search took too long.
        PatternError: It is no regular expression.
    """
    return regex.search(pattern, text, timeout=SECONDS) is not None
