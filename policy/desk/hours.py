"""Opening hours, such as `mon-fri 09:00-17:30`: whether a desk is open, and when next. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Final

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS: Final = re.compile(r"(\w{3})(?:-(\w{3}))? (\d\d:\d\d)-(\d\d:\d\d)")


def find_hours_problem(hours: str) -> str:
    """Why a line cannot be read; "" where it can."""
    try:
        days, opens, closes = _parse_hours(hours)
    except ValueError:
        return (
            f"{hours!r} is no opening time: write it as 'mon-fri 09:00-17:30' or 'sat 10:00-14:00'"
        )
    if not days or opens >= closes:
        return f"{hours!r} is never open: days and times go forwards, and a day ends at 23:59"
    return ""


def is_open(hours: Sequence[str], at: datetime) -> bool:
    """Whether somebody is there at a time; always, where no hours are given."""
    if not hours:
        return True
    read = map(_parse_hours, hours)
    return any(at.weekday() in days and opens <= at.time() < ends for days, opens, ends in read)


def find_next_opening(hours: Sequence[str], at: datetime) -> datetime:
    """When the desk is open next; the time itself where it is open."""
    if is_open(hours, at):
        return at
    begins = [
        datetime.combine((at + timedelta(days=ahead)).date(), opens, at.tzinfo)
        for ahead in range(8)
        for days, opens, _ in map(_parse_hours, hours)
        if (at + timedelta(days=ahead)).weekday() in days
    ]
    return min(begin for begin in begins if begin > at)


def _parse_hours(hours: str) -> tuple[range, time, time]:
    found = _HOURS.fullmatch(hours.strip().lower())
    if found is None:
        raise ValueError(hours)
    first, last, opens, closes = found.groups()
    days = range(_DAYS.index(first), _DAYS.index(last or first) + 1)
    return days, time.fromisoformat(opens), time.fromisoformat(closes)
