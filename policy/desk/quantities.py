"""Numbers in a text with what they count: `14 days`, `fourteen days` and `十四天` are one. Pure."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ...text.words import fold_case

_UNITS: Final[dict[str, str]] = {
    "workday": r"(?:working|business|work)[ -]days?|个?工作日",
    "day": r"(?:calendar )?days?|天|日",
    "week": r"weeks?|周|个?星期|个?礼拜",
    "month": r"months?|个?月",
    "year": r"years?|年",
    "hour": r"hours?|hrs?|个?小时",
    "minute": r"minutes?|mins?|分钟",
    "%": r"%|percent|per cent",
    "EUR": r"€|eur|euros?|欧元",
    "USD": r"\$|usd|dollars?|美元",
    "GBP": r"£|gbp|pounds?|英镑",
    "CNY": r"¥|cny|rmb|yuan|元|块钱?",
    "kg": r"kg|kilos?|kilograms?|公斤",
    "g": r"g|grams?|克",
    "cm": r"cm|centimet(?:re|er)s?|厘米",
    "W": r"w|watts?|瓦",
    "lm": r"lm|lumens?|流明",
    "ml": r"ml|毫升",
    "°": r"°\s?c?|degrees|度",
}
_MONEY: Final = frozenset({"EUR", "USD", "GBP", "CNY"})
_SIGNS: Final = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "CNY"}
_KEYS: Final = {
    "day": "day", "hour": "hour", "paid": "money", "amount": "money", "refund": "money",
    "price": "money", "total": "money",
}  # fmt: skip
"""What a number of a tool's result counts, by what stands in its key."""
_BEHIND: Final = re.compile(
    r"\s?-?(?:" + "|".join(f"({unit})" for unit in _UNITS.values()) + r")(?![a-z])"
)
_SMALL: Final = """zero one two three four five six seven eight nine ten eleven twelve thirteen
fourteen fifteen sixteen seventeen eighteen nineteen"""
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety hundred"
_ENGLISH: Final = {word: value for value, word in enumerate(_SMALL.split())} | {
    word: 10 * ten for ten, word in enumerate(_TENS.split(), 2)
}
_WORD: Final = "|".join(sorted(_ENGLISH, key=len, reverse=True))
_DIGITS: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"两": 2}
_PLACES: Final = {"十": 10, "百": 100, "千": 1_000, "万": 10_000}
_CHINESE: Final = "".join([*_DIGITS, *_PLACES])
_COUNTED: Final = "张件次期人位种杯包岁倍条"
"""What stands behind a Chinese number that is one, and no part of a word, beside units."""
_ZH_UNITS: Final = "工作日|天|日|周|星期|礼拜|月|年|小时|分钟|欧元|美元|英镑|元|块|公斤|克|厘米|度"
_FOUND: Final = re.compile(
    r'(?:"(?P<key>\w+)": )?(?P<sign>[€$£¥])?\s?(?<![a-z0-9_.])(?P<digits>\d+(?:[.,]\d+)*)'
    rf"|\b(?P<word>(?:{_WORD})(?:[ -](?:{_WORD}))?)\b"
    rf"|(?P<part>百分之)(?P<of>[{_CHINESE}]+)"
    rf"|(?<![{_CHINESE}])(?P<zh>[{_CHINESE}]++)(?=个?(?:{_ZH_UNITS})|[{_COUNTED}])"
)
_RANGE: Final = re.compile(r"\s*(?:to|-|–|—|~|至|到|and|or|或|、|,)\s*")  # noqa: RUF001 - dashes
_NAMES: Final = re.compile(r"(?<![a-z0-9_-])[a-z]+[-_]?\d[a-z0-9_-]*")
_STRUCTURE: Final = re.compile(
    r"\s*(?:ways?|options?|steps?|things?|possibilities|cases|conditions?|points?|questions?|of"
    r"|more|further|other)\b"
)


@dataclass(frozen=True)
class Quantity:
    """A number and its unit; "" where it says none."""

    value: float
    unit: str = ""

    def is_in(self, others: Collection["Quantity"]) -> bool:
        """Whether one of these is it; one without a unit may be of any."""
        return any(self.value == one.value and self.may_count(one) for one in others)

    def is_said_in(self, others: Collection["Quantity"]) -> bool:
        """Whether one of these is it, with what it counts."""
        return any(one.unit and self.unit and self.is_in([one]) for one in others)

    def may_count(self, other: "Quantity") -> bool:
        """Whether both may count the same."""
        units = {self.unit, other.unit}
        return len(units) == 1 or "" in units or ("money" in units and bool(units & _MONEY))


def find_names(text: str) -> frozenset[str]:
    """Words with digits in them, such as `a-1042`: they name something and count nothing."""
    return frozenset(_NAMES.findall(fold_case(text)))


def find_quantities(text: str, *, claimed: bool = False) -> list[Quantity]:
    """The numbers of a text; of a claim without "one", and without counts of what follows."""
    plain = _NAMES.sub(" ", fold_case(text))
    found: list[tuple[Quantity, int]] = []
    for one in _FOUND.finditer(plain):
        quantity = Quantity(_read_value(one), _find_unit(plain, one))
        if claimed and one["digits"] is None and _says_little(quantity, plain, one.end()):
            continue
        if found and quantity.unit and not found[-1][0].unit:  # `2 to 4 days`
            before, end = found[-1]
            if _RANGE.fullmatch(plain[end : one.start()]):
                found[-1] = Quantity(before.value, quantity.unit), end
        found.append((quantity, one.end()))
    return [quantity for quantity, _ in found]


def remove_numbers(text: str) -> str:
    """The words between the numbers."""
    return _FOUND.sub(lambda one: f" {one['key'] or ''} ", fold_case(text))


def _says_little(quantity: Quantity, plain: str, end: int) -> bool:
    return not quantity.unit and (quantity.value <= 1 or bool(_STRUCTURE.match(plain, end)))


def _read_value(one: re.Match[str]) -> float:
    if digits := one["digits"]:
        whole = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", digits) if "," in digits else digits
        head, point, rest = whole.replace(",", ".").rpartition(".")
        return float(head.replace(".", "") + point + rest)
    if word := one["word"]:
        values = [_ENGLISH[part] for part in re.split("[ -]", word)]
        return values[0] * 100 if values[1:] == [100] else sum(values)
    return _read_chinese(one["of"] or one["zh"])


def _read_chinese(signs: str) -> float:
    total = digit = 0.0
    for sign in signs:
        if sign in _DIGITS:
            digit = 10.0 * digit + _DIGITS[sign] if digit and len(signs) > 1 else _DIGITS[sign]
        else:
            total, digit = total + (digit or 1) * _PLACES[sign], 0
    return total + digit


def _find_unit(plain: str, one: re.Match[str]) -> str:
    if sign := one["sign"]:
        return _SIGNS[sign]
    if one["part"]:
        return "%"
    if behind := _BEHIND.match(plain, one.end()):
        return [*_UNITS][behind.lastindex - 1] if behind.lastindex else ""
    key = one["key"] or ""
    return next((unit for part, unit in _KEYS.items() if part in key), "")
