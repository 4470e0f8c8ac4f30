"""A policy's YAML file as the fields of a `PolicyTable`; a word that is not known is an error."""

import difflib
from collections.abc import Mapping, Sequence
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Any, Final, cast

from ..state.errors import SettingsError
from ..state.limits import read_file
from .conditions import (
    COMPARED,
    MATCHED,
    YES_NO,
    ConditionError,
    Dimension,
    Interval,
    read_interval,
)
from .facts import Fact, Kind, Source
from .origin_words import CONFIDENTIAL, FOREIGN, ORIGINS, OTHER
from .parts import Part, parse_part
from .paths import CALL, CUSTOMER, How, Path as Place, Term, parse_terms
from .rules import VERDICTS, Figure, GovernedTool, Identity, Label, Row, Section, Verdict

_ROOTS: Final = frozenset({CALL, CUSTOMER})
_SOURCES: Final[Mapping[str, Kind]] = {
    "is": "value", "compare": "compared", "match": "matched",
    "days since": "days", "hours since": "hours", "origin": "origin",
}  # fmt: skip
_OF_FILES: Final = (
    "name", "timezone", "unlisted", "identity", "facts", "dimensions", "tools", "policies",
)  # fmt: skip
_OF_TOOLS: Final = (
    "policy", "then", "reads", "identity", "consent", "customer", "customer if given", "subject",
    "about", "arguments", "label", "article",
)  # fmt: skip
_FIXED: Final = {"compare": COMPARED, "match": MATCHED}
_NUMBERS: Final[tuple[How, ...]] = ("one", "count", "sum")
_TRUTHS: Final[tuple[How, ...]] = ("one", "each", "any")
_ALWAYS: Final = {
    "days since": "at least 0 and at most 36500",
    "hours since": "at least 0 and at most 876000",
}


def read_rules(path: Path) -> dict[str, Any]:
    """Read a policy and prove it; see `PolicyTable.read`."""
    try:
        text = read_file(path.expanduser(), "rules")
    except OSError as error:
        msg = f"The policy {str(path)!r} cannot be read: {error.strerror or error}."
        raise SettingsError(msg) from error
    except ValueError as error:
        msg = f"The policy {path} is no UTF-8 text: save it as UTF-8."
        raise SettingsError(msg) from error
    return parse_rules(text, str(path))


def parse_rules(text: str, where: str = "text") -> dict[str, Any]:
    """The fields of the table that a YAML text spells; `where` begins each SettingsError."""
    return _Reader(parse_part(text, where)).read_all()


