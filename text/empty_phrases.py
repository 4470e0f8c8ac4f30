"""Answers that say nothing, such as `Done.` or `Fertig.`, in whatever language.

The phrases stand beside the prompts, in `prompts/core/<language>/empty_phrases.md`. An answer may
come in another language than it was asked for, so those of all languages count. Only an answer
made of nothing else says nothing: `42`, `Yes` and `Berlin` are answers.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from .words import fold_case

FILE: Final = "empty_phrases.md"

_HEADING: Final = re.compile(r"^## (.+)\n", re.MULTILINE)
_PHRASE: Final = re.compile(r"^- (.+)$", re.MULTILINE)
_GROUP: Final = re.compile(r"([\[(])([^\])]*)[\])]|([^\[(]+)")
_SENTENCES: Final = re.compile(r"[.!?,;:…\n。！？，、；：]+")  # noqa: RUF001 - full-width on purpose
_LONGEST: Final = 400
_NOTHING: Final = "Say nothing"
_ASIDE: Final = "Only beside such phrases"

_PATTERNS: Final[dict[str, dict[str, re.Pattern[str]]]] = {}
"""Language to heading to all its phrases."""


def learn_phrases(language: str, text: str) -> None:
    """Take the phrases of a language from its file."""
    _, *parts = _HEADING.split(text)
    lists = zip(parts[::2], parts[1::2], strict=True)
    _PATTERNS[language] = {
        heading.strip(): re.compile("|".join(map(_pattern, _PHRASE.findall(phrases))) or r"(?!)")
        for heading, phrases in lists
    }


def says_nothing(text: str, request: str = "") -> bool:
    """Whether a text is empty, or holds only phrases without any data.

    Args:
        text: An answer or a report.
        request: What it answers: who is told to say "done" answers with that word.
    """
    if len(text) > _LONGEST:
        return False
    parts = [part for part in map(_squash, _SENTENCES.split(text)) if part]
    if not parts:
        return not any(unicodedata.category(sign) in ("Sc", "Sm", "Sk") for sign in text)
    if "".join(parts) in _squash(request):
        return False
    empty = [_matches_list(part, _NOTHING) for part in parts]
    return any(empty) and all(
        nothing or _matches_list(part, _ASIDE) for part, nothing in zip(parts, empty, strict=True)
    )


def _matches_list(part: str, heading: str) -> bool:
    return any(heading in lists and lists[heading].fullmatch(part) for lists in _PATTERNS.values())


def _squash(text: str) -> str:
    """Its letters, marks and digits alone, small."""
    return "".join(sign for sign in fold_case(text) if unicodedata.category(sign)[0] in "LMN")


def _pattern(phrase: str) -> str:
    """A phrase as a pattern over squashed texts."""
    return "".join(_group(*found) for found in _GROUP.findall(phrase))


def _group(bracket: str, words: str, bare: str) -> str:
    if not bracket:
        return _alternatives([bare])
    return _alternatives(words.split("|")) + ("?" if bracket == "[" else "")


def _alternatives(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(re.escape(word) for word in _sort_longest_first(words))})"


def _sort_longest_first(words: Iterable[str]) -> Iterator[str]:
    # Longest first: of two that begin alike the shorter would be tried in vain.
    return iter(sorted(map(_squash, words), key=len, reverse=True))
