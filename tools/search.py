"""A ranked keyword search over named texts: BM25, for tools and for what was said before. Pure.

Words are read the same way in what is searched and in what is asked: see `text/words.py`.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Final

from ..text.words import stem, words_in

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


def _weigh_query(query: str) -> dict[str, float]:
    """The words of a query and those of the same meaning, and how much each counts."""
    words = dict.fromkeys(words_in(query, asked=True), 1.0)
    kin = (other for word in words for other in _group_synonyms().get(word, ()))
    return dict.fromkeys(kin, _KINDRED) | words


@cache
def _group_synonyms() -> dict[str, set[str]]:
    kin: defaultdict[str, set[str]] = defaultdict(set)
    for line in re.split(r"/|\n", _KIN):
        group = set(map(stem, line.split()))
        for word in group:
            kin[word] |= group - {word}
    return kin


class Search:
    """Texts by their ids, each found by its words; more can be added at any time."""

    def __init__(self) -> None:
        """Begin without a text."""
        self._ids: list[str] = []
        self._lengths: list[int] = []
        self._places: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def add(self, id_: str, text: str, title: str = "") -> None:
        """Add a text; a word of its title counts more than one of the text."""
        counts = Counter(words_in(text, asked=False))
        for word in words_in(title, asked=False):
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
        for word, worth in _weigh_query(query).items():
            places = self._places.get(word, {})
            rare = math.log(1 + (len(self._ids) - len(places) + 0.5) / (len(places) + 0.5))
            for place, count in places.items():
                held_back = 1 - _LENGTH + _LENGTH * self._lengths[place] / mean
                scores[place] += (
                    worth * rare * count * (_ENOUGH + 1) / (count + _ENOUGH * held_back)
                )
        best = sorted(scores, key=lambda place: (-scores[place], place))[:most]
        return [(self._ids[place], scores[place]) for place in best]


def build_search(texts: Iterable[tuple[str, str, str]]) -> Search:
    """A search over texts given as id, title and text."""
    search = Search()
    for id_, title, text in texts:
        search.add(id_, text, title)
    return search
