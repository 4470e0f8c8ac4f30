"""The rows of a policy, each cell of which has exactly one row, and the tools they govern. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, product
from typing import Final, Literal

from ..text.sentences import ENGLISH, LANGUAGE
from .conditions import Condition, Dimension, Piece, Value, join_pieces
from .paths import Path

Verdict = Literal["allowed", "asks", "forbidden"]
VERDICTS: Final[tuple[Verdict, ...]] = ("allowed", "asks", "forbidden")

_MOST_STEPS: Final = 200_000
_SHOWN_PROBLEMS: Final = 5

Texts = Mapping[str, str]
"""Language to text."""
Figure = Literal["text", "money", "date"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: where all of its conditions fit, its verdict holds; `article` says so to people.

    Of what it allows, `quoted` lets words of the customer count for a yes that no button is.
    """

    id: str
    verdict: Verdict
    when: Mapping[str, Condition] = field(default_factory=dict)
    title: Texts = field(default_factory=dict)
    article: Texts = field(default_factory=dict)
    quoted: bool = False

    def fits(self, values: Mapping[str, Value]) -> bool:
        """Whether it speaks of these values."""
        return all(condition.fits(values[name]) for name, condition in self.when.items())


@dataclass(frozen=True, kw_only=True)
class Section:
    """One table: its rows, and the dimensions that they speak of."""

    name: str
    rows: tuple[Row, ...]
    dimensions: tuple[Dimension, ...]

    def find_rows(self, values: Mapping[str, Sequence[Value]]) -> list[Row]:
        """The rows for all of these values, the strictest first; none if a cell has not just one.

        Loading has proven that each has.
        """
        cells = (dict(zip(values, cell, strict=True)) for cell in product(*values.values()))
        found = [[row for row in self.rows if row.fits(cell)] for cell in cells]
        if any(len(rows) != 1 for rows in found):
            return []
        return sorted(chain(*found), key=lambda row: VERDICTS.index(row.verdict), reverse=True)

    def cut_pieces(self) -> dict[str, list[Piece]]:
        """The values of each dimension, cut where a row begins or ends."""
        return {
            one.name: one.cut_pieces(
                row.when[one.name] for row in self.rows if one.name in row.when
            )
            for one in self.dimensions
        }

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
            fitting = [
                row for row in rows if name not in row.when or row.when[name].fits(piece.sample)
            ]
            key = tuple(row.id for row in fitting)
            parted.setdefault(key, (fitting, []))[1].append(piece)
        return [(fitting, join_pieces(pieces)) for fitting, pieces in parted.values()]


def _describe_cell(cell: Mapping[str, Piece]) -> str:
    return ", ".join(f"{name}: {piece.words}" for name, piece in cell.items()) or "anything"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How a customer is verified: a tool whose answer says that it is so, and who it is.

    Attributes:
        tools: Any of them verifies.
        confirmed: The field of an answer that must be true.
        customer: The field that says who it is.
        tries: How often it may fail within a day, for one whom it would verify and in one thread.
        subject: The arguments that say who would be verified; (): the first one of each tool.
        lasts: For how long an answer counts.
    """

    tools: tuple[str, ...]
    confirmed: str
    customer: str
    tries: int
    subject: tuple[str, ...] = ()
    lasts: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True)
class Label:
    """The name of an argument for people, and how its value is written.

    Attributes:
        label: By language; none if the value says enough.
        figure: The format of the value.
        unit: The currency of money, or `call.` and the argument that names it.
    """

    label: Texts = field(default_factory=dict)
    figure: Figure = "text"
    unit: str = ""


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
        subject: What its changes are about, one of which is ruled and made at a time, everywhere:
            the path of an argument, or the customer; () where it is nothing.
        facts: Every fact that must be read, those that others are asked with first.
        arguments: What a call may be given; None: anything, where nothing is changed.
        label: What people call it, by language.
        labels: What people call its arguments, in the order in which they are told.
    """

    name: str
    section: str | None = None
    verdict: Verdict = "allowed"
    reads: bool = False
    identity: bool = True
    consent: bool = True
    customer: str = ""
    optional: bool = False
    subject: Path = ()
    facts: tuple[str, ...] = ()
    arguments: frozenset[str] | None = None
    label: Texts = field(default_factory=dict)
    labels: Mapping[str, Label] = field(default_factory=dict)
    article: Texts = field(default_factory=dict)


@dataclass(frozen=True)
class Ruling:
    """What a table says of one call, by which row, in which words; `consent`: by agreement.

    `quoted`: a yes that the listener quotes is enough. It `lifts` the question about values of
    strangers in these arguments, because a row that allows names their origin.
    """

    verdict: Verdict
    row: str = ""
    words: str = ""
    consent: bool = False
    quoted: bool = False
    lifts: tuple[str, ...] = ()


def select_language(texts: Texts, language: str = "") -> str:
    """The text in a language, by default the run's; else in English, else in any."""
    for wanted in (language or LANGUAGE.get(), ENGLISH, *texts):
        if texts.get(wanted):
            return texts[wanted]
    return ""
