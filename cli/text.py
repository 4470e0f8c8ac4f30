"""Foreign text made safe and short for a terminal."""

import json
import unicodedata
from typing import Any, Final

NO_MODEL: Final = (
    "No language model is configured: the built-in offline model stands in, which only matches"
    " words. Set OPENAI_API_KEY or LOOPWRIGHT_MODEL (and OPENAI_BASE_URL for a server of your own)"
    " to use a real one."
)

_SPARE: Final = 20
_KEPT: Final = frozenset("\n\t")
# Joiners belong to emoji and scripts; the other format characters can disguise what is shown.
_JOINERS: Final = frozenset("\u200c\u200d")


def clean(text: object) -> str:
    """Replace what could steer a terminal (escape codes, text direction) by a visible mark."""
    return "".join(c if _is_harmless(c) else "\ufffd" for c in str(text).replace("\r\n", "\n"))


def _is_harmless(character: str) -> bool:
    if character in _KEPT or character in _JOINERS:
        return True
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs"}


def short(text: object, limit: int = 100) -> str:
    """One line of at most `limit` characters."""
    # Cut before cleaning: a goal may have a million characters, and every event shows it.
    line = " ".join(clean(str(text)[: limit * _SPARE]).split())
    whole = len(line) <= limit and len(str(text)) <= limit * _SPARE
    return line if whole else f"{line[: limit - 1].rstrip()}…"


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON in which foreign scripts stay readable."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def call_text(tool: object, arguments: object, limit: int = 100) -> str:
    """A tool call as one short line."""
    shown = as_json(arguments) if arguments else ""
    return short(f"{tool} {shown}", limit)


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
