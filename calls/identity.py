"""Who the customer is: by a tool's answer, for the user it was given to, for a while; and tries.

A try is counted before the tool is called, for whom it would verify and for the thread, so that
nobody has more of them by asking in several threads at once. One that verifies is given back.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from ..policy.rules import Identity
from ..store.journal.port import Change, Row
from ..store.locks.thread_locks import build_lock_name
from ..text.canonical import canonical, hash_of
from ..turn.scope import RunScope
from .call_records import Call

VERIFIED: Final = "verified"
"""Key of the saved verifications of a thread; the value is the customer's id, or None."""

_KEPT: Final = timedelta(days=1)
"""For how long a try counts that has not verified anybody."""


def build_verification(scope: RunScope, who: str | int | None, at: datetime) -> dict[str, Any]:
    """What is kept of a verification."""
    return {VERIFIED: who, "user": scope.user, "at": at.isoformat()}


def find_customer(
    rows: Sequence[Mapping[str, Any]], scope: RunScope, identity: Identity, now: datetime
) -> str | int | None:
    """The verified customer of the run's user, by the newest answer; None if there is none."""
    newest = find_verification(rows)
    if newest is None or newest["user"] != scope.user:
        return None
    is_recent = now - datetime.fromisoformat(newest["at"]) <= identity.lasts
    return newest[VERIFIED] if is_recent else None


def find_verification(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest answer of the tools that verify, whoever it was for."""
    return next((row for row in reversed(rows) if VERIFIED in row), None)


def list_counters(scope: RunScope, identity: Identity, call: Call) -> list[str]:
    """Where a try is counted: by the thread, and by user and whom it would verify."""
    first = [*call.known_tool.schema.get("properties", ())][:1]
    named = [call.args[name] for name in identity.subject or first if name in call.args]
    values = sorted({_fold(value) for value in named or call.args.values()})
    about = [["thread", scope.journal_thread], *(["user", scope.user, one] for one in values)]
    return [build_lock_name("", f"tries {hash_of(one)}") for one in about]


async def count_try(
    scope: RunScope, counters: Sequence[str], name: str, most: int, now: datetime
) -> bool:
    """Count a try to verify this name, here or everywhere; False if there were too many."""
    begun = Row(
        name=name, place="", turn=scope.turn, task="", call="", tool="", server=None, arguments={},
        content="", key="", since=now.isoformat(),
    )  # fmt: skip

    def work(rows: Sequence[Row]) -> tuple[bool, Change]:
        old = [row.name for row in rows if now - datetime.fromisoformat(row.since) > _KEPT]
        left = {row.name for row in rows} - {*old}
        fits = name in left or len(left) < most
        return fits, Change([begun] if fits and name not in left else [], old)

    for place, counter in enumerate(counters):
        if not await scope.journal.change_rows(counter, work):
            await give_back_try(scope, counters[:place], name)
            return False
    return True


async def give_back_try(scope: RunScope, counters: Sequence[str], name: str) -> None:
    """Forget a try that has verified somebody, or was not made."""
    for counter in counters:
        await scope.journal.change_rows(counter, lambda _: (None, Change(drop=[name])))


def _fold(value: object) -> str:
    """A value without what makes no other customer of it: capitals, spaces, signs."""
    text = value if isinstance(value, str) else canonical(value)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, folded)) or folded
