"""Numbers of things, bytes and seconds as people say them."""

from typing import Final

_KILO: Final = 1000


def format_size(count: int) -> str:
    """A number of bytes: three digits, and the largest unit that fits."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < _KILO:
            break
        amount, unit = amount / _KILO, larger
    return f"{amount:.3g} {unit}" if amount < _KILO else f"{amount:,.0f} {unit}"


def format_seconds(seconds: float) -> str:
    """A time in the largest unit of which it is at least one; what is over is left out."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return plural(int(seconds // size), unit)
    return f"{seconds:.0f} s"


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
