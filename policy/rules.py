"""A company's policy as tables: which change is allowed, asked about or forbidden, and why. Pure.

Each `Section` is one table; loading proves that each of its cells belongs to exactly one row. The
facts that decide come from reading tools (`Rules.facts`), never from a model's words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Final, Literal

from ..text.sentences import ENGLISH, LANGUAGE, say
from .conditions import Condition, Dimension, Piece, Value, join_pieces
from .facts import Fact, KnownFacts, Source, UnreadFact, is_same_id

Verdict = Literal["allowed", "asks", "forbidden"]
VERDICTS: Final[tuple[Verdict, ...]] = ("allowed", "asks", "forbidden")

_MOST_STEPS: Final = 200_000
_SHOWN_PROBLEMS: Final = 5

Texts = Mapping[str, str]
"""Language to text."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: where all of its conditions fit, its verdict holds; `article` says so to people."""

    id: str
    verdict: Verdict
    when: Mapping[str, Condition] = field(default_factory=dict)
    title: Texts = field(default_factory=dict)
    article: Texts = field(default_factory=dict)

    def fits(self, values: Mapping[str, Value]) -> bool:
        """Whether it speaks of these values."""
        return all(condition.fits(values[name]) for name, condition in self.when.items())


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Values that no row tells apart: a sample of them by dimension, and all in words."""

    values: Mapping[str, Value]
    words: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """One table: its rows, and the dimensions that they speak of."""

    name: str
    rows: tuple[Row, ...]
    dimensions: tuple[Dimension, ...]

    def find_row(self, values: Mapping[str, Value]) -> Row | None:
        """The row for a value of each dimension; loading has proven that there is just one."""
        fitting = [row for row in self.rows if row.fits(values)]
        return fitting[0] if len(fitting) == 1 else None

    def cut_pieces(self) -> dict[str, list[Piece]]:
        """The values of each dimension, cut where a row begins or ends."""
        return {
            one.name: one.cut_pieces(self._list_conditions(one.name)) for one in self.dimensions
        }

    def list_boundaries(self) -> dict[str, list[Value]]:
        """By dimension every word, and every number at which a row turns, with its neighbours."""
        return {
            one.name: one.list_boundaries(self._list_conditions(one.name))
            for one in self.dimensions
        }

    def _list_conditions(self, name: str) -> list[Condition]:
        return [row.when[name] for row in self.rows if name in row.when]

    def list_cells(self) -> Iterator[Cell]:
        """Every cell: one piece of each dimension."""
        pieces = self.cut_pieces()
        for chosen in product(*pieces.values()):
            cell = dict(zip(pieces, chosen, strict=True))
            yield Cell(values={n: p.sample for n, p in cell.items()}, words=_describe_cell(cell))

    def find_problems(self) -> list[str]:
        """Cells without a row or with several, and rows without a cell; the first few."""
        pieces, found = self.cut_pieces(), []
        for row in self.rows:
            for name, condition in row.when.items():
                if not any(condition.fits(piece.sample) for piece in pieces[name]):
                    found.append(f"row {row.id!r} can never apply: no {name} is {condition}")
        walk = _Walk(pieces)
        for problem in walk.find_gaps([*self.rows], [*pieces], {}):
            found.append(problem)
            if len(found) >= _SHOWN_PROBLEMS:
                break
        return found


@dataclass
class _Walk:
    """Goes through the cells; where no row left asks for a dimension, it is not cut."""

    pieces: Mapping[str, Sequence[Piece]]
    steps: int = 0

    def find_gaps(
        self, rows: Sequence[Row], names: Sequence[str], cell: dict[str, Piece]
    ) -> Iterator[str]:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            yield "it has too many cells to be proven: split it into two policies"
            return
        asked = [name for name in names if any(name in row.when for row in rows)]
        if rows and asked:
            for fitting, piece in self._split_rows(rows, asked[0]):
                yield from self.find_gaps(fitting, asked[1:], {**cell, asked[0]: piece})
                if self.steps > _MOST_STEPS:
                    return
        elif not rows:
            yield f"gap: no row for {_describe_cell(cell)}"
        elif len(rows) > 1:
            named = " and ".join(repr(row.id) for row in rows)
            yield f"overlap: rows {named} both apply to {_describe_cell(cell)}"

    def _split_rows(self, rows: Sequence[Row], name: str) -> list[tuple[list[Row], Piece]]:
        """Rows that may fit together, with the values of a dimension for which it is these."""
        parted: dict[tuple[str, ...], tuple[list[Row], list[Piece]]] = {}
        for piece in self.pieces[name]:
            fitting = [row for row in rows if _may_fit(row, name, piece)]
            key = tuple(row.id for row in fitting)
            parted.setdefault(key, (fitting, []))[1].append(piece)
        return [(fitting, join_pieces(pieces)) for fitting, pieces in parted.values()]


def _may_fit(row: Row, name: str, piece: Piece) -> bool:
    return name not in row.when or row.when[name].fits(piece.sample)


def _describe_cell(cell: Mapping[str, Piece]) -> str:
    return ", ".join(f"{name}: {piece.words}" for name, piece in cell.items()) or "anything"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How a customer is verified: a tool whose answer says that it is so, and who it is."""

    tool: str
    confirmed: str
    customer: str
    tries: int


