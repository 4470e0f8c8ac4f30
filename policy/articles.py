"""A policy as articles for a knowledge base: what people read is what decides, row by row. Pure."""

from decimal import Decimal

from ..text.sentences import LANGUAGE, match_language, say
from .conditions import Condition, Dimension, Interval
from .rules import Row, Rules, Section, select_language


def build_articles(table: Rules, language: str) -> list[dict[str, str]]:
    """One article a row, and one for each tool that no row but a verdict decides; see the table."""
    token = LANGUAGE.set(match_language(language, ("en", "zh")))
    try:
        rows = [
            _build_article(table, section, row)
            for section in table.sections.values()
            for row in section.rows
        ]
        return rows + [
            {
                "id": tool.name.replace("/", "-"),
                "title": tool.name.replace("_", " "),
                "text": select_language(tool.article),
                "language": LANGUAGE.get(),
            }
            for tool in table.tools.values()
            if tool.article
        ]
    finally:
        LANGUAGE.reset(token)


def _build_article(table: Rules, section: Section, row: Row) -> dict[str, str]:
    conditions = [
        say(
            "policy_if",
            what=_describe_dimension(table, name),
            is_=_describe_condition(table.dimensions[name][0], condition),
        )
        for name, condition in row.when.items()
    ]
    when = (
        say("policy_when", conditions="\n".join(conditions)) if conditions else say("policy_always")
    )
    result = say(f"policy_then_{row.verdict}")
    return {
        "id": row.id,
        "title": select_language(row.title) or f"{section.name}: {row.id}".replace("_", " "),
        "text": "\n\n".join([select_language(row.article), when, result]),
        "language": LANGUAGE.get(),
    }


def _describe_dimension(table: Rules, name: str) -> str:
    return select_language(table.dimensions[name][0].label) or name.replace("_", " ")


def _describe_condition(dimension: Dimension, condition: Condition) -> str:
    told = dimension.told
    parts = [
        _describe_range(p) if isinstance(p, Interval) else select_language(told.get(p, {})) or p
        for p in condition.parts
    ]
    return f" {say('policy_or')} ".join(parts)


def _describe_range(numbers: Interval) -> str:
    low, high = numbers.low, numbers.high
    if low is not None and low == high:
        return _format_number(low)
    parts = []
    if low is not None:
        parts.append(
            say("policy_at_least" if numbers.low_in else "policy_above", number=_format_number(low))
        )
    if high is not None:
        parts.append(
            say(
                "policy_at_most" if numbers.high_in else "policy_below", number=_format_number(high)
            )
        )
    return f" {say('policy_and')} ".join(parts)


def _format_number(number: Decimal) -> str:
    return f"{number:f}"
