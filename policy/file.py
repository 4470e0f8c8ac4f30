"""A policy's YAML file, read into a `Rules`: every word of it is known, or is an error."""

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..state.errors import SettingsError
from .conditions import COMPARED, ConditionError, Dimension, Interval, read_interval
from .facts import CALL, CUSTOMER, Fact, Kind, Path as Place, Source
from .parts import Part, part_of
from .rules import VERDICTS, Governed, Identity, Row, Rules, Section, Verdict

_ROOTS: Final = frozenset({CALL, CUSTOMER})
_SOURCES: Final[Mapping[str, Kind]] = {
    "is": "value", "compare": "compared", "days since": "days", "hours since": "hours",
}  # fmt: skip
_OF_TOOLS: Final = (
    "policy", "then", "reads", "identity", "consent", "customer", "customer if given", "about",
    "arguments", "article",
)  # fmt: skip
_ALWAYS: Final = {
    "days since": "at least 0 and at most 36500",
    "hours since": "at least 0 and at most 876000",
}


def read_rules(path: Path) -> Rules:
    """Read a policy and prove it; see `PolicyTable.read`."""
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        msg = f"The policy {str(path)!r} cannot be read: {error.strerror or error}."
        raise SettingsError(msg) from error
    except ValueError as error:
        msg = f"The policy {path} is no UTF-8 text: save it as UTF-8."
        raise SettingsError(msg) from error
    return rules_of(text, str(path))


def rules_of(text: str, where: str = "text") -> Rules:
    """The policy that a YAML text spells; `where` begins each error.

    Raises:
        SettingsError: See `PolicyTable.read`.
    """
    return _Reader(part_of(text, where)).rules()


