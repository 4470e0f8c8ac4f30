"""Words of a text that can be compared, and searches by a pattern with a time limit. Pure.

Words are read without case and accents; names are split at `_`, `-` and camelCase, and English
endings are cut off. Scripts without spaces between words are read by pairs of characters, behind a
digit or a name as well.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final, Literal

import regex  # type: ignore[import-untyped]  # its stubs are a package of their own

# Where in a script's text words begin is not written: CJK, kana, Hangul, Thai, Lao, Khmer, Burmese.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
)
UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
_NAME: Final = rf"[^\W_{_UNSPACED}]+"
# Such letters end a name, also behind a digit: they are no more of its word than after a space.
_RUNS: Final = re.compile(rf"([{_UNSPACED}]+)|{_NAME}(?:[_-]{_NAME})*")
# Python sorts marks in a row in time that grows with their square; Unicode advises 30 at most.
_STACKED: Final = regex.compile(r"([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_PARTS: Final = re.compile(r"[_-]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOICED: Final = frozenset("\u3099\u309a")
_MARKS: Final = frozenset({"Mn", "Mc", "Me"})

PatternError: Final = regex.error
SECONDS: Final = 1.0
"""How long one search by a pattern may take."""

_ENDINGS: Final = re.compile(r"(?<=[a-z]{3})(?:ies|ing|able|ed|es|s|e|y)$")
_DOUBLED: Final = re.compile(r"(?<=[a-z]{2})([b-df-hj-np-tv-z])\1$")


def words_in(text: str, *, asked: bool) -> Iterator[str]:
    """The words of a text in order; of one that is `asked`, no single characters of words."""
    for found in _RUNS.finditer(_strip_marks(text)):
        if run := found[1]:
            yield from _pairs(run, asked=asked)
        else:
            yield from _of_name(found[0])


def _pairs(run: str, *, asked: bool) -> Iterator[str]:
    """Each two neighbours; single characters too, except of a longer word that is asked for."""
    yield from (run[index : index + 2] for index in range(len(run) - 1))
    if len(run) == 1 or not asked:
        yield from run


@lru_cache(maxsize=20_000)
def _of_name(name: str) -> tuple[str, ...]:
    """The words of a name, and the name as one word; most names are one word."""
    parts = [part for half in _PARTS.split(name) for part in _CAMEL.split(half)]
    words = [stem(part.lower()) for part in parts]
    return (*words, "".join(parts).lower()) if len(parts) > 1 else tuple(words)


def stem(word: str) -> str:
    """A word without its English ending, so that "files", "filing" and "file" meet."""
    if len(word) <= 3 or not word.isascii():
        return word
    return _DOUBLED.sub(r"\1", _ENDINGS.sub("", word))


def _strip_marks(text: str) -> str:
    if text.isascii():
        return text
    text = _STACKED.sub(r"\1", text.replace("ß", "ss"))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text).translate(_marks()))


def fold_case(text: str, form: Literal["NFKC", "NFKD"] = "NFKC") -> str:
    """The text without case, each letter spelled in one way."""
    return unicodedata.normalize(form, _STACKED.sub(r"\1", text)).casefold()


def fold_digits(text: str) -> str:
    """The text with the digits of any script as 0 to 9."""
    return "".join(str(unicodedata.digit(c)) if c.isdecimal() else c for c in text)


def fold_letters(text: str) -> str:
    """The text without case, accents and widths: what people leave out when they search."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _ACCENTS.sub("", fold_case(text, "NFKD")))


@cache
def _marks() -> dict[int, None]:
    """Accents and vowel signs, which people leave out; not what makes another kana of one."""
    characters = map(chr, range(0x300, 0x10000))
    return {
        ord(c): None for c in characters if unicodedata.category(c) in _MARKS and c not in _VOICED
    }


def find_pattern_error(pattern: str) -> str:
    """Why a text is no regular expression; '' where it is one."""
    try:
        regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text, by `regex`, which unlike `re` can be stopped.

    Raises:
        TimeoutError: The search took too long.
        PatternError: It is no regular expression.
    """
    return regex.search(pattern, text, timeout=SECONDS) is not None
