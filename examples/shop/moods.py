"""How a customer sounds, by the words they use: no model, the same answer to the same text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from knowledge import plain
from vocabulary import read_vocabulary

Mood = Literal["pleased", "calm", "worried", "upset", "angry"]

_WORDS: Final = read_vocabulary("moods")
_WEIGHTS: Final[dict[str, float]] = {
    word: weight
    for by_weight in _WORDS.values()
    for weight, words in by_weight.items()
    for word in words
}


def _either(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words))


_LATIN, _HAN = (_either(chain(*_WORDS[language].values())) for language in ("en", "zh"))
_FOUND: Final = re.compile(rf"\b(?:{_LATIN})\b|{_HAN}")
_TURNS: Final = read_vocabulary("turns")
_NOT: Final = re.compile(
    rf"(?:\b(?:{_either(_TURNS['en'])}|\w+n't)\s+(?:\w+\s+)?|{_either(_TURNS['zh'])})$"
)
_STRENGTHENS: Final = read_vocabulary("strengthens")
_VERY: Final = re.compile(
    rf"(?:\b(?:{_either(_STRENGTHENS['en'])})\s+|{_either(_STRENGTHENS['zh'])})$"
)
_LOUD: Final = re.compile(r"[!\uff01]{2,}|\b[A-Z]{3,}(?:\s+[A-Z]{2,}){2,}")

_TURNED: Final = -0.6
"""What a word counts for behind a "not": less, and the other way."""
_STRONGER: Final = 1.3
_STEPS: Final[tuple[tuple[float, Mood], ...]] = (
    (-0.8, "angry"), (-0.4, "upset"), (-0.15, "worried"), (0.3, "calm"),
)  # fmt: skip


@dataclass(frozen=True)
class Feeling:
    """How a text sounds, from -1 to 1, and the words that say so."""

    mood: Mood
    score: float
    words: tuple[str, ...]


def feeling_in(text: str) -> Feeling:
    """Judge a text: the worst that it says counts most, so that thanks hide no anger."""
    low = plain(text).replace("\u2019", "'")
    weighed = {found[0]: _weight(low, found) for found in _FOUND.finditer(low)}
    worst, best = min(weighed.values(), default=0.0), max(weighed.values(), default=0.0)
    score = worst if worst < 0 else best
    if _LOUD.search(text):
        score *= _STRONGER
    score = round(max(-1.0, min(1.0, score)), 2)
    mood: Mood = next((mood for most, mood in _STEPS if score < most), "pleased")
    return Feeling(mood, score, tuple(weighed))


def _weight(text: str, found: re.Match[str]) -> float:
    before = text[max(0, found.start() - 24) : found.start()]
    weight = _WEIGHTS[found[0]]
    if _NOT.search(before):
        return weight * _TURNED
    return weight * _STRONGER if _VERY.search(before) else weight
