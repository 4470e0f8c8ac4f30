"""One clause with its literals, and how literals are ordered for an argument."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from .known import Known
from .literals import Given, literals, without, zones
from .tools import Parameter, Tool
from .words import STOPWORDS, best_related, content_words, stem, stems, words

# Characters of a clause that patterns run over; its literals are found in all of it.
_MATCHED: Final = 8_000


@dataclass
class Clause:
    """One clause with its literals found, and the spans a call has used up."""

    text: str
    known: Known = field(default_factory=Known)
    used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Find the literals once."""
        self.given = literals(self.text)
        self.whole = self.text
        bare = without(
            self.text, [item for item in self.given if item.kind not in ("date", "number")]
        )
        self.text, self.bare = self.text[:_MATCHED], bare[:_MATCHED]
        self.zones = zones(without(self.whole, self.given)[:_MATCHED])
        self.zones += [
            Given("zone", item.value, item.start, item.end)
            for item in self.given
            if item.kind == "path" and zones(item.value)
        ]
        self.zones.sort(key=lambda item: item.start)
        self.said = content_words(self.text)

    def of(self, *kinds: str) -> list[Given]:
        """The literals of these kinds in order."""
        return [item for item in self.given if item.kind in kinds]

    def before(self, item: Given, reach: int = 3) -> list[str]:
        """The stems of the words just before a literal, nearest first."""
        return words(self.whole[max(0, item.start - 80) : item.start])[::-1][:reach]

    def after(self, item: Given, reach: int = 2) -> list[str]:
        """The stems of the words just after a literal."""
        return words(self.whole[item.end : item.end + 60])[:reach]


Finder = Callable[[Clause, Parameter, Tool], Iterable[Given]]


EACH: Final = re.compile(
    r"(?i)\b(?:each|every one|all of (?:them|these|those)|them|both|these|those)\b"
)


def nowhere(value: str, kind: str = "told") -> Given:
    """A value that stands nowhere in the clause."""
    return Given(kind, value, -1, -1)


def nearest_first(clause: Clause, parameter: Parameter, items: list[Given]) -> list[Given]:
    """Literals introduced by a word of the argument's name come first, then by order."""
    names = [word for word in parameter.name_words if word not in STOPWORDS]
    return sorted(
        items,
        key=lambda item: (
            -max((best_related(word, clause.before(item)) for word in names), default=0)
        ),
    )


def from_to(
    clause: Clause, parameter: Parameter, items: list[Given], strict: bool = False
) -> list[Given]:
    """Order two-ended arguments (source, target) by 'from' and 'to', else by mention."""
    named = set(parameter.name_words)
    first = bool(named & stems("source src from origin old base departure"))
    second = bool(named & stems("target dest destination dst to new arrival"))
    if first == second or len(items) < 2:
        return items
    cue = ("from", "of") if first else ("to", "into", "in", "as", "with", "onto")
    hinted = [
        item
        for item in items
        if clause.before(item, 1) and clause.before(item, 1)[0] in {stem(c) for c in cue}
    ]
    rest = [item for item in items if item not in hinted]
    if strict and not hinted:
        return []
    if first:
        return items if not hinted or hinted[0] == items[0] else [*hinted, *rest]
    return [
        *[item for item in hinted if item != items[0]],
        *[i for i in items[1:] if i not in hinted],
        items[0],
    ]


def said_options(clause: Clause, options: Iterable[str]) -> Iterator[Given]:
    """Those of some values whose words all stand in the clause, longest first."""
    for option in sorted(options, key=len, reverse=True):
        whole = re.search(rf"(?i)(?<!\w){re.escape(option)}(?!\w)", clause.text)
        parts = words(option)
        if whole:
            yield Given("option", option, whole.start(), whole.end())
        elif parts and all(best_related(part, clause.said) for part in parts):
            yield nowhere(option)
