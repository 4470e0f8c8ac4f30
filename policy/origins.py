"""Which values of a call a stranger wrote: what may inform, but never command. Pure.

A value counts as the user's, the operator's or a record's if it stands whole in their words or in
a field; whatever else a model writes after it has read foreign prose is foreign. Code compares
characters only, in any language. The rule is that of FIDES (arXiv 2505.23643) and CaMeL (arXiv
2503.18813), read from values instead of variables.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from .origin_words import CONFIDENTIAL, FOREIGN, MODEL, ORIGINS, RESERVED, ValueOrigins
from .values import (
    ADDRESS,
    NUMBER,
    SCHEME,
    find_in_line,
    fold_text,
    is_link,
    is_long,
    is_named,
    is_plain,
    is_short,
    list_arguments,
    list_atoms,
    list_leaves,
    read_numbers,
    spell_alike,
    stands_whole,
    strip_signs,
)

Origin = Literal["", "trusted", "foreign"]
"""What is declared of a tool's results; "": records are data, prose is foreign."""

_QUOTED: Final = 40
_QUOTES: Final = 100
"""Foreign values of one call that are looked for in what was read."""
_LEAST_FIGURE: Final = 4
_LEAST_WORD: Final = 8
"""Characters from which on an id or a figure, and another text, tells something confidential."""


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


def _place_nowhere(path: str, atom: str) -> ForeignValue:
    return ForeignValue(path=path, value=atom, tool="", line=0, quote="")