class _Reader:
    """Reads one file, part by part; what a part names must stand before it."""

    def __init__(self, file: Part) -> None:
        file.read_mapping(_OF_FILES)
        self.file = file
        self.facts: dict[str, Fact] = {}
        self.dimensions: dict[str, tuple[Dimension, Source]] = {}
        self.sections: dict[str, Section] = {}
        self.subjects: dict[str, Place] = {}

    def read_all(self) -> dict[str, Any]:
        file = self.file
        zone, identity = (
            file.get_part("timezone").read_zone(),
            self._read_identity(file.get_part("identity")),
        )
        for name, part in file.get_part("facts").read_parts():
            self.facts[name] = self._read_fact(name, part)
        for name, part in file.get_part("dimensions").read_parts():
            self.dimensions[name] = self._read_dimension(name, part, zone)
        for name, part in file.get_part("policies").read_parts():
            self.sections[name] = self._read_section(name, part)
        tools = {
            name: self._read_tool(name, part) for name, part in file.get_part("tools").read_parts()
        }
        if not tools:
            file.get_part("tools").raise_error("name the tools that the policy decides about")
        self._check_all_used(tools)
        reads = file.get_part("unlisted").read_choice(("reads", "forbidden"), "reads") == "reads"
        return {
            "name": file.get_part("name").read_text(""), "identity": identity,
            "facts": self.facts, "dimensions": self.dimensions, "tools": tools,
            "sections": self.sections, "reads": reads,
        }  # fmt: skip

    def _check_all_used(self, tools: Mapping[str, GovernedTool]) -> None:
        used = {tool.section for tool in tools.values()}
        for name in self.sections:
            if name not in used:
                self.file.get_part("policies").get_part(name).raise_error(
                    "no tool is decided by it: name it there"
                )
        for tool in tools.values():
            if self.file.get_part("identity").said is None and (tool.identity or tool.customer):
                self.file.get_part("tools").get_part(tool.name).raise_error(
                    "it needs a verified customer, but the file has no identity"
                )

    def _read_identity(self, part: Part) -> Identity | None:
        if part.said is None:
            return None
        part.read_mapping(("tool", "confirmed", "customer", "tries", "subject", "minutes"))
        subject = part.get_part("subject")
        return Identity(
            tools=tuple(part.get_part("tool").read_texts()),
            confirmed=part.get_part("confirmed").read_text(),
            customer=part.get_part("customer").read_text(),
            tries=part.get_part("tries").read_number(5),
            subject=() if subject.said is None else tuple(subject.read_texts()),
            lasts=timedelta(minutes=part.get_part("minutes").read_number(30)),
        )

    def _read_fact(self, name: str, part: Part) -> Fact:
        part.read_mapping(("tool", "ask", "owner", "same"))
        if name in _ROOTS:
            part.raise_error(f"{name!r} has a meaning of its own: give the fact another name")
        asked = part.get_part("ask").read_parts()
        ask = {key: self._read_terms(said, ("one", "each"))[0] for key, said in asked}
        repeated = {
            key: said.read_choice([*ask]) for key, said in part.get_part("same").read_parts()
        }
        if lists := [key for key in ask if ask[key].how == "each" and key not in repeated.values()]:
            part.get_part("same").raise_error(
                f"say which field of the answer repeats the list {lists[0]!r}, one for one"
            )
        return Fact(
            name=name,
            tool=part.get_part("tool").read_text(),
            ask=ask,
            owner=part.get_part("owner").read_text(""),
            same=repeated,
        )

    def _check_place(self, part: Part, path: Place) -> None:
        """A path is such as `order.status`, `call.amount`, or `customer`."""
        root_alone = (path[0] == CUSTOMER) == (len(path) == 1)
        if not all(path) or path[0] not in _ROOTS | self.facts.keys() or not root_alone:
            known = ", ".join(f"{fact}.…" for fact in (CALL, *self.facts))
            part.raise_error(
                f"{'.'.join(path)!r} leads nowhere: begin with {known}, or write {CUSTOMER}"
            )

    def _read_terms(
        self, part: Part, hows: Sequence[How], *, words: bool = False
    ) -> tuple[Term, ...]:
        """What is read: `order.status`, or `order.total - 2 * sum(order.items.price)`."""
        terms = parse_terms(part.read_text())
        if not terms:
            part.raise_error(
                "write a path, or each, any, count or sum of one, such as sum(order.items.price);"
                " or several with + or - and spaces between them"
            )
        for term in terms:
            self._check_place(part, term.path)
            if term.how not in hows:
                part.raise_error(f"{term.how}(…) says nothing here")
            if term.word and (term.how == "sum" or not words):
                part.raise_error(f"'={term.word}' says nothing here")
        if hows != _NUMBERS and (len(terms) > 1 or terms[0].factor != 1):
            part.raise_error("only numbers can be added up")
        return tuple(terms)

    def _read_dimension(self, name: str, part: Part, zone: tzinfo) -> tuple[Dimension, Source]:
        part.read_mapping(
            (*_SOURCES, "with", "values", "number", "whole number", "if empty", "label", "words")
        )
        sources = [key for key in _SOURCES if part.get_part(key).said is not None]
        if len(sources) != 1:
            part.raise_error(f"say where it is read by one of: {', '.join(_SOURCES)}")
        (key,) = sources
        for more, fits in (("values", key in ("is", "origin")), ("with", key in _FIXED)):
            if not fits and part.get_part(more).said is not None:
                part.get_part(more).raise_error(f"it says nothing beside {key!r}")
        numbers, whole = self._read_numbers(part, key)
        named, values = part.get_part("values"), tuple(_FIXED.get(key, ()))
        if named.said is not None or (key == "is" and numbers is None):
            values = tuple(named.read_texts())
        if key == "origin":
            values = (*ORIGINS, *values, FOREIGN, CONFIDENTIAL, OTHER)
        source = self._read_source(part, key, zone, values, counts=numbers is not None)
        empty = part.get_part("if empty").read_text("")
        words = [*values, *([empty] if empty else [])]
        if len(set(words)) < len(words):
            part.raise_error("a value stands twice: keep one")
        told = {word: said.read_languages() for word, said in part.get_part("words").read_parts()}
        if strange := sorted(told.keys() - set(words)):
            part.get_part("words").raise_error(
                f"{strange[0]!r} is none of its values: {', '.join(words)}"
            )
        return Dimension(
            name=name, values=values, numbers=numbers, whole=whole, empty=empty,
            label=part.get_part("label").read_languages(), told=told,
        ), source  # fmt: skip

    def _read_source(
        self, part: Part, key: str, zone: tzinfo, values: Sequence[str], *, counts: bool
    ) -> Source:
        hows: tuple[How, ...] = ("one",)
        if key == "compare" or (key == "is" and counts):
            hows = _NUMBERS
        elif key == "match" or tuple(values) == YES_NO:
            hows = _TRUTHS
        terms = self._read_terms(part.get_part(key), hows, words=key != "match")
        against = self._read_terms(part.get_part("with"), hows) if key in _FIXED else ()
        if key == "origin" and (terms[0].path[0] != CALL or terms[0].word):
            part.get_part(key).raise_error(f"write an argument such as {CALL}.to")
        if key == "match" and (terms[0].how, against[0].how) == ("any", "each"):
            part.raise_error("any(…) with each(…) says nothing: turn them round")
        return Source(kind=_SOURCES[key], terms=terms, against=against, zone=zone)

    def _read_numbers(self, part: Part, source: str) -> tuple[Interval | None, bool]:
        """The numbers that it can be, and whether whole ones are meant."""
        given = [key for key in ("number", "whole number") if part.get_part(key).said is not None]
        wordy = source in ("origin", *_FIXED)
        if not given and (wordy or source == "is"):
            return None, False
        if wordy or len(given) > 1 or (given and part.get_part("values").said is not None):
            part.raise_error(
                "say either values, number or whole number, and no number of compare, match, origin"
            )
        whole = source == "days since" or given == ["whole number"]
        place = part.get_part(given[0]) if given else part
        told = place.read_text() if given else _ALWAYS[source]
        try:
            numbers = read_interval(told)
        except ConditionError as error:
            place.raise_error(str(error))
        if numbers.low is None or numbers.high is None:
            place.raise_error(
                "say the least and the greatest number: `at least 0 and at most 10000`"
            )
        return numbers, whole

    def _read_section(self, name: str, part: Part) -> Section:
        part.read_mapping(("title", "subject", "rows"))
        self.subjects[name] = self._read_subject(part.get_part("subject"))
        said = part.get_part("rows").said
        if not isinstance(said, list) or not said:
            part.get_part("rows").raise_error(
                "here stands a list of rows, each beginning with `- id:`"
            )
        rows = [
            self._read_row(Part(f"{part.where}, row {i}", one)) for i, one in enumerate(said, 1)
        ]
        ids = [row.id for row in rows]
        known = [row.id for section in self.sections.values() for row in section.rows]
        for one in ids:
            if ids.count(one) + known.count(one) > 1:
                part.raise_error(f"two rows have the id {one!r}: rename one")
        named = [n for n in self.dimensions if any(n in row.when for row in rows)]
        section = Section(
            name=name, rows=tuple(rows), dimensions=tuple(self.dimensions[n][0] for n in named)
        )
        if problems := section.find_problems():
            part.raise_error("; ".join(problems))
        return section

    def _read_row(self, part: Part) -> Row:
        part.read_mapping(("id", "when", "then", "quoted", "title", "article"))
        id_ = part.get_part("id").read_text()
        part = Part(f"{part.where.rpartition(', ')[0]}, row {id_!r}", part.said)
        when = {}
        for name, said in part.get_part("when").read_parts():
            if name not in self.dimensions:
                near = difflib.get_close_matches(name, self.dimensions, n=1)
                meant = f"did you mean {near[0]!r}?" if near else "declare it under dimensions"
                said.raise_error(f"there is no dimension {name!r}; {meant}")
            try:
                told = said.read_texts()
                when[name] = self.dimensions[name][0].read_condition(told)
            except ConditionError as error:
                said.raise_error(str(error))
        verdict = cast("Verdict", part.get_part("then").read_choice(VERDICTS))
        title = part.get_part("title").read_languages()
        article = part.get_part("article").read_languages()
        if not article:
            part.get_part("article").raise_error("say in words what holds: people are told it")
        quoted = part.get_part("quoted").read_boolean(default=False)
        return Row(id=id_, verdict=verdict, when=when, title=title, article=article, quoted=quoted)

    def _read_tool(self, name: str, part: Part) -> GovernedTool:
        part.read_mapping(_OF_TOOLS)
        section = part.get_part("policy").read_text("") or None
        if section is not None and section not in self.sections:
            part.get_part("policy").raise_error(f"there is no policy {section!r}")
        if section is not None and part.get_part("then").said is not None:
            part.raise_error("either a policy decides, or `then` does: keep one")
        reads = part.get_part("reads").read_boolean(default=False)
        verdict = cast("Verdict", part.get_part("then").read_choice(VERDICTS, "allowed"))
        if section is None and not reads and part.get_part("then").said is None:
            part.raise_error(
                "say by which `policy` it is decided, or `then: allowed`, asks or forbidden"
            )
        optional = part.get_part("customer if given").read_text("")
        customer = part.get_part("customer").read_text("") or optional
        facts = self._read_facts(part, section)
        owned = any(self.facts[fact].owner for fact in facts)
        decides = section is not None or verdict != "forbidden"
        identity = part.get_part("identity").read_boolean(
            default=bool(owned or (customer and not optional) or (decides and not reads))
        )
        subject = self._read_subject(part.get_part("subject")) or self.subjects.get(
            section or "", ()
        )
        if not (subject or reads):
            subject = (CUSTOMER,) if identity else self._find_asked_place(facts)
        if subject == (CUSTOMER,) and not identity:
            part.get_part("subject").raise_error("it needs no verified customer: keep one of both")
        used = {customer, *subject[1:]} - {""}
        return GovernedTool(
            name=name, section=section, verdict=verdict, reads=reads, customer=customer,
            optional=bool(optional), identity=identity, subject=subject, facts=facts,
            consent=part.get_part("consent").read_boolean(default=not reads),
            arguments=self._read_arguments(part, facts, section, used, named=decides and not reads),
            article=part.get_part("article").read_languages(),
            label=part.get_part("label").read_languages(), labels=_read_labels(part),
        )  # fmt: skip

    def _find_asked_place(self, facts: Sequence[str]) -> Place:
        """The argument that the first of these facts is asked with."""
        terms = [term for fact in facts for term in self.facts[fact].ask.values()]
        paths = [term.path for term in terms if term.how == "one" and term.path[0] == CALL]
        return next((path for path in paths if len(path) == len((CALL, "argument"))), ())

    def _read_subject(self, part: Part) -> Place:
        """Known before any fact is read: facts are read once nobody else changes it."""
        if part.said is None:
            return ()
        path = tuple(part.read_text().split("."))
        self._check_place(part, path)
        if path[0] not in _ROOTS or len(path) > len((CALL, "argument")):
            part.raise_error(f"write an argument such as {CALL}.order_id, or {CUSTOMER}")
        return path

    def _read_facts(self, part: Part, section: str | None) -> tuple[str, ...]:
        """The facts that a call of the tool needs, in the order in which they can be read."""
        told = part.get_part("about")
        needed = set(told.read_texts()) if told.said is not None else set()
        if strange := sorted(needed - self.facts.keys()):
            told.raise_error(f"there is no fact {strange[0]!r}")
        if section is not None:
            for dimension in self.sections[section].dimensions:
                needed.update(self.dimensions[dimension.name][1].roots)
        for name in reversed([*self.facts]):  # one asks only with those before it
            if name in needed:
                asked = {term.path[0] for term in self.facts[name].ask.values()}
                needed |= asked & self.facts.keys()
        return tuple(name for name in self.facts if name in needed)

    def _read_arguments(
        self, part: Part, facts: Sequence[str], section: str | None, used: set[str], *, named: bool
    ) -> frozenset[str] | None:
        """What a call may be given. What decides must be among it, and a change names all."""
        told = part.get_part("arguments")
        terms = [term for fact in facts for term in self.facts[fact].ask.values()]
        if section is not None:
            for dimension in self.sections[section].dimensions:
                source = self.dimensions[dimension.name][1]
                terms += [*source.terms, *source.against]
        used = used | {term.path[1] for term in terms if term.path[0] == CALL}
        if told.said is None:
            return frozenset(used) if named else None
        given = frozenset(told.said if isinstance(told.said, Mapping) else told.read_texts())
        if missing := sorted(used - given):
            told.raise_error(f"{missing[0]!r} decides, but is not among the arguments: add it")
        return given


def _read_labels(tool: Part) -> dict[str, Label]:
    """What people call the arguments, where they are more than a list of names."""
    arguments, labels = tool.get_part("arguments"), {}
    for name, part in arguments.read_parts() if isinstance(arguments.said, Mapping) else ():
        part.read_mapping(("label", "money", "date"))
        unit = part.get_part("money").read_text("")
        root, dot, other = unit.partition(".")
        if dot and (root != CALL or other not in arguments.said):
            part.get_part("money").raise_error("write a currency such as EUR, or call.currency")
        dated = part.get_part("date").read_boolean(default=False)
        if unit and dated:
            part.raise_error("it is either money or a date: keep one")
        figure: Figure = "money" if unit else "date" if dated else "text"
        label = part.get_part("label").read_languages()
        labels[name] = Label(label=label, figure=figure, unit=unit)
    return labels
