"""Which values of a call a stranger wrote: what may inform, but never command. Pure.

A value counts as the user's, the operator's or a record's if it stands whole in their words or in
a field; whatever else a model writes after it has read foreign prose is foreign. Code compares
characters only, in any language. The rule is that of FIDES (arXiv 2505.23643) and CaMeL (arXiv
2503.18813), read from values instead of variables.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from ..text.words import UNSPACED

Origin = Literal["", "trusted", "foreign"]
"""What is declared of a tool's results; "": records are data, prose is foreign."""

LONGEST_VALUE: Final = 64
"""Characters; a longer text, and one with white space, is content."""
_QUOTED: Final = 40
_TOKEN: Final = re.compile(r"[^\s<>()\[\]{}\"“”„«»`|,;，；。、（）「」]+")
_EDGE: Final = ".:!?'’*_#"
_ADDRESS: Final = re.compile(r"\w\.\w|@|/|\d")
"""What makes a token of content an address, a link, an id or a figure."""
_NUMBER: Final = re.compile(r"[-+]?\d+(?:[.,'\u00a0\u202f]\d+)*")
_SCHEME: Final = re.compile(r"(?i)^(?:https?://|mailto:|tel:)")


class ForeignValue(TypedDict):
    """One value that a stranger may have written: where it is to go, and where it stands."""

    path: str
    value: str
    tool: str
    line: int
    quote: str


@dataclass(frozen=True)
class Reading:
    """What one call told a model: its text, and its data where it is structured."""

    tool: str
    text: str
    data: Any = None
    origin: Origin = ""

    @cached_property
    def fields(self) -> frozenset[str]:
        """The values that stand whole in a field, spelled alike."""
        leaves = () if self.origin == "foreign" else _list_leaves(self.data, "")
        return frozenset(spell_alike(value) for _, value in leaves if _is_value(value))

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a stranger may have written words of it, so that what comes after is tainted."""
        if self.origin:
            return self.origin == "foreign"
        if self.data is None:
            return bool(self.text.strip())
        return any(not _is_value(value) for _, value in _list_leaves(self.data, ""))


@dataclass(frozen=True)
class Origins:
    """What a chain has read, and the words of those who may command."""

    readings: Sequence[Reading] = ()
    words: Sequence[str] = ()
    """Of the user and the operator."""
    _texts: list[str] = field(default_factory=list)

    @cached_property
    def is_tainted(self) -> bool:
        """Whether anything foreign has been read."""
        return any(reading.is_foreign for reading in self.readings)

    @cached_property
    def known_texts(self) -> list[str]:
        """Where a value may stand whole, spelled alike."""
        trusted = (one.text for one in self.readings if one.origin == "trusted")
        return [_fold(text) for text in (*self.words, *trusted)]

    @cached_property
    def known_numbers(self) -> frozenset[str]:
        """The numbers of these texts, however they are written."""
        return frozenset(
            number
            for text in self.known_texts
            for found in _NUMBER.findall(text)
            for number in _read_numbers(found)
        )

    def find_foreign(self, args: Mapping[str, Any], sinks: Iterable[str]) -> list[ForeignValue]:
        """The values of these arguments that nobody but a stranger is known to have written."""
        if not self.is_tainted:
            return []
        return [
            self._locate(path, atom)
            for name in sinks
            for path, value in _list_leaves(args.get(name), name)
            for atom in _list_atoms(value)
            if not self._is_known(atom)
        ]

    def _is_known(self, atom: str) -> bool:
        alike = spell_alike(atom)
        if any(alike in reading.fields for reading in self.readings):
            return True
        if alike in self.known_numbers:
            return True
        folded = _fold(atom)
        bare = _SCHEME.sub("", folded).rstrip("/")
        return any(stands_whole(one, text) for text in self.known_texts for one in {folded, bare})

    def _locate(self, path: str, atom: str) -> ForeignValue:
        """Where a foreign value stands, in the newest reading that has it."""
        folded = _fold(atom)
        for reading in reversed(self.readings):
            for number, line in enumerate(reading.text.splitlines(), start=1):
                at = _fold(line).find(folded)
                if at >= 0:
                    quote = line[max(0, at - _QUOTED) : at + len(atom) + _QUOTED].strip()
                    return ForeignValue(
                        path=path, value=atom, tool=reading.tool, line=number, quote=quote
                    )
        return ForeignValue(path=path, value=atom, tool="", line=0, quote="")


def stands_whole(value: str, text: str) -> bool:
    """Whether a value stands in a text between its borders: '10' is not in '100', 'a.b' or 'x@a'.

    Both are spelled alike. Scripts without spaces have a border between any two characters.
    """
    if not value:
        return False
    at = text.find(value)
    while at >= 0:
        before, after = text[:at][-2:], text[at + len(value) :][:2]
        if not (_goes_on(before[::-1], value[0]) or _goes_on(after, value[-1])):
            return True
        at = text.find(value, at + 1)
    return False


def _goes_on(beside: str, edge: str) -> bool:
    """Whether the characters beside an edge, nearest first, belong to the same token."""
    if not beside:
        return False
    if _joins(beside[0]):
        return _joins(edge) or edge in "@./-_:+"
    return beside[0] in "@./-_+:'" and len(beside) > 1 and _joins(beside[1])


def _joins(character: str) -> bool:
    return character.isalnum() and not UNSPACED.match(character)


def spell_alike(value: object) -> str:
    """A value as equal ones are spelled: numbers by their value, texts without case."""
    text = _fold(value if isinstance(value, str) else str(value))
    numbers = _read_numbers(text) if _NUMBER.fullmatch(text) else ()
    return next(iter(numbers), text)


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().strip()


def _read_numbers(text: str) -> list[str]:
    """What a numeral may mean; 1,234 is either of two numbers."""
    plain = re.sub(r"['\u00a0\u202f]", "", text)
    found: list[str] = []
    for spelled in (plain.replace(",", ""), plain.replace(".", "").replace(",", ".")):
        try:
            found.append(f"{Decimal(spelled).normalize():f}")
        except InvalidOperation:
            continue
    return list(dict.fromkeys(found))


def _list_leaves(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """The values in a structure with their paths; names of an open mapping are values, too."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _list_leaves(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for at, one in enumerate(value):
            yield from _list_leaves(one, f"{path}[{at}]")
    elif value is not None and value != "":
        yield path, value


def _is_value(value: object) -> bool:
    """Whether it is a value such as an id, a number, a date or an address, and no content."""
    return not isinstance(value, str) or not (
        len(value) > LONGEST_VALUE or re.search(r"\s", value.strip())
    )


def _list_atoms(value: object) -> Iterator[str]:
    """What of a value may command: the whole of it, or the links, ids and figures of content."""
    if isinstance(value, bool):
        return
    if _is_value(value):
        yield str(value)
        return
    for token in _TOKEN.findall(str(value)):
        bare = token.strip(_EDGE)
        if _ADDRESS.search(bare):
            yield bare