@dataclass(frozen=True)
class Reading:
    """What one call told a model: its text, and its data where that is structured.

    `arguments` are what the model had written for it, in the same `message` with others. Rules
    also call the tool by `full_name`, `server/tool`.
    """

    tool: str
    text: str
    data: Any = None
    origin: Origin = ""
    arguments: Any = None
    full_name: str = ""
    confidential: bool = False
    message: str = ""

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
    def _search_text(self) -> tuple[str, frozenset[str]]:
        return fold_text(self.text), Origins(words=[self.text]).known_numbers

    def may_hold(self, atom: str) -> bool:
        """Whether a value stands in its text, perhaps within others."""
        text, numbers = self._search_text
        return fold_text(atom) in text or spell_alike(atom) in numbers

    @cached_property
    def fields(self) -> frozenset[str]:
        """The values that stand whole in a field, spelled alike; such as an IBAN in groups, too.

        A value that the model sent itself proves nothing by coming back.
        """
        leaves = () if self.origin == "foreign" else list_leaves(self.data)
        found = {spell_alike(v): fold_text(str(v)) for _, v in leaves if is_plain(v) or is_short(v)}
        sent = [str(value) for _, value in list_leaves(self.arguments)]
        back = {spell_alike(value) for value in sent}
        back |= {a for a, value in found.items() if stands_whole(value, fold_text("\n".join(sent)))}
        bare = {strip_signs(value) for value in sent}
        back |= {a for a, value in found.items() if strip_signs(value) in bare}
        return frozenset(found.keys() - back)

    @cached_property
    def own_text(self) -> str:
        """The text but for the values that the model sent itself, and the words of these."""
        values = [str(value) for _, value in list_leaves(self.arguments)]
        parts = {p for v in values for p in (v, *v.split(), *list_atoms(v))}
        text = fold_text(self.text)
        sent = {one for one in map(fold_text, parts) if one and one in text}
        pattern = "|".join(map(re.escape, sorted(sent, key=len, reverse=True)))
        return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", " ", text) if sent else self.text

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a stranger may have written words of it, so that what comes after is tainted."""
        if self.origin:
            return self.origin == "foreign"
        if self.data is None:
            return bool(self.text.strip())
        return not is_plain(self.data)


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
        trusted = [one.own_text for one in self.readings if one.origin == "trusted"]
        return [fold_text(text) for text in (*self.words, *self.operator, *trusted)]

    @cached_property
    def _draft_words(self) -> "Origins":
        """The words of models that had read nothing foreign but descriptions, as known ones."""
        return Origins(words=self.untainted_words)

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
            for found in NUMBER.findall(text)
            for number in read_numbers(found)
        )

    def find_foreign(self, args: Mapping[str, Any], *, links: bool = False) -> list[ForeignValue]:
        """The values in these arguments that nobody but a stranger is known to have written.

        With `links` only those that lead elsewhere.
        """
        if not (self.is_tainted or self.suspects or self.readings):
            return []
        found: list[ForeignValue] = []
        for path, value in list_arguments(args):
            if is_short(value) and self._is_field(value):
                continue
            for atom in dict.fromkeys(list_atoms(value, whole=self.strict)):
                if (links and not is_link(atom)) or self._is_known(atom):
                    continue
                if place := self._judge(path, atom, str(value), quoted=len(found) < _QUOTES):
                    found.append(place)
        return found

    def _judge(self, path: str, atom: str, value: str, *, quoted: bool) -> ForeignValue | None:
        """Where an unknown value stands; None where nothing foreign can have told it."""
        drafted = self._draft_words._is_known(atom)
        if self.is_tainted and not (drafted or quoted):  # nobody reads so many quotes
            return _place_nowhere(path, atom)
        place = self._locate(path, atom, value, () if drafted else self.readings)
        return place if place["tool"] or (self.is_tainted and not drafted) else None

    def _is_field(self, value: object) -> bool:
        alike = spell_alike(value)
        return any(alike in reading.fields for reading in self.readings)

    def _is_known(self, atom: str) -> bool:
        folded = fold_text(atom)
        if self._is_field(atom) or spell_alike(atom) in self.known_numbers:
            return True
        bare = SCHEME.sub("", folded).rstrip("/")
        return any(stands_whole(one, text) for text in self.known_texts for one in {folded, bare})

    def _locate(
        self, path: str, atom: str, value: str, readings: Sequence[Reading]
    ) -> ForeignValue:
        """Where a foreign value stands, in the newest reading that has it; its tool "" if nowhere.

        Of a suspect only what is no plain word counts, of a description no small number either:
        names of choices and limits are its own. No draft makes known what a suspect names. In
        records of values alone a long part of a field may be what somebody hid there.
        """
        told: Sequence[Reading] = readings
        if not self.is_tainted:
            hidden = is_long(atom)
            told = [one for one in told if hidden and one.origin != "trusted"]
        suspects = [
            one for one in self.suspects
            if ADDRESS.search(atom)
            and (one.arguments is not None or is_named(atom, value, one.text))
        ]  # fmt: skip
        for reading in (*reversed(told), *suspects):
            lines = reading.text.splitlines() if reading.may_hold(atom) else ()
            for number, line in enumerate(lines, start=1):
                if (at := find_in_line(atom, line)) >= 0:
                    quote = line[max(0, at - _QUOTED) : at + len(atom) + _QUOTED].strip()
                    return ForeignValue(
                        path=path, value=atom, tool=reading.tool, line=number, quote=quote
                    )
        return _place_nowhere(path, atom)

    @cached_property
    def _sources(self) -> list[tuple[set[str], "Origins"]]:
        """Who may have told a value, each with all that they said."""
        told = zip(ORIGINS, (self.words, self.operator, self.untainted_words), strict=True)
        fields = [
            one if one.origin == "trusted" else replace(one, origin="") for one in self.readings
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
        for path, value in list_arguments(args):
            whole = self.strict or (is_short(value) and self._is_field(value))
            atoms = [*dict.fromkeys(list_atoms(value, whole=whole))]
            parts = [text for place, text in secret if place == path and text not in atoms]
            origins[path] = [[CONFIDENTIAL] for _ in parts]
            for atom in atoms:
                told = (names for names, one in self._sources if one._is_known(atom))
                found = {*chain.from_iterable(told)}
                if (path, atom) in foreign:  # what a suspect names is not the model's
                    found = (found - {MODEL}) | {FOREIGN}
                found = found or {"" if self._is_known(atom) else MODEL}
                found |= {CONFIDENTIAL} if (path, atom) in secret else set()
                origins[path].append(sorted(found))
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
            for path, value in list_arguments(args):
                text = fold_text(str(value))
                parts = [part for part in one.parts if stands_whole(fold_text(part), text)]
                for thing in (str(value), *parts, *list_atoms(value)):
                    least = _LEAST_FIGURE if ADDRESS.search(thing) else _LEAST_WORD
                    if len(thing) < least or own._is_known(thing) or not told._is_known(thing):
                        continue
                    found.setdefault((path, thing), ForeignValue(
                        path=path, value=thing, tool=one.tool, line=0, quote="", confidential=True
                    ))  # fmt: skip
        return [*found.values()]
