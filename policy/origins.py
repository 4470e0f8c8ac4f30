"""Which values of a call a stranger wrote: what may inform, but never command. Pure.

A value counts as the user's, the operator's or a record's if it stands whole in their words or in
a field; whatever else a model writes after it has read foreign prose is foreign. Code compares
characters only, in any language. The rule is that of FIDES (arXiv 2505.23643) and CaMeL (arXiv
2503.18813), read from values instead of variables.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from .origin_words import (
    CONFIDENTIAL,
    FOREIGN,
    MODEL,
    ORIGINS,
    RESERVED,
    ValueOrigins,
    stands_under,
)
from .values import (
    ADDRESS,
    NUMBER,
    SCHEME,
    fold_text,
    is_long,
    is_named,
    is_plain,
    is_short,
    is_value,
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
"""Characters of a quote on each side of a value."""
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


@dataclass(frozen=True)
class Knowledge:
    """Texts in which a value may stand whole, and `fields`, spelled alike, that may equal it."""

    texts: Sequence[str]
    fields: frozenset[str] = frozenset()

    @cached_property
    def _spellings(self) -> list[str]:
        return [*map(fold_text, self.texts)]

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """The numbers of the texts, however they are written."""
        found = (one for text in self._spellings for one in NUMBER.findall(text))
        return frozenset(number for one in found for number in read_numbers(one))

    def hold(self, value: str) -> bool:
        """Whether a value stands whole among them, a link also without its scheme."""
        if (alike := spell_alike(value)) in self.fields or alike in self._numbers:
            return True
        folded = fold_text(value)
        bare = SCHEME.sub("", folded).rstrip("/")
        return any(stands_whole(one, text) for text in self._spellings for one in {folded, bare})


@dataclass(frozen=True)
class Reading:
    """What one call told a model: its text, and its data where that is structured.

    `arguments` are what the model had written for it, in the same `message` with others. Rules
    also call the tool by `full_name`, `server/tool`. What is "suspect" tells values, but taints
    nothing: descriptions of tools that nobody vouches for, typed reports of who read foreign words.
    Its `words` are a model's that had read nothing foreign when it wrote them.
    """

    tool: str
    text: str
    data: Any = None
    origin: Origin | Literal["suspect"] = ""
    arguments: Any = None
    full_name: str = ""
    confidential: bool = False
    message: str = ""
    words: Sequence[str] = ()

    @property
    def names(self) -> set[str]:
        """How rules may name its origin: no tool can call itself the user."""
        return {self.tool, self.full_name} - RESERVED - {""}

    @cached_property
    def inputs(self) -> list[str]:
        """What the model wrote for it, value by value."""
        return [str(value) for _, value in list_leaves(self.arguments)]

    @cached_property
    def parts(self) -> list[str]:
        """Its values or lines, one by one."""
        if self.data is None:
            return self.text.splitlines()
        return [str(value) for _, value in list_leaves(self.data)]

    @cached_property
    def knowledge(self) -> Knowledge:
        """Its fields, such as an IBAN in groups, and the text of one that is trusted.

        A value that the model sent itself proves nothing by coming back, however it is spelled.
        """
        text = fold_text("\n".join(self.inputs))
        spelled = {*map(spell_alike, self.inputs), *map(strip_signs, self.inputs)}
        leaves = (one for _, one in list_leaves(self.data, words=True))
        fields = [str(one) for one in leaves if is_plain(one) or is_short(one)]
        back = {
            spell_alike(one) for one in fields
            if not spelled.isdisjoint((spell_alike(one), strip_signs(one)))
            or stands_whole(fold_text(one), text)
        }  # fmt: skip
        texts = [self._own_text] if self.origin == "trusted" else []
        return Knowledge(texts, frozenset(map(spell_alike, fields)) - back)

    @property
    def _own_text(self) -> str:
        """The text but for the values that the model sent itself, and the words of these."""
        parts = {part for one in self.inputs for part in (one, *one.split(), *list_atoms(one))}
        text = fold_text(self.text)
        sent = {one for one in map(fold_text, parts) if one and one in text}
        pattern = "|".join(map(re.escape, sorted(sent, key=len, reverse=True)))
        return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", " ", text) if sent else text

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a stranger may have written words of it, so that what comes after is tainted."""
        if self.origin:
            return self.origin == "foreign"
        if self.data is None:
            return bool(self.text.strip())
        return not is_plain(self.data)

    @cached_property
    def _lines(self) -> tuple[list[str], str, dict[str, int]]:
        """Its lines, these spelled alike in one text, and where in that each number begins."""
        lines = self.text.splitlines() or [""]
        text = "\n".join(map(fold_text, lines))
        numbers = reversed([*NUMBER.finditer(text)])
        return lines, text, {one: n.start() for n in numbers for one in read_numbers(n[0])}

    @cached_property
    def _bare(self) -> str:
        return "\n".join(map(strip_signs, self._lines[0]))

    def spells(self, atom: str) -> bool:
        """Whether a long value stands in a line with other signs between its letters and digits."""
        bare = strip_signs(atom)
        return len(bare) >= _LEAST_WORD and bare in self._bare

    def find_line(self, atom: str) -> tuple[int, str]:
        """The number of the line where a value stands, perhaps within others, and words around it.

        The number is 0 where it stands nowhere.
        """
        lines, text, numbers = self._lines
        at = text.find(fold_text(atom))
        at = numbers.get(spell_alike(atom), -1) if at < 0 else at
        if at < 0 and self.spells(atom):
            line = self._bare.count("\n", 0, self._bare.find(strip_signs(atom)))
            return line + 1, lines[line].strip()[: 2 * _QUOTED]
        if at < 0:
            return 0, ""
        line, at = text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1
        return line + 1, lines[line][max(0, at - _QUOTED) : at + len(atom) + _QUOTED].strip()


