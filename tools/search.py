"""A ranked keyword search over named texts: BM25, for tools and for what was said before. Pure.

Words are read the same way in what is searched and in what is asked: without case and accents,
names split at `_`, `-` and camelCase, English endings off. Scripts without spaces between words
are read by pairs of characters.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

# Where in a script's text words begin is not written: CJK, kana, Hangul, Thai, Lao, Khmer, Burmese.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_RUNS: Final = re.compile(rf"([{_UNSPACED}\U00020000-\U0003ffff]+)|[^\W_]+(?:[_-][^\W_]+)*")
_PARTS: Final = re.compile(r"[_-]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOICED: Final = frozenset("\u3099\u309a")
_MARKS: Final = frozenset({"Mn", "Mc", "Me"})

_ENDINGS: Final = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|e|y)$")
_DOUBLED: Final = re.compile(r"(?<=[a-z]{2})([b-df-hj-np-tv-z])\1$")

_KIN: Final = """\
delete remove erase drop / create make add new open / change edit update modify replace
rename move / show list which / get read view show fetch / find search look / write save store
download fetch / folder directory / page url website web / picture image photo / mail email
ticket issue / compare difference diff / undo reset revert / run execute / clock time
big large size / history log last"""
"""People and tools say the same in other words."""

# The usual constants: how soon a repeated word counts no more, how much long texts are held back.
_ENOUGH: Final = 1.2
_LENGTH: Final = 0.75
_TITLE: Final = 3
"""How often a word of a title counts."""
_KINDRED: Final = 0.6
"""How much a word of the same meaning counts."""


def words_of(name: str) -> set[str]:
    """The words of a name as the search compares them."""
    return set(_words(name, asked=False))


def _words(text: str, *, asked: bool) -> Iterator[str]:
    for found in _RUNS.finditer(_plain(text)):
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
    words = [_stem(part.lower()) for part in parts]
    return (*words, "".join(parts).lower()) if len(parts) > 1 else tuple(words)


def _stem(word: str) -> str:
    """A word without its English ending, so that "files", "filing" and "file" meet."""
    if len(word) <= 3 or not word.isascii():
        return word
    return _DOUBLED.sub(r"\1", _ENDINGS.sub("", word))


def _plain(text: str) -> str:
    if text.isascii():
        return text
    split = unicodedata.normalize("NFKD", text.replace("ß", "ss")).translate(_marks())
    return unicodedata.normalize("NFC", split)


def _asked(query: str) -> dict[str, float]:
    """The words of a query and those of the same meaning, and how much each counts."""
    words = dict.fromkeys(_words(query, asked=True), 1.0)
    kin = (other for word in words for other in _kin().get(word, ()))
    return dict.fromkeys(kin, _KINDRED) | words


@cache
def _kin() -> dict[str, set[str]]:
    kin: defaultdict[str, set[str]] = defaultdict(set)
    for line in re.split(r"/|\n", _KIN):
        group = set(map(_stem, line.split()))
        for word in group:
            kin[word] |= group - {word}
    return kin


@cache
def _marks() -> dict[int, None]:
    """Accents and vowel signs, which people leave out; not what makes another kana of one."""
    characters = map(chr, range(0x300, 0x10000))
    return {
        ord(c): None for c in characters if unicodedata.category(c) in _MARKS and c not in _VOICED
    }


class Search:
    """Texts by their ids, each found by its words; more can be added at any time."""

    def __init__(self) -> None:
        """Begin without a text."""
        self._ids: list[str] = []
        self._lengths: list[int] = []
        self._places: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def add(self, id_: str, text: str, title: str = "") -> None:
        """Add a text; a word of its title counts more than one of the text."""
        counts = Counter(_words(text, asked=False))
        for word in _words(title, asked=False):
            counts[word] += _TITLE
        place = len(self._ids)
        self._ids.append(id_)
        self._lengths.append(counts.total())
        for word, count in counts.items():
            self._places[word][place] = count

    def find(self, query: str, most: int = 5) -> list[tuple[str, float]]:
        """The ids of the texts that say most about the query, best first, and how well they fit.

        Nothing is found by words that stand nowhere. Of equal ones the one added first leads.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        mean = sum(self._lengths) / max(len(self._lengths), 1)
        for word, worth in _asked(query).items():
            places = self._places.get(word, {})
            rare = math.log(1 + (len(self._ids) - len(places) + 0.5) / (len(places) + 0.5))
            for place, count in places.items():
                held_back = 1 - _LENGTH + _LENGTH * self._lengths[place] / mean
                scores[place] += (
                    worth * rare * count * (_ENOUGH + 1) / (count + _ENOUGH * held_back)
                )
        best = sorted(scores, key=lambda place: (-scores[place], place))[:most]
        return [(self._ids[place], scores[place]) for place in best]


def searched(texts: Iterable[tuple[str, str, str]]) -> Search:
    """A search over texts given as id, title and text."""
    search = Search()
    for id_, title, text in texts:
        search.add(id_, text, title)
    return search