@dataclass(frozen=True, kw_only=True)
class GovernedTool:
    """What a table says of one tool.

    Attributes:
        name: The tool, as its server calls it; `server/tool` where two servers have it.
        section: The table that decides; None where `verdict` does.
        verdict: For every call, where no table decides.
        reads: It changes nothing, whatever it declares.
        identity: Nothing without a verified customer.
        consent: An allowed call is put to the customer first, with its exact details.
        customer: The argument that must be the verified customer; "" where there is none. One that
            is `optional` may be left out, or empty.
        facts: Every fact that must be read, those that others are asked with first.
        arguments: What a call may be given; None: anything, of a tool that reads.
    """

    name: str
    section: str | None = None
    verdict: Verdict = "allowed"
    reads: bool = False
    identity: bool = True
    consent: bool = True
    customer: str = ""
    optional: bool = False
    facts: tuple[str, ...] = ()
    arguments: frozenset[str] | None = None
    article: Texts = field(default_factory=dict)

    @property
    def is_counted(self) -> bool:
        """Whether it is a change of which a turn may make one."""
        return not self.reads and (self.consent or self.verdict != "allowed")


@dataclass(frozen=True)
class Ruling:
    """What a table says of one call, by which row, and in which words; "" where no row did.

    `consent`: the customer must agree to exactly this first.
    """

    verdict: Verdict
    row: str = ""
    words: str = ""
    consent: bool = False


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The policy of one company: its tables, the tools that they govern, and where facts are read.

    Attributes:
        name: Of the company or the policy.
        identity: How a customer is verified; None where nobody is.
        facts: Where facts are read, by name.
        dimensions: What decides, by name, and where each value is taken from.
        tools: What is said of each tool.
        sections: The tables.
        reads: Tools that the file does not name, and that declare to change nothing, may run.
    """

    name: str = ""
    identity: Identity | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    dimensions: Mapping[str, tuple[Dimension, Source]] = field(default_factory=dict)
    tools: Mapping[str, GovernedTool] = field(default_factory=dict)
    sections: Mapping[str, Section] = field(default_factory=dict)
    reads: bool = True

    @property
    def tool_names(self) -> list[str]:
        """Every tool that it needs, or decides about."""
        verifies = [self.identity.tool] if self.identity else []
        return [*dict.fromkeys([*verifies, *(f.tool for f in self.facts.values()), *self.tools])]

    def find_governed(self, original: str, server: str | None) -> GovernedTool | None:
        """What it says of a tool, by the name its server knows it by."""
        return self.tools.get(f"{server}/{original}") or self.tools.get(original)

    def is_verifier(self, original: str, server: str | None) -> bool:
        """Whether the tool is the one that verifies customers."""
        known = self.identity.tool if self.identity else ""
        return known in (original, f"{server}/{original}")

    def find_early_ban(self, tool: GovernedTool, known: KnownFacts) -> Ruling | None:
        """What forbids a call before any fact is read; None where nothing does."""
        given = set(known.call)
        if tool.arguments is not None and (strange := sorted(given - tool.arguments)):
            return _forbid("policy_argument", argument=strange[0], tool=tool.name)
        if tool.identity and known.customer is None:
            return _forbid("policy_identity", tool=self.identity.tool if self.identity else "")
        told = known.call.get(tool.customer)
        needed = tool.customer and not (tool.optional and told in (None, ""))
        if needed and not is_same_id(told, known.customer):
            return _forbid("policy_not_own", what=tool.customer)
        return None

    def rule(self, tool: GovernedTool, known: KnownFacts, now: datetime) -> Ruling:
        """What it says of a call, once the facts are read; what is not readable allows nothing."""
        if (forbidden := self.find_early_ban(tool, known)) is not None:
            return forbidden
        for name in tool.facts:
            fact = known.facts.get(name, UnreadFact("policy_not_read"))
            if isinstance(fact, UnreadFact):
                return _rule_unread(name, fact)
            owner = self.facts[name].owner
            if owner and not is_same_id(fact.get(owner), known.customer):
                return _forbid("policy_not_own", what=name)
        if tool.section is None:
            return _make_ruling(tool, tool.verdict, "", tool.article)
        return self._rule_by_row(tool, self.sections[tool.section], known, now)

    def _rule_by_row(
        self, tool: GovernedTool, section: Section, known: KnownFacts, now: datetime
    ) -> Ruling:
        values: dict[str, Value] = {}
        for dimension in section.dimensions:
            value = self.dimensions[dimension.name][1].read_value(known, now, dimension)
            if isinstance(value, UnreadFact):
                return _rule_unread(dimension.name, value)
            values[dimension.name] = value
        row = section.find_row(values)
        if row is None:  # loading has proven that there is one
            return _rule_unread(section.name, UnreadFact("policy_no_row"))
        return _make_ruling(tool, row.verdict, row.id, row.article)


def _make_ruling(tool: GovernedTool, verdict: Verdict, row: str, article: Texts) -> Ruling:
    words = select_language(article) or say(f"policy_{verdict}", tool=tool.name)
    return Ruling(verdict, row, words, consent=verdict == "allowed" and tool.consent)


def select_language(texts: Texts, language: str = "") -> str:
    """The text in a language, by default the run's; else in English, else in any."""
    for wanted in (language or LANGUAGE.get(), ENGLISH, *texts):
        if texts.get(wanted):
            return texts[wanted]
    return ""


def _rule_unread(what: str, why: UnreadFact) -> Ruling:
    return _forbid("policy_unread", what=what, why=say(why.why, **why.slots))


def _forbid(sentence: str, **slots: object) -> Ruling:
    return Ruling("forbidden", "", say(sentence, **slots))
