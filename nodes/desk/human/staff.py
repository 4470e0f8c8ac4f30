"""Whether a human is at the desk: by the company's hours, and by what the humans themselves say."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any
from zoneinfo import ZoneInfo

from ....policy.desk.company import Company
from ....policy.desk.hours import find_next_opening, is_open
from ....state.desk import AWAY
from ....turn.scope import RunScope


@dataclass(frozen=True)
class Staff:
    """Whether somebody is there, and else in how many hours the customer hears of them."""

    there: bool
    hours: int


async def find_staff(scope: RunScope, company: Company) -> Staff:
    """Look who is there now; a run that cannot be resumed has nobody to wait for."""
    now = datetime.now(ZoneInfo(company.timezone))
    said = await _read_absence(scope)
    back = _parse_time(said.get("until")) if said else None
    away = bool(said) and (back is None or now < back)
    opens = find_next_opening(
        company.hours, max(now, back.astimezone(now.tzinfo)) if away and back else now
    )
    there = scope.run.saved and not away and is_open(company.hours, now)
    known = opens > now
    wait = opens - now if known else timedelta()
    return Staff(there, ceil(wait / timedelta(hours=1)) + (1 if known else company.follow_up_hours))


async def _read_absence(scope: RunScope) -> dict[str, Any]:
    if scope.store is None:
        return {}
    item = await scope.store.aget(*AWAY)
    return dict(item.value) if item is not None else {}


def _parse_time(text: object) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
