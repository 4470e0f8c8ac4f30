"""Values as a question shows them to a person: one line, and nothing in it that cannot be seen."""

import json
import re
import unicodedata
from typing import Any, Final

# What has no width though Unicode counts it as letters or accents.
_EMPTY: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def show_text(text: str) -> str:
    """A text on one line; breaks, marks of direction and what has no width are escapes."""
    if text.isprintable() and _EMPTY.search(text) is None:
        return text
    return "".join(c if _is_seen(c) else json.dumps(c)[1:-1] for c in text)


def show_words(text: str) -> str:
    """The words of a stranger on one line, as `show_text` shows them."""
    return show_text(" ".join(text.split()))


def show_value(value: Any) -> str:
    """A value on one line: a text as it is, everything else as JSON."""
    return show_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def show_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON; with `indent` a line for each part, and none that a text in it makes."""
    lines = json.dumps(value, ensure_ascii=False, indent=indent, default=str).split("\n")
    return "\n".join(map(show_text, lines))


def _is_seen(c: str) -> bool:
    return (c.isprintable() and _EMPTY.match(c) is None) or unicodedata.category(c) == "Zs"
