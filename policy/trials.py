"""Calls that nobody makes, tried on a table: what would be decided, by which row, and why. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

from ..text.sentences import say
from .paths import Answer, KnownFacts, UnreadFact
from .rules import GovernedTool, Ruling
from .table import PolicyTable


class TriedCall(BaseModel):
    """A call to try: the verified customer, what the facts' tools would tell, and the time."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tool: str
    server: str | None = None
    args: dict[str, Any] = {}
    customer: str | int | None = None
    facts: dict[str, dict[str, Any] | list[Any]] = {}
    now: AwareDatetime | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a table says of a call; `values` are what decided, by dimension, in words."""

    tool: str
    call: str
    ruling: Ruling
    values: Mapping[str, str] = field(default_factory=dict)


def try_call(table: PolicyTable, tried: TriedCall) -> Trial:
    """What would be decided."""
    now = tried.now or datetime.now(UTC)
    tool = table.find_governed(tried.tool, tried.server)
    told = table.describe_call(tried.tool, tried.server, tried.args)
    if tool is None:
        ruling = Ruling("forbidden", "", say("policy_unlisted", tool=tried.tool))
        return Trial(tool=tried.tool, call=told, ruling=ruling)
    known = _take_facts(table, tool, tried)
    values = table.read_values(table.sections[tool.section], known, now) if tool.section else {}
    words = {
        name: say(value.why, **value.slots) if isinstance(value, UnreadFact) else str(value)
        for name, value in values.items()
    }
    ruling = table.rule(tool, known, now)
    return Trial(tool=tried.tool, call=told, ruling=ruling, values=words)


def _take_facts(table: PolicyTable, tool: GovernedTool, tried: TriedCall) -> KnownFacts:
    """The facts as they would be read: only those that are about what would be asked."""
    known = KnownFacts(call=tried.args, customer=tried.customer)
    for name in tool.facts:
        if name in tried.facts:
            fact = table.facts[name]
            asked = fact.build_question(known)
            read: Answer | UnreadFact
            if isinstance(asked, UnreadFact):
                read = asked
            else:
                read = fact.check_answer(asked, tried.facts[name])
            known = replace(known, facts={**known.facts, name: read})
    return known
