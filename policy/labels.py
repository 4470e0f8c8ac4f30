"""A call as people read it, such as `Refund · order A-1042 · 449.00 EUR`. Pure."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from ..text.display import show_value, show_words
from .paths import CALL
from .rules import Figure, GovernedTool, Label, select_language

_BETWEEN: Final = " · "
_LARGEST: Final = 10**15


Render = Callable[[Figure, Any, str, str], str]
"""Writes a value for people: its kind, itself, its unit, the language."""


def read_amount(value: Any) -> Decimal | None:
    """A number that people can read; None of anything else, and of one out of all measure."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(repr(value)) if abs(value) < _LARGEST else None


def render_plainly(figure: Figure, value: Any, unit: str, _language: str) -> str:
    """A value as it is; money with two digits behind the point, or all that it has."""
    amount = read_amount(value) if figure == "money" else None
    if amount is None:
        return f"{show_value(value)} {unit}".strip()
    amount = amount.normalize()
    digits = max(2, -int(amount.as_tuple().exponent))
    return f"{amount:.{digits}f} {unit}".strip()


def describe_call(
    tool: GovernedTool | None,
    name: str,
    args: Mapping[str, Any],
    language: str = "",
    render: Render = render_plainly,
) -> str:
    """A call on one line: what the tool is called, then each argument that says something.

    Without a label it is the tool's name with spaces, and `name: value`.
    """
    labels = tool.labels if tool else {}
    titled = select_language(tool.label, language) if tool else ""
    titled = titled or _spell_name(name.rpartition("/")[2])
    told = [show_words(titled[:1].upper() + titled[1:])]
    units = {known.unit for argument, known in labels.items() if argument in args}
    order = [*(one for one in labels if one in args), *(one for one in args if one not in labels)]
    for argument in order:
        if args[argument] in (None, "") or f"{CALL}.{argument}" in units:
            continue
        known = labels.get(argument)
        named = select_language(known.label, language) if known else f"{_spell_name(argument)}:"
        value = _render_values(known or Label(), args, argument, language, render)
        told.append(f"{show_words(named)} {value}".strip())
    return _BETWEEN.join(told)


def _render_values(
    known: Label, args: Mapping[str, Any], argument: str, language: str, render: Render
) -> str:
    value, (root, _, name) = args[argument], known.unit.partition(".")
    unit = show_value(args.get(name) or "") if root == CALL else known.unit
    many = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
    shown = [
        render(known.figure, one, unit, language) for one in (value if many and value else [value])
    ]
    # No value draws a part of the line that is not there.
    marks = [_BETWEEN.strip(), *([","] if many else [])]
    return ", ".join(
        json.dumps(one, ensure_ascii=False) if any(mark in one for mark in marks) else one
        for one in shown
    )


def _spell_name(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").strip()