@dataclass(frozen=True)
class Origins:
    """What a chain of model turns has read, and the words of those who may command.

    Attributes:
        readings: In the order in which they were read.
        words: Of the user.
        operator: Those of the operator.
        drafts: Those of models that had read nothing foreign, such as the first plan.
        was_tainted: Whoever wrote the chain's task had read foreign words.
        strict: All of content is a value, not only the links, addresses, ids and figures in it.
        own: By argument of a call, what is data in it alone: the fields that it is made from.
        control: What of strangers decides whether a call is made.
    """

    readings: Sequence[Reading] = ()
    words: Sequence[str] = ()
    operator: Sequence[str] = ()
    drafts: Sequence[str] = ()
    was_tainted: bool = False
    strict: bool = False
    own: Mapping[str, Sequence[Reading]] = field(default_factory=dict)
    control: Sequence[ForeignValue] = ()

    @cached_property
    def is_tainted(self) -> bool:
        """Whether anything foreign has been read."""
        return self.was_tainted or any(reading.is_foreign for reading in self.readings)

    @cached_property
    def _tells_short_values(self) -> bool:
        """Whether more may be foreign than long parts of records."""
        return self.is_tainted or any(one.origin == "suspect" for one in self.readings)

    @cached_property
    def untainted_words(self) -> list[str]:
        """What models wrote that had read nothing foreign yet."""
        texts, tainted = [*self.drafts], ""
        for one in () if self.was_tainted else self.readings:
            if tainted and one.message != tainted:
                break
            texts += one.inputs if one.origin != "suspect" else ()
            if one.is_foreign:  # the calls of one message were written before any of them was read
                tainted = one.message or "?"
        return texts

    @cached_property
    def _knowledge(self) -> Knowledge:
        """What the user, the operator, trusted tools and records say."""
        told = [one.knowledge for one in self.readings if one.origin in ("", "trusted")]
        texts = [text for one in told for text in one.texts]
        fields = frozenset[str]().union(*(one.fields for one in told))
        return Knowledge([*self.words, *self.operator, *texts], fields)

    @cached_property
    def _drafts(self) -> Knowledge:
        words = (text for one in self.readings for text in one.words)
        return Knowledge([*self.untainted_words, *words])

    @cached_property
    def _sources(self) -> list[tuple[set[str], Knowledge]]:
        """Who may have told a value, each with all that they said."""
        told = (Knowledge(self.words), Knowledge(self.operator), self._drafts)
        own = [({word}, known) for word, known in zip(ORIGINS, told, strict=True)]
        return [*own, *((one.names, one.knowledge) for one in self.readings)]

    def _list_things(self, args: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
        """All that arguments name, each with its path and the value in which it stands."""
        for path, value in list_arguments(args):
            is_content = not is_value(value) and is_short(value)
            whole = self.strict or (is_content and spell_alike(value) in self._knowledge.fields)
            for atom in dict.fromkeys(list_atoms(value, whole=whole)):
                yield path, atom, str(value)

    def _list_own(self, path: str) -> list[Reading]:
        return [one for name, own in self.own.items() if stands_under(path, name) for one in own]

    def _is_known(self, path: str, atom: str) -> bool:
        own = (one.knowledge for one in self._list_own(path))
        return any(known.hold(atom) for known in (self._knowledge, *own))

    def find_foreign(self, args: Mapping[str, Any]) -> list[ForeignValue]:
        """The values in these arguments that nobody but a stranger is known to have written."""
        things = self._list_things(args) if self.is_tainted or self.readings else ()
        places = (self._find_place(*thing) for thing in things)
        return [one for one in places if one]

    def _find_place(self, path: str, atom: str, value: str) -> ForeignValue | None:
        """Where a foreign value stands, in the newest reading that has it; None if it is not.

        Of a suspect only what is no plain word counts, of a description no small number either:
        names of choices and limits are its own. No draft makes known what a suspect names. In
        records of values alone a long part of a field may be what somebody hid there.
        """
        if not (self._tells_short_values or is_long(atom)) or self._is_known(path, atom):
            return None
        drafted = self._drafts.hold(atom)
        for one in reversed(self.readings):
            if one.origin == "suspect":
                is_report = one.arguments is not None
                counts = is_report or one.spells(atom) or is_named(atom, value, one.text)
            else:
                may_hide = not drafted if self.is_tainted else is_long(atom)
                counts = may_hide and one.origin != "trusted"
            line, quote = one.find_line(atom) if counts else (0, "")
            if line:
                return ForeignValue(path=path, value=atom, tool=one.tool, line=line, quote=quote)
        nowhere = ForeignValue(path=path, value=atom, tool="", line=0, quote="")
        return nowhere if self.is_tainted and not drafted else None

    def find_origins(self, args: Mapping[str, Any]) -> ValueOrigins:
        """Where the things that these arguments name may come from.

        One that stands both in the request and in a record has two origins. Of an untainted chain
        whatever stands nowhere is the model's. What is confidential counts as one thing more.
        """
        origins: dict[str, list[list[str]]] = {path: [] for path, _ in list_arguments(args)}
        for path, atom, value in self._list_things(args):
            own = [(one.names, one.knowledge) for one in self._list_own(path)]
            sources = (names for names, known in (*self._sources, *own) if known.hold(atom))
            found = {name for names in sources for name in names}
            if self._find_place(path, atom, value):  # what a suspect names is not the model's
                found = (found - {MODEL}) | {FOREIGN}
            origins[path].append(sorted(found or {"" if self._is_known(path, atom) else MODEL}))
        for one in self.find_confidential(args):
            origins[one["path"]].append([CONFIDENTIAL])
        return origins

    def find_confidential(self, args: Mapping[str, Any]) -> list[ForeignValue]:
        """The values in these arguments that stand in a confidential result, and lines of it.

        What the user or the operator said themselves is none, and what is too short to tell.
        """
        own = Knowledge([*self.words, *self.operator])
        found: dict[tuple[str, str], ForeignValue] = {}
        for one in reversed([one for one in self.readings if one.confidential]):
            told = Knowledge(one.parts)
            for path, value in list_arguments(args):
                text = fold_text(str(value))
                parts = [part for part in one.parts if stands_whole(fold_text(part), text)]
                for thing in (str(value), *parts, *list_atoms(value)):
                    least = _LEAST_FIGURE if ADDRESS.search(thing) else _LEAST_WORD
                    if len(thing) >= least and told.hold(thing) and not own.hold(thing):
                        found.setdefault((path, thing), ForeignValue(
                            path=path, value=thing, tool=one.tool, line=0, quote="",
                            confidential=True,
                        ))  # fmt: skip
        return [*found.values()]
