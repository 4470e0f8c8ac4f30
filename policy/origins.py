"""Which values of a call a stranger wrote: what may inform, but never command. Pure.

A value counts as the user's, the operator's or a record's if it stands whole in their words or in
a field; whatever else a model writes after it has read foreign prose is foreign. Code compares
characters only, in any language. The rule is that of FIDES (arXiv 2505.23643) and CaMeL (arXiv
2503.18813), read from values instead of variables.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from ..text.words import UNSPACED
from .origin_words import CONFIDENTIAL, FOREIGN, MODEL, ORIGINS, RESERVED, ValueOrigins

Origin = Literal["", "trusted", "foreign"]
"""What is declared of a tool's results; "": records are data, prose is foreign."""

LONGEST_VALUE: Final = 64
"""Characters; a longer text, and one with white space, is content."""
_QUOTED: Final = 40
_LEAST_ID: Final = 6
"""Characters of a number that may be an id; descriptions are full of shorter ones."""
_LEAST_FIGURE: Final = 4
_LEAST_WORD: Final = 8
"""Characters from which on an id or a figure, and another text, tells something confidential."""
_TOKEN: Final = re.compile(
    # Quotes and signs of any script that stand beside a link and not in it.
    r"[^\s<>()\[\]{}\"`|,;\u00ab\u00bb\u201c-\u201f\u3001\u3002\u300c\u300d\uff08\uff09\uff0c\uff1b]+"
)
_EDGE: Final = ".:!?'\u2019*_#"
_ADDRESS: Final = re.compile(r"\w\.\w|@|/|\d")
"""What makes a token of content an address, a link, an id or a figure."""
_NUMBER: Final = re.compile(r"[-+]?\d+(?:[.,'\u00a0\u202f]\d+)*")
_SCHEME: Final = re.compile(r"(?i)^(?:https?://|mailto:|tel:)")


class ForeignValue(TypedDict):
    """One value that a stranger may have written: where it is to go, and where it stands.

    One that is `confidential` may be anybody's, but must not leave.
    """

    path: str
    value: str
    tool: str
    line: int
    quote: str
    confidential: NotRequired[bool]


