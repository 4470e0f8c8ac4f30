"""A company's policy as tables: what it allows, asks about or forbids; read, ruled by, and told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..text.sentences import ENGLISH, LANGUAGE, match_language, say
from .conditions import Condition, Dimension, Interval, Value
from .facts import Fact, Source
from .labels import Render, describe_call, render_plainly
from .origin_words import RESERVED
from .paths import KnownFacts, UnreadFact, is_same_id
from .rules import GovernedTool, Identity, Row, Ruling, Section, Texts, Verdict, select_language


@dataclass(frozen=True, kw_only=True)
class PolicyTable:
    """A company's policy, read from its file. Pass it to any graph as `policy=`.

    A tool that the file does not name is forbidden, unless it declares to be read-only. Facts that
    decide come from reading tools, never from a model's words.

    Attributes:
        name: Of the company or the policy.
        identity: How a customer is verified; None if nobody is.
        facts: Where facts are read, by name.
        dimensions: The inputs of decisions by name, and where each value is read.
        tools: The rules of each tool.
        sections: The tables.
        reads: Tools that declare to be read-only may run although the file does not name them.
        clock: The tool that tells the time of a ruling, with its zone; None for the machine's
            clock.
    """

    name: str = ""
    identity: Identity | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    dimensions: Mapping[str, tuple[Dimension, Source]] = field(default_factory=dict)
    tools: Mapping[str, GovernedTool] = field(default_factory=dict)
    sections: Mapping[str, Section] = field(default_factory=dict)
    reads: bool = True
    clock: Callable[[], datetime] | None = None

    @classmethod
    def read(
        cls, path: str | Path, *, clock: Callable[[], datetime] | None = None
    ) -> "PolicyTable":
        """Read a policy from its YAML file, and prove it.

        Args:
            path: Of the file.
            clock: Tells the time of each ruling, with its zone; None: the machine's.

        Raises:
            SettingsError: The file cannot be read, says something wrong, or a cell of a table has
                no row or several; the message names the place and what to do.
        """
        from .file import read_rules  # noqa: PLC0415 - YAML is for those who have such files

        return cls(**read_rules(Path(path)), clock=clock)

    def articles(self, language: str = ENGLISH) -> list[dict[str, str]]:
        """The policy for a knowledge base, made of the rows that decide: id, title, text, language.

        Args:
            language: `en` or `zh`; a row that lacks it is told in another one.
        """
        token = LANGUAGE.set(match_language(language, ("en", "zh")))
        try:
            rows = [
                _build_article(self, section, row)
                for section in self.sections.values()
                for row in section.rows
            ]
            tools = [tool for tool in self.tools.values() if tool.article]
            return rows + [
                {
                    "id": tool.name.replace("/", "-"),
                    "title": select_language(tool.label) or tool.name.replace("_", " "),
                    "text": select_language(tool.article),
                    "language": LANGUAGE.get(),
                }
                for tool in tools
            ]
        finally:
            LANGUAGE.reset(token)

    @property
    def tool_names(self) -> list[str]:
        """Every tool that it needs, or decides about."""
        verifies = self.identity.tools if self.identity else ()
        facts = [fact.tool for fact in self.facts.values()]
        traced = [one.values for one, source in self.dimensions.values() if source.argument]
        origins = [word for values in traced for word in values if word not in RESERVED]
        return [*dict.fromkeys([*verifies, *facts, *origins, *self.tools])]

    def find_governed(self, original: str, server: str | None) -> GovernedTool | None:
        """What it says of a tool, by the name its server knows it by."""
        return self.tools.get(f"{server}/{original}") or self.tools.get(original)

    def describe_call(
        self,
        name: str,
        server: str | None,
        args: Mapping[str, Any],
        language: str = "",
        render: Render = render_plainly,
    ) -> str:
        """A call on one line, as people read it: `Refund · order A-1042 · 449.00 EUR`.

        Args:
            name: The tool, as its server calls it.
            server: Its server; None: it is a Python tool.
            args: The call's arguments.
            language: The listener's; by default the run's.
            render: Writes an amount of money, a date or a text in that language.
        """
        return describe_call(self.find_governed(name, server), name, args, language, render)

    def is_verifier(self, original: str, server: str | None) -> bool:
        """Whether the tool is one that verifies customers."""
        known = self.identity.tools if self.identity else ()
        return original in known or f"{server}/{original}" in known

    def find_early_ban(self, tool: GovernedTool, known: KnownFacts) -> Ruling | None:
        """What forbids a call before any fact is read; None where nothing does."""
        given = set(known.call)
        if tool.arguments is not None and (strange := sorted(given - tool.arguments)):
            return _forbid("policy_argument", argument=strange[0], tool=tool.name)
        if tool.identity and known.customer is None:
            named = self.identity.tools if self.identity else ()
            return _forbid("policy_identity", tool=f" {say('policy_or')} ".join(named))
        told = known.call.get(tool.customer)
        needed = tool.customer and not (tool.optional and told in (None, ""))
        if needed and not is_same_id(told, known.customer):
            return _forbid("policy_not_own", what=tool.customer)
        if tool.subject and self.find_subject(tool, known) is None:
            return _rule_unread("subject", UnreadFact("policy_missing"))
        return None

    def tell_time(self) -> datetime:
        """The time of now, with its zone."""
        return self.clock() if self.clock else datetime.now(UTC)

    def find_subject(self, tool: GovernedTool, known: KnownFacts) -> str | int | None:
        """What the call is about, of which one change at a time is ruled and made; else None."""
        found = known.get_path(tool.subject) if tool.subject else None
        return found if is_same_id(found, found) else None

    def rule(self, tool: GovernedTool, known: KnownFacts, now: datetime) -> Ruling:
        """What it says of a call, once the facts are read; what is not readable allows nothing."""
        if (forbidden := self.find_early_ban(tool, known)) is not None:
            return forbidden
        for name in tool.facts:
            fact = known.facts.get(name, UnreadFact("policy_not_read"))
            if isinstance(fact, UnreadFact):
                return _rule_unread(name, fact)
            if not self.facts[name].is_owned(fact, known.customer):
                return _forbid("policy_not_own", what=name)
        if tool.section is None:
            return _make_ruling(tool, tool.verdict, "", tool.article)
        return self._rule_by_row(tool, self.sections[tool.section], known, now)

    def _rule_by_row(
        self, tool: GovernedTool, section: Section, known: KnownFacts, now: datetime
    ) -> Ruling:
        values: dict[str, Sequence[Value]] = {}
        for name, found in self.read_values(section, known, now).items():
            if isinstance(found, UnreadFact):
                return _rule_unread(name, found)
            values[name] = found
        rows = section.find_rows(values)
        if not rows:  # loading has proven that each cell has one
            return _rule_unread(section.name, UnreadFact("policy_no_row"))
        ruling = _make_ruling(tool, rows[0].verdict, rows[0].id, rows[0].article)
        quoted = ruling.consent and all(row.quoted for row in rows)
        return replace(ruling, quoted=quoted, lifts=self._list_lifted(rows))

    def _list_lifted(self, rows: Sequence[Row]) -> tuple[str, ...]:
        """The arguments whose origins all of these rows allow by name."""
        named = [name for name in rows[0].when if all(name in row.when for row in rows)]
        allows = rows[0].verdict == "allowed"
        return tuple(filter(None, (self.dimensions[n][1].argument for n in named if allows)))

    def names_origins(self, original: str, server: str | None) -> bool:
        """Whether the origin of an argument decides about a tool."""
        tool = self.find_governed(original, server)
        named = self.sections[tool.section].dimensions if tool and tool.section else ()
        return any(self.dimensions[one.name][1].argument for one in named)

    def read_values(
        self, section: Section, known: KnownFacts, now: datetime
    ) -> dict[str, Sequence[Value] | UnreadFact]:
        """What decides, by the name of its dimension, or why it cannot be read.

        Only an argument with several origins has several values: its strictest row counts.
        """
        moment = self.clock() if self.clock else now
        return {
            one.name: self.dimensions[one.name][1].read_values(known, moment, one)
            for one in section.dimensions
        }


def _make_ruling(tool: GovernedTool, verdict: Verdict, row: str, article: Texts) -> Ruling:
    words = select_language(article) or say(f"policy_{verdict}", tool=tool.name)
    return Ruling(verdict, row, words, consent=verdict == "allowed" and tool.consent)


def _rule_unread(what: str, why: UnreadFact) -> Ruling:
    return _forbid("policy_unread", what=what, why=say(why.why, **why.slots))


def _forbid(sentence: str, **slots: object) -> Ruling:
    return Ruling("forbidden", "", say(sentence, **slots))


# Told to people.


def _build_article(table: PolicyTable, section: Section, row: Row) -> dict[str, str]:
    conditions = [
        say(
            "policy_if",
            what=select_language(table.dimensions[name][0].label) or name.replace("_", " "),
            is_=_describe_condition(table.dimensions[name][0], condition),
        )
        for name, condition in row.when.items()
    ]
    when = say("policy_when", conditions="\n".join(conditions)) if conditions else ""
    texts = [
        select_language(row.article),
        when or say("policy_always"),
        say(f"policy_then_{row.verdict}"),
    ]
    return {
        "id": row.id,
        "title": select_language(row.title) or f"{section.name}: {row.id}".replace("_", " "),
        "text": "\n\n".join(texts),
        "language": LANGUAGE.get(),
    }


def _describe_condition(dimension: Dimension, condition: Condition) -> str:
    parts = [
        _describe_range(part)
        if isinstance(part, Interval)
        else select_language(dimension.told.get(part, {})) or part
        for part in condition.parts
    ]
    return f" {say('policy_or')} ".join(parts)


def _describe_range(numbers: Interval) -> str:
    low, high = numbers.low, numbers.high
    if low is not None and low == high:
        return f"{low:f}"
    parts = []
    if low is not None:
        lower = "policy_at_least" if numbers.low_in else "policy_above"
        parts.append(say(lower, number=f"{low:f}"))
    if high is not None:
        upper = "policy_at_most" if numbers.high_in else "policy_below"
        parts.append(say(upper, number=f"{high:f}"))
    return f" {say('policy_and')} ".join(parts)
