"""A policy as articles for a knowledge base: what people read is what decides, row by row. Pure."""

from decimal import Decimal

from ..text.told import LANGUAGE, known_as, say
from .conditions import Condition, Dimension, Interval
from .rules import Row, Rules, Section, in_language


def articles_of(table: Rules, language: str) -> list[dict[str, str]]:
    """One article a row, and one for each tool that no row but a verdict decides; see the table."""
    token = LANGUAGE.set(known_as(language, ("en", "zh")))
    try:
        rows = [
            _of_row(table, section, row)
            for section in table.sections.values()
            for row in section.rows
        ]
        return rows + [
            {
                "id": tool.name.replace("/", "-"),
                "title": tool.name.replace("_", " "),
                "text": in_language(tool.article),
                "language": LANGUAGE.get(),
            }
            for tool in table.tools.values()
            if tool.article
        ]
    finally:
        LANGUAGE.reset(token)


def _of_row(table: Rules, section: Section, row: Row) -> dict[str, str]:
    conditions = [
        say(
            "policy_if",
            what=_label(table, name),
            is_=_in_words(table.dimensions[name][0], condition),
        )
        for name, condition in row.when.items()
    ]
    when = (
        say("policy_when", conditions="\n".join(conditions)) if conditions else say("policy_always")
    )
    result = say(f"policy_then_{row.verdict}")
    return {
        "id": row.id,
        "title": in_language(row.title) or f"{section.name}: {row.id}".replace("_", " "),
        "text": "\n\n".join([in_language(row.article), when, result]),
        "language": LANGUAGE.get(),
    }


def _label(table: Rules, name: str) -> str:
    return in_language(table.dimensions[name][0].label) or name.replace("_", " ")


def _in_words(dimension: Dimension, condition: Condition) -> str:
    told = dimension.told
    parts = [
        _range(p) if isinstance(p, Interval) else in_language(told.get(p, {})) or p
        for p in condition.parts
    ]
    return f" {say('policy_or')} ".join(parts)


def _range(numbers: Interval) -> str:
    low, high = numbers.low, numbers.high
    if low is not None and low == high:
        return _number(low)
    parts = []
    if low is not None:
        parts.append(
            say("policy_at_least" if numbers.low_in else "policy_above", number=_number(low))
        )
    if high is not None:
        parts.append(
            say("policy_at_most" if numbers.high_in else "policy_below", number=_number(high))
        )
    return f" {say('policy_and')} ".join(parts)


def _number(number: Decimal) -> str:
    return f"{number:f}"