@dataclass(frozen=True)
class Reading:
    """What one call told a model: its text, and its data where that is structured.

    `arguments` are what the model had written for it, in the same `message` with others. Rules
    also call the tool by `full_name`, `server/tool`. Data that `is_plain` is all values.
    """

    tool: str
    text: str
    data: Any = None
    origin: Origin = ""
    arguments: Any = None
    full_name: str = ""
    confidential: bool = False
    message: str = ""
    is_plain: bool = False

    @property
    def names(self) -> set[str]:
        """How rules may name its origin: no tool can call itself the user."""
        return {self.tool, self.full_name} - RESERVED - {""}

    @cached_property
    def parts(self) -> list[str]:
        """Its values or lines, one by one."""
        if self.data is None:
            return self.text.splitlines()
        return [str(value) for _, value in list_leaves(self.data)]

    @cached_property
    def fields(self) -> frozenset[str]:
        """The values that stand whole in a field, spelled alike; such as an IBAN in groups, too.

        A value that the model sent itself proves nothing by coming back.
        """
        leaves = () if self.origin == "foreign" else list_leaves(self.data)
        found = {spell_alike(v): _fold(str(v)) for _, v in leaves if is_value(v) or _is_short(v)}
        sent = [str(value) for _, value in list_leaves(self.arguments)]
        back = {spell_alike(value) for value in sent}
        back |= {a for a, value in found.items() if stands_whole(value, _fold("\n".join(sent)))}
        return frozenset(found.keys() - back)

    @cached_property
    def told(self) -> str:
        """The text but for the values that the model sent itself."""
        sent = {_fold(str(value)) for _, value in list_leaves(self.arguments)}
        pattern = "|".join(map(re.escape, sorted(sent, key=len, reverse=True)))
        return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", " ", _fold(self.text)) if sent else self.text

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a stranger may have written words of it, so that what comes after is tainted."""
        if self.origin:
            return self.origin == "foreign"
        if self.data is None:
            return bool(self.text.strip())
        return not (self.is_plain or is_plain(self.data))


@dataclass(frozen=True)
class Origins:
    """What a chain of model turns has read, and the words of those who may command.

    Attributes:
        readings: In the order in which they were read.
        words: Of the user.
        operator: Those of the operator.
        drafts: Those of models that had read nothing foreign, such as the first plan.
        suspects: What tells values without tainting what is written after it: descriptions of
            tools that nobody vouches for, typed reports of agents that read foreign words.
        is_told: Whoever wrote the chain's task had read foreign words.
        strict: All of content is a value, not only the links, addresses, ids and figures in it.
    """

    readings: Sequence[Reading] = ()
    words: Sequence[str] = ()
    operator: Sequence[str] = ()
    drafts: Sequence[str] = ()
    suspects: Sequence[Reading] = ()
    is_told: bool = False
    strict: bool = False

    @cached_property
    def is_tainted(self) -> bool:
        """Whether anything foreign has been read."""
        return self.is_told or any(reading.is_foreign for reading in self.readings)

    @cached_property
    def known_texts(self) -> list[str]:
        """Where a value may stand whole, spelled alike."""
        trusted = [one.told for one in self.readings if one.origin == "trusted"]
        texts = [*self.words, *self.operator, *trusted, *self.untainted_words]
        return [_fold(text) for text in texts]

    @cached_property
    def untainted_words(self) -> list[str]:
        """What models wrote that had read nothing foreign yet."""
        texts, tainted = [*self.drafts], ""
        for one in () if self.is_told else self.readings:
            if tainted and one.message != tainted:
                break
            texts += [str(value) for _, value in list_leaves(one.arguments)]
            if one.is_foreign:  # the calls of one message were written before any of them was read
                tainted = one.message or "?"
        return texts

    @cached_property
    def known_numbers(self) -> frozenset[str]:
        """The numbers of these texts, however they are written."""
        return frozenset(
            number
            for text in self.known_texts
            for found in _NUMBER.findall(text)
            for number in _read_numbers(found)
        )

    def find_foreign(self, args: Mapping[str, Any], *, links: bool = False) -> list[ForeignValue]:
        """The values in these arguments that nobody but a stranger is known to have written.

        With `links` only those that lead elsewhere.
        """
        if not (self.is_tainted or self.suspects):
            return []
        found: list[ForeignValue] = []
        for path, value in list_leaves(args):
            if _is_short(value) and self._is_field(value):
                continue
            for atom in dict.fromkeys(list_atoms(value, whole=self.strict)):
                if (links and "://" not in atom) or self._is_known(atom):
                    continue
                place = self._locate(path, atom, str(value))
                if place["tool"] or self.is_tainted:
                    found.append(place)
        return found

    def _is_field(self, value: object) -> bool:
        alike = spell_alike(value)
        return any(alike in reading.fields for reading in self.readings)

    def _is_known(self, atom: str) -> bool:
        folded = _fold(atom)
        if self._is_field(atom) or spell_alike(atom) in self.known_numbers:
            return True
        bare = _SCHEME.sub("", folded).rstrip("/")
        return any(stands_whole(one, text) for text in self.known_texts for one in {folded, bare})

    def _locate(self, path: str, atom: str, value: str) -> ForeignValue:
        """Where a foreign value stands, in the newest reading that has it; its tool "" if nowhere.

        Of a suspect only what is no plain word counts, of a description no small number either:
        names of choices and limits are its own.
        """
        suspects = [
            one for one in self.suspects
            if _ADDRESS.search(atom)
            and (one.arguments is not None or _is_named(atom, value, one.text))
        ]  # fmt: skip
        for reading in (*reversed(self.readings), *suspects):
            for number, line in enumerate(reading.text.splitlines(), start=1):
                if (at := _find_in_line(atom, line)) >= 0:
                    quote = line[max(0, at - _QUOTED) : at + len(atom) + _QUOTED].strip()
                    return ForeignValue(
                        path=path, value=atom, tool=reading.tool, line=number, quote=quote
                    )
        return ForeignValue(path=path, value=atom, tool="", line=0, quote="")

    @cached_property
    def _sources(self) -> list[tuple[set[str], "Origins"]]:
        """Who may have told a value, each with all that they said."""
        told = zip(ORIGINS, (self.words, self.operator, self.untainted_words), strict=True)
        fields = [
            replace(one, origin="trusted" if one.origin == "trusted" else "")
            for one in self.readings
        ]
        return [
            *(({word}, Origins(words=texts)) for word, texts in told),
            *((one.names, Origins([one], is_told=True)) for one in fields),
        ]

    def find_origins(self, args: Mapping[str, Any]) -> ValueOrigins:
        """Where the things that these arguments name may come from.

        One that stands both in the request and in a record has two origins. Of an untainted chain
        whatever stands nowhere is the model's.
        """
        foreign = {(one["path"], one["value"]) for one in self.find_foreign(args)}
        secret = {(one["path"], one["value"]) for one in self.find_confidential(args)}
        origins: dict[str, list[list[str]]] = {}
        for path, value in list_leaves(args):
            whole = self.strict or (_is_short(value) and self._is_field(value))
            atoms = [*dict.fromkeys(list_atoms(value, whole=whole))]
            parts = [text for place, text in secret if place == path and text not in atoms]
            origins[path] = [[CONFIDENTIAL] for _ in parts]
            for atom in atoms:
                found = {
                    name for names, told in self._sources if told._is_known(atom) for name in names
                }
                found |= {FOREIGN} if (path, atom) in foreign else set()
                found = found or {"" if self._is_known(atom) else MODEL}
                origins[path].append(
                    sorted(found | ({CONFIDENTIAL} if (path, atom) in secret else set()))
                )
        return origins

    def find_confidential(self, args: Mapping[str, Any]) -> list[ForeignValue]:
        """The values in these arguments that stand in a confidential result, and lines of it.

        What the user or the operator said themselves is none, and what is too short to tell.
        """
        secrets = [one for one in (*self.suspects, *self.readings) if one.confidential]
        own = Origins(words=[*self.words, *self.operator])
        found: dict[tuple[str, str], ForeignValue] = {}
        for one in reversed(secrets):
            told = Origins(words=one.parts)
            for path, value in list_leaves(args):
                text = str(value)
                parts = [part for part in one.parts if stands_whole(_fold(part), _fold(text))]
                for thing in (text, *parts, *list_atoms(value)):
                    least = _LEAST_FIGURE if _ADDRESS.search(thing) else _LEAST_WORD
                    if len(thing) < least or own._is_known(thing) or not told._is_known(thing):
                        continue
                    found.setdefault((path, thing), ForeignValue(
                        path=path, value=thing, tool=one.tool, line=0, quote="", confidential=True
                    ))  # fmt: skip
        return [*found.values()]


def _is_named(atom: str, value: str, description: str) -> bool:
    """Whether a description names a link, an address or an id: whole, and no figure of a limit."""
    text = _fold(description)
    small = _NUMBER.fullmatch(atom) and len(atom) < _LEAST_ID
    if small and (len(value) < _LEAST_ID or _fold(value) not in text):
        return False
    return stands_whole(_fold(atom), text)


def _find_in_line(atom: str, line: str) -> int:
    """Where a value stands in a line, a number however it is written; -1 where it does not."""
    if (at := _fold(line).find(_fold(atom))) >= 0:
        return at
    alike = spell_alike(atom)
    numbers = _NUMBER.finditer(line) if _NUMBER.fullmatch(atom) else ()
    return next((one.start() for one in numbers if alike in _read_numbers(one[0])), -1)


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
    """What a numeral may mean; 1,234 is either of two numbers, 1,23 and 32.8 are one."""
    plain = re.sub(r"['\u00a0\u202f]", "", text)
    found: list[str] = []
    for group, point in ((",", "."), (".", ",")):
        grouped = rf"\d{{1,3}}(?:\{group}\d{{2,3}})*\{group}\d{{3}}"
        if re.fullmatch(rf"[-+]?(?:\d+|{grouped})(?:\{point}\d+)?", plain):
            number = Decimal(plain.replace(group, "").replace(point, "."))
            found.append(f"{number.normalize():f}")
    return list(dict.fromkeys(found))


def list_leaves(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values in a structure with their paths; names of an open mapping are values, too."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from list_leaves(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for at, one in enumerate(value):
            yield from list_leaves(one, f"{path}[{at}]")
    elif value is not None and value != "":
        yield path, value


def is_value(value: object) -> bool:
    """Whether it is a value such as an id, a number, a date or an address, and no content."""
    return not isinstance(value, str) or not (
        len(value) > LONGEST_VALUE or re.search(r"\s", value.strip())
    )


def is_plain(data: object) -> bool:
    """Whether all of some data is values."""
    return all(is_value(value) for _, value in list_leaves(data))


def is_word(value: str) -> bool:
    """Whether it is a value without a digit or a sign of addresses, so no id, amount or link."""
    return is_value(value) and not _ADDRESS.search(value)


def _is_short(value: object) -> bool:
    """Whether it is a short text that leads nowhere, such as a name, or an IBAN in groups."""
    leads = isinstance(value, str) and ("://" in value or "@" in value)
    return isinstance(value, str) and len(value) <= LONGEST_VALUE and not leads


def list_atoms(value: object, *, whole: bool = False) -> Iterator[str]:
    """What of a value may command: the whole of it, or the links, ids and figures of content."""
    if isinstance(value, bool):
        return
    if not isinstance(value, str):
        yield spell_alike(value)
    elif whole or is_value(value):
        yield value
    else:
        yield from _list_parts(value)


def _list_parts(value: str) -> Iterator[str]:
    for token in _TOKEN.findall(str(value)):
        bare = token.strip(_EDGE)
        if _ADDRESS.search(bare):
            yield bare
