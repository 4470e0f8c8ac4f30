"""References in a reply, such as `{{r3.total}}`, and the values of records they stand for. Pure.

`{{r3.items.0.price}}` is one value, `{{sum(r3.items.price)}}` and `{{count(r3.items)}}` are
computed of a list, `{{r3.total - r3.refunded}}` of numbers. A currency behind them makes money of
it: `{{r3.total r3.currency}}`. A path goes through a list to all of its items.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from ...text.display import show_text
from ..labels import read_amount

REFERENCE: Final = re.compile(r"\{\{([^{}]{0,200})\}\}")
_TERM: Final = re.compile(r"\s*([+-])?\s*(?:(sum|count)\(\s*([\w.-]+)\s*\)|([\w.-]*\w))")
_DECIMAL: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_CURRENCY: Final = re.compile("[A-Z]{3}")
_MISSING: Final = object()

Records = Mapping[str, Any]
"""Short name to the data of a result."""


class ReferenceProblem(ValueError):
    """A reference that stands for no value; the message is the reference."""


@dataclass(frozen=True)
class Value:
    """What a reference stands for; `currency` where it is money."""

    value: str | Decimal
    currency: str = ""


def is_currency(text: object) -> bool:
    """Whether it is spelled as a currency, such as EUR."""
    return bool(_CURRENCY.fullmatch(str(text)))


def read_reference(text: str, records: Records) -> Value:
    """The value of the text between the braces.

    Raises:
        ReferenceProblem: It names nothing that is there, or no single value.
    """
    place, found = 0, list[tuple[str, Any]]()
    while term := _TERM.match(text, place):
        sign, computed, of, path = term.groups()
        if found and not sign:
            break
        value = _compute(computed, _look_up(of, records)) if computed else _look_up(path, records)
        found.append((sign, value))
        place = term.end()
    rest = text[place:].strip()
    if len(found) == 1 and isinstance(found[0][1], str) and not rest:
        return Value(found[0][1])
    if not found:
        raise ReferenceProblem(text)
    currency = str(_look_up(rest, records)) if rest else ""
    if rest and not is_currency(currency):
        raise ReferenceProblem(text)
    numbers = [(-1 if sign == "-" else 1, _read_number(value)) for sign, value in found]
    return Value(sum((sign * number for sign, number in numbers), Decimal(0)), currency)


def _look_up(path: str, records: Records) -> Any:
    """What stands at a path: a text, a number, or a list of what stands there in each item."""
    found: Any = records
    for part in path.split("."):
        found = _step_into(found, part)
    if isinstance(found, str | list):
        return found
    if (number := read_amount(found)) is None:
        raise ReferenceProblem(path)
    return number


def _step_into(found: Any, part: str) -> Any:
    if isinstance(found, Mapping):
        return found.get(part, _MISSING)
    if isinstance(found, list):
        if part.isdecimal():
            return found[int(part)] if int(part) < len(found) else _MISSING
        return [_step_into(item, part) for item in found]
    return _MISSING


def _compute(what: str, found: Any) -> Decimal:
    """The sum of a list of numbers, or how many things a list has."""
    if not isinstance(found, list) or _MISSING in found:
        raise ReferenceProblem(what)
    if what == "count":
        return Decimal(len(found))
    return sum(map(_read_number, found), Decimal(0))


def _read_number(value: Any) -> Decimal:
    """A number, also where a tool spells it as a text, such as `59.50`."""
    if isinstance(value, Decimal):
        return value
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, bool) or not _DECIMAL.fullmatch(text):
        raise ReferenceProblem(str(value))
    return Decimal(text)


def render_value(value: Value, language: str) -> str:
    """The value as people of a language write it; as it stands where babel is not installed."""
    given = value.value
    if isinstance(given, str):
        moment = _parse_time(given)
        return show_text(given) if moment is None else _format_time(moment, given, language)
    try:
        from babel.numbers import format_currency, format_decimal  # noqa: PLC0415 - an extra
    except ImportError:
        return f"{given:f} {value.currency}".strip()
    locale = _find_locale(language)
    if value.currency:
        whole = False  # nothing is rounded
        return format_currency(given, value.currency, locale=locale, decimal_quantization=whole)
    digits = max(0, -int(given.as_tuple().exponent))
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return str(format_decimal(given, pattern, locale=locale))


def _parse_time(text: str) -> date | datetime | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    except ValueError:
        return None


def _format_time(moment: date | datetime, text: str, language: str) -> str:
    try:
        from babel.dates import format_date, format_datetime  # noqa: PLC0415 - an extra
    except ImportError:
        return text
    locale = _find_locale(language)
    if isinstance(moment, datetime):
        return str(format_datetime(moment, "medium", locale=locale))
    return str(format_date(moment, "long", locale=locale))


def _find_locale(language: str) -> Any:
    from babel.core import Locale, UnknownLocaleError  # noqa: PLC0415 - an extra

    try:
        return Locale.parse(language.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return Locale.parse("en")
