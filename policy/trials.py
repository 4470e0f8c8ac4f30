"""Calls that nobody makes, tried on a table: what would be decided, by which row, and why. Pure."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ..text.sentences import say
from .paths import KnownFacts, UnreadFact
from .rules import GovernedTool, Ruling
from .table import PolicyTable


class TriedCall(BaseModel):
    """A call to try: the verified customer, what the facts' tools would tell, and the time.

    `origins` say where its arguments come from: a word by the path of each, or several.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tool: str
    server: str | None = None
    args: dict[str, Any] = {}
    customer: str | int | None = None
    facts: dict[str, dict[str, Any] | list[Any]] = {}
    origins: dict[str, str | list[str]] = {}
    now: AwareDatetime | None = None


def try_call(table: PolicyTable, tried: TriedCall) -> dict[str, Any]:
    """What would be decided, as JSON: the verdict, by which row, why, and of which values."""
    now = tried.now or datetime.now(UTC)
    tool, values = table.find_governed(tried.tool, tried.server), {}
    ruling = Ruling("forbidden", "", say("policy_unlisted", tool=tried.tool))
    if tool is not None:
        known = _take_facts(table, tool, tried)
        ruling = table.rule(tool, known, now)
        if tool.section:
            values = table.read_values(table.sections[tool.section], known, now)
    return {
        "tool": tried.tool, "call": table.describe_call(tried.tool, tried.server, tried.args),
        "verdict": ruling.verdict, "row": ruling.row, "consent": ruling.consent,
        "why": ruling.words, "values": {
            name: say(value.why, **value.slots)
            if isinstance(value, UnreadFact)
            else " and ".join(map(str, value))
            for name, value in values.items()
        },
    }  # fmt: skip


def _take_facts(table: PolicyTable, tool: GovernedTool, tried: TriedCall) -> KnownFacts:
    """The facts as they would be read: only those that are about what would be asked."""
    origins = {
        path: [[word] for word in ([said] if isinstance(said, str) else said)]
        for path, said in tried.origins.items()
    }
    known = KnownFacts(call=tried.args, customer=tried.customer, origins=origins)
    for name in tool.facts:
        if name in tried.facts:
            fact = table.facts[name]
            asked = fact.build_question(known)
            read: Any = asked
            if not isinstance(asked, UnreadFact):
                read = fact.check_answer(asked, tried.facts[name])
            known = replace(known, facts={**known.facts, name: read})
    return known