class _Reader:
    """Reads one file, part by part; what a part names must stand before it."""

    def __init__(self, file: Part) -> None:
        known = (
            "name",
            "timezone",
            "unlisted",
            "identity",
            "facts",
            "dimensions",
            "tools",
            "policies",
        )
        file.mapping(known)
        self.file = file
        self.facts: dict[str, Fact] = {}
        self.dimensions: dict[str, tuple[Dimension, Source]] = {}
        self.sections: dict[str, Section] = {}

    def rules(self) -> Rules:
        file = self.file
        zone, identity = self._zone(), self._identity(file.at("identity"))
        for name, part in file.at("facts").parts():
            self.facts[name] = self._fact(name, part)
        for name, part in file.at("dimensions").parts():
            self.dimensions[name] = self._dimension(name, part, zone)
        for name, part in file.at("policies").parts():
            self.sections[name] = self._section(name, part)
        tools = {name: self._tool(name, part) for name, part in file.at("tools").parts()}
        if not tools:
            file.at("tools").wrong("name the tools that the policy decides about")
        self._all_used(tools)
        return Rules(
            name=file.at("name").text(""), identity=identity, facts=self.facts,
            dimensions=self.dimensions, tools=tools, sections=self.sections,
            reads=file.at("unlisted").one_of(("reads", "forbidden"), "reads") == "reads",
        )  # fmt: skip

    def _all_used(self, tools: Mapping[str, Governed]) -> None:
        used = {tool.section for tool in tools.values()}
        for name in self.sections:
            if name not in used:
                self.file.at("policies").at(name).wrong("no tool is decided by it: name it there")
        for tool in tools.values():
            if self.file.at("identity").said is None and (tool.identity or tool.customer):
                self.file.at("tools").at(tool.name).wrong(
                    "it needs a verified customer, but the file has no identity"
                )

    def _zone(self) -> tzinfo:
        part = self.file.at("timezone")
        if part.said is None:
            return UTC
        try:
            return ZoneInfo(part.text())
        except (ZoneInfoNotFoundError, ValueError, OSError):
            part.wrong(f"{part.said!r} is no time zone: write one such as Europe/Berlin")

    def _identity(self, part: Part) -> Identity | None:
        if part.said is None:
            return None
        part.mapping(("tool", "confirmed", "customer", "tries"))
        tries = part.at("tries").text("5")
        if not (tries.isdecimal() and int(tries)):
            part.at("tries").wrong("here stands a whole number from 1 on")
        return Identity(
            tool=part.at("tool").text(), confirmed=part.at("confirmed").text(),
            customer=part.at("customer").text(), tries=int(tries),
        )  # fmt: skip

    def _fact(self, name: str, part: Part) -> Fact:
        part.mapping(("tool", "ask", "owner", "same"))
        if name in _ROOTS:
            part.wrong(f"{name!r} has a meaning of its own: give the fact another name")
        ask = {key: self._place(said, said.text()) for key, said in part.at("ask").parts()}
        repeated = {key: said.one_of([*ask]) for key, said in part.at("same").parts()}
        return Fact(
            name=name, tool=part.at("tool").text(), ask=ask, owner=part.at("owner").text(""),
            same=repeated,
        )  # fmt: skip

    def _place(self, part: Part, text: str) -> Place:
        """A path such as `order.status`, `call.amount`, or `customer`."""
        path = tuple(text.split("."))
        root_alone = (path[0] == CUSTOMER) == (len(path) == 1)
        if not all(path) or path[0] not in _ROOTS | self.facts.keys() or not root_alone:
            known = ", ".join(f"{fact}.…" for fact in (CALL, *self.facts))
            part.wrong(f"{text!r} leads nowhere: begin with {known}, or write {CUSTOMER}")
        return path

    def _terms(self, part: Part) -> tuple[tuple[int, Place], ...]:
        """Paths that are added up: `order.total - order.refunded`."""
        words = part.text().split()
        signs = {"+": 1, "-": -1}
        if len(words) % 2 == 0 or any(sign not in signs for sign in words[1::2]):
            part.wrong("write a path, or several with + or - and spaces between them")
        given = [1, *(signs[sign] for sign in words[1::2])]
        return tuple(
            (sign, self._place(part, path)) for sign, path in zip(given, words[::2], strict=True)
        )

    def _dimension(self, name: str, part: Part, zone: tzinfo) -> tuple[Dimension, Source]:
        part.mapping(
            (*_SOURCES, "with", "values", "number", "whole number", "if empty", "label", "words")
        )
        sources = [key for key in _SOURCES if part.at(key).said is not None]
        if len(sources) != 1:
            part.wrong(f"say where it is read by one of: {', '.join(_SOURCES)}")
        (key,) = sources
        numbers, whole = self._numbers(part, key)
        terms = self._terms(part.at(key))
        if len(terms) > 1 and not (key == "compare" or (key == "is" and numbers)):
            part.at(key).wrong("only numbers can be added up")
        against = self._terms(part.at("with")) if key == "compare" else ()
        source = Source(kind=_SOURCES[key], terms=terms, against=against, zone=zone)
        values: tuple[str, ...] = COMPARED if key == "compare" else ()
        if key == "is" and numbers is None:
            values = tuple(part.at("values").texts())
        empty = part.at("if empty").text("")
        words = [*values, *([empty] if empty else [])]
        if len(set(words)) < len(words):
            part.wrong("a value stands twice: keep one")
        told = {word: said.languages() for word, said in part.at("words").parts()}
        if strange := sorted(told.keys() - set(words)):
            part.at("words").wrong(f"{strange[0]!r} is none of its values: {', '.join(words)}")
        return Dimension(
            name=name, values=values, numbers=numbers, whole=whole, empty=empty,
            label=part.at("label").languages(), told=told,
        ), source  # fmt: skip

    def _numbers(self, part: Part, source: str) -> tuple[Interval | None, bool]:
        """The numbers that it can be, and whether whole ones are meant."""
        given = [key for key in ("number", "whole number") if part.at(key).said is not None]
        if source in ("is", "compare") and not given:
            return None, False
        if source == "compare" or len(given) > 1 or (given and part.at("values").said is not None):
            part.wrong("say either values, number or whole number, and none of them with compare")
        whole = source == "days since" or given == ["whole number"]
        place = part.at(given[0]) if given else part
        told = place.text() if given else _ALWAYS[source]
        try:
            numbers = read_interval(told)
        except ConditionError as error:
            place.wrong(str(error))
        if numbers.low is None or numbers.high is None:
            place.wrong("say the least and the greatest number: `at least 0 and at most 10000`")
        return numbers, whole

    def _section(self, name: str, part: Part) -> Section:
        part.mapping(("title", "rows"))
        said = part.at("rows").said
        if not isinstance(said, list) or not said:
            part.at("rows").wrong("here stands a list of rows, each beginning with `- id:`")
        rows = [self._row(Part(f"{part.where}, row {i}", one)) for i, one in enumerate(said, 1)]
        ids = [row.id for row in rows]
        known = [row.id for section in self.sections.values() for row in section.rows]
        for one in ids:
            if ids.count(one) + known.count(one) > 1:
                part.wrong(f"two rows have the id {one!r}: rename one")
        named = [n for n in self.dimensions if any(n in row.when for row in rows)]
        section = Section(
            name=name, rows=tuple(rows), dimensions=tuple(self.dimensions[n][0] for n in named)
        )
        if problems := section.problems():
            part.wrong("; ".join(problems))
        return section

    def _row(self, part: Part) -> Row:
        part.mapping(("id", "when", "then", "title", "article"))
        id_ = part.at("id").text()
        part = Part(f"{part.where.rpartition(', ')[0]}, row {id_!r}", part.said)
        when = {}
        for name, said in part.at("when").parts():
            if name not in self.dimensions:
                near = difflib.get_close_matches(name, self.dimensions, n=1)
                meant = f"did you mean {near[0]!r}?" if near else "declare it under dimensions"
                said.wrong(f"there is no dimension {name!r}; {meant}")
            try:
                told = said.texts()
                when[name] = self.dimensions[name][0].condition(told)
            except ConditionError as error:
                said.wrong(str(error))
        verdict = cast("Verdict", part.at("then").one_of(VERDICTS))
        title, article = part.at("title").languages(), part.at("article").languages()
        if not article:
            part.at("article").wrong("say in words what holds: people are told it")
        return Row(id=id_, verdict=verdict, when=when, title=title, article=article)

    def _tool(self, name: str, part: Part) -> Governed:
        part.mapping(_OF_TOOLS)
        section = part.at("policy").text("") or None
        if section is not None and section not in self.sections:
            part.at("policy").wrong(f"there is no policy {section!r}")
        if section is not None and part.at("then").said is not None:
            part.wrong("either a policy decides, or `then` does: keep one")
        reads = part.at("reads").boolean(default=False)
        verdict = cast("Verdict", part.at("then").one_of(VERDICTS, "allowed"))
        if section is None and not reads and part.at("then").said is None:
            part.wrong("say by which `policy` it is decided, or `then: allowed`, asks or forbidden")
        optional = part.at("customer if given").text("")
        customer, facts = part.at("customer").text("") or optional, self._facts(part, section)
        arguments = self._arguments(part, facts, section, customer, reads=reads)
        owned = any(self.facts[fact].owner for fact in facts)
        decides = section is not None or verdict != "forbidden"
        return Governed(
            name=name, section=section, verdict=verdict, reads=reads, customer=customer,
            optional=bool(optional), identity=part.at("identity").boolean(
                default=bool(owned or (customer and not optional) or (decides and not reads))
            ),
            consent=part.at("consent").boolean(default=not reads),
            facts=facts, arguments=arguments, article=part.at("article").languages(),
        )  # fmt: skip

    def _facts(self, part: Part, section: str | None) -> tuple[str, ...]:
        """The facts that a call of the tool needs, in the order in which they can be read."""
        told = part.at("about")
        needed = set(told.texts()) if told.said is not None else set()
        if strange := sorted(needed - self.facts.keys()):
            told.wrong(f"there is no fact {strange[0]!r}")
        if section is not None:
            for dimension in self.sections[section].dimensions:
                needed.update(self.dimensions[dimension.name][1].roots)
        for name in reversed([*self.facts]):  # one asks only with those before it
            if name in needed:
                needed.update(p[0] for p in self.facts[name].ask.values() if p[0] in self.facts)
        return tuple(name for name in self.facts if name in needed)

    def _arguments(
        self, part: Part, facts: Sequence[str], section: str | None, customer: str, *, reads: bool
    ) -> frozenset[str] | None:
        """What a call may be given. What decides must be among it, and a change names all."""
        told = part.at("arguments")
        used = {customer} if customer else set()
        paths = [path for fact in facts for path in self.facts[fact].ask.values()]
        if section is not None:
            for dimension in self.sections[section].dimensions:
                source = self.dimensions[dimension.name][1]
                paths += [path for _, path in (*source.terms, *source.against)]
        used |= {path[1] for path in paths if path[0] == CALL}
        if told.said is None:
            return None if reads else frozenset(used)
        given = frozenset(told.texts())
        if missing := sorted(used - given):
            told.wrong(f"{missing[0]!r} decides, but is not among the arguments: add it")
        return given
