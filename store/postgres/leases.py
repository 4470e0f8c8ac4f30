"""Who holds a thread in PostgreSQL: a lease, which is renewed while its process lives.

It is a row, not a session's lock: it works through a pool that hands its sessions around, outlives
a connection that is cut, and ends by itself where its holder is frozen or gone. Only the database's
clock is asked. Whoever writes shows the token of his lease in the same transaction (`schema`), so
a holder that comes too late writes nothing.
"""

import os
import platform
import secrets
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from math import nan
from typing import Any, Final

from ...state.errors import DatabaseError, LeaseLost, SettingsError
from ...stream.meters import TAKEOVERS, UNWRITTEN, measure
from ...text.canonical import make_storable
from ..base.worker_threads import WorkerThreads
from ..journal.port import Fence
from ..journal.sql import explain_errors
from ..journal.tables import SHORTER, TOO_LONG
from ..locks.thread_locks import (
    build_lock_name,
    make_lost_error,
    parse_lock_thread,
    report_lost_lease,
)
from .pool import Pool
from .schema import LOST

LEASE: Final = 30.0
"""Seconds after which the thread of a holder that does not answer is another's to take."""

_SHORTEST: Final = 1.0
_LONGEST: Final = 3600.0
_UNLOCKED: Final = (
    "Cannot lock a thread in the database {database!r} ({cause}): check that the server runs, then"
    " try again."
)
_TAKE: Final = "SELECT holder, gone FROM loopwright_lease(%s, %s, %s, %s, %s::int)"
_FREE: Final = (
    "UPDATE loopwright_threads t SET owner = NULL, until = NULL"
    " FROM unnest(%s::text[], %s::bigint[]) AS mine (name, token)"
    " WHERE t.name = mine.name AND t.token = mine.token"
)
_FREE_ONE: Final = (
    "UPDATE loopwright_threads SET owner = NULL, until = NULL WHERE name = %s AND token = %s"
)
_FORGET_ONE: Final = "DELETE FROM loopwright_threads WHERE name = %s AND token = %s"
"""Of what is no thread, of which there are too many to be kept."""
_LEAVE: Final = "DELETE FROM loopwright_waiting WHERE name = %s AND owner = %s"
# A row that is just being written is passed over: it says nothing of who holds it, and waiting for
# it would keep all others from being renewed. Nor is one renewed that is let go meanwhile.
_RENEW: Final = """
WITH mine AS (SELECT * FROM unnest(%s::text[], %s::bigint[]) AS m (name, token)),
free AS (
    SELECT t.name FROM loopwright_threads t JOIN mine m ON t.name = m.name AND t.token = m.token
    WHERE t.until IS NOT NULL FOR NO KEY UPDATE OF t SKIP LOCKED
),
kept AS (
    UPDATE loopwright_threads t SET until = clock_timestamp() + make_interval(secs => %s)
    FROM free WHERE t.name = free.name RETURNING t.name
)
SELECT m.token, t.owner, coalesce(t.token = m.token, false) AS mine,
    kept.name IS NOT NULL AS renewed
FROM mine m LEFT JOIN loopwright_threads t ON t.name = m.name LEFT JOIN kept ON kept.name = m.name
"""


class Leases:
    """The leases of this process in one database; see `Locks`. Safe to use from several threads."""

    def __init__(
        self, pool: Pool, errors: tuple[type[Exception], ...], database: str, lease: float = LEASE
    ) -> None:
        """Take leases of so many seconds through a pool that gives rows as dicts."""
        self.seconds = lease
        self.hands: WorkerThreads | None = None
        self.before_leaving: Callable[[str], object] = lambda _thread: None
        """Called with a thread before it is let go: what is under way is written down."""
        self._pool, self._errors, self._database = pool, errors, database
        self._process = os.getpid()  # a forked child has neither its parent's leases nor its thread
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._leaving: dict[str, int] = {}
        self._thread: threading.Thread | None = None
        self._closed, self._stirred = False, threading.Event()
        # The end of a process lets go, as far as it comes to that.
        weakref.finalize(self, _free_all, self._pool, self._held, self._process)

    @property
    def domain(self) -> Hashable:
        """Another one is another holder, also in this process."""
        return id(self)

    def take(self, name: str, doing: str = "", *, waits: bool = False) -> Callable[[], None] | str:
        """Lock a name; see `Locks`."""
        token = secrets.randbits(63)
        with self._explain_errors():
            about = [make_storable(name), _describe_self(doing), token, self.seconds, waits or None]
            (found,) = self._pool.fetch_rows(_TAKE, about)
        if found["holder"] is not None:
            return describe_owner(found["holder"])
        if found["gone"]:
            measure(TAKEOVERS)
        with self._lock:
            self._held[name] = token
            self._start_heartbeat()
        return partial(self._free, name, token)

    def stop_waiting(self, name: str) -> None:
        """See `Locks`; what fails ends by itself."""
        with suppress(*self._errors):
            self._pool.fetch_rows(_LEAVE, [make_storable(name), _describe_self()])

    def token(self, name: str) -> int | None:
        """By which this process holds a name, also where it has lost it; None where it does not."""
        return self._held.get(name) if self._process == os.getpid() else None

    def find_fence(self, thread: str, place: str = "") -> Fence | None:
        """What a write must show that is made in a thread, at this place of the graphs in it."""
        parts = place.split("|")
        places = ("", *("|".join(parts[: n + 1]) for n in range(len(parts))))
        for name in (build_lock_name(thread, one) for one in places):
            if (token := self.token(name)) is not None:
                return Fence(name, token)
        return None

    def close(self) -> None:
        """Let go of all; a second call does nothing."""
        self._closed = True
        self._stirred.set()
        if self._process == os.getpid():
            _free_all(self._pool, self._held, self._process)

    def _free(self, name: str, token: int) -> None:
        self.before_leaving(parse_lock_thread(name))
        with self._lock:
            if self._held.get(name) != token:
                return
            self._leaving[name] = self._held.pop(name)
        self._free_leaving()

    def _free_leaving(self) -> bool:
        """Free what is being left; what fails is tried again, and ends by itself if need be."""
        leaving = dict(self._leaving)
        if not leaving:
            return True
        try:
            if len(leaving) == 1:  # as mostly; it is planned once
                ((name, token),) = leaving.items()
                statement = _FREE_ONE if parse_lock_thread(name) else _FORGET_ONE
                self._pool.fetch_rows(statement, [make_storable(name), token])
            else:
                self._pool.fetch_rows(_FREE, _build_lease_values(leaving))
        except self._errors:
            return False
        with self._lock:
            for name, token in leaving.items():
                if self._leaving.get(name) == token:
                    del self._leaving[name]
        return True

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        if self._process != os.getpid():
            msg = (
                f"The database {self._database!r} was opened before this process was forked, and"
                " its connections are the parent's: open it again in this one."
            )
            raise DatabaseError(msg)
        with (
            explain_errors(self._errors, _UNLOCKED, self._database),
            raise_lease_lost(self._errors),
        ):
            yield

    def _start_heartbeat(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run_heartbeat, name="loopwright leases", daemon=True
            )
            self._thread.start()

    def _run_heartbeat(self) -> None:
        """Renew until there is nothing to renew; what fails is soon tried again."""
        done = True
        while True:
            self._stirred.wait(self.seconds / (3 if done else 30))
            self._stirred.clear()
            with self._lock:
                if self._closed or not (self._held or self._leaving):
                    self._thread = None
                    return
            done = all([self._renew(), self._free_leaving()])

    def _renew(self) -> bool:
        """Renew all at once; False if that failed: a silent database takes no lease away."""
        with self._lock:
            held = dict(self._held)
        try:
            rows = self._pool.fetch_rows(_RENEW, [*_build_lease_values(held), self.seconds])
        except self._errors:
            return False
        names = {token: name for name, token in held.items()}
        for row in rows:
            name = names[row["token"]]
            if not row["mine"] and self._held.get(name) == row["token"]:
                report_lost_lease(self.domain, name, describe_owner(row["owner"] or ""))
        return all(row["renewed"] or not row["mine"] for row in rows)


def _describe_self(doing: str = "") -> str:
    return f"process {os.getpid()}{doing} on {platform.node()}"


def _free_all(pool: Pool, held: Mapping[str, int], process: int) -> None:
    if held and os.getpid() == process and not pool.closed:
        with suppress(Exception), pool.connection(timeout=1) as connection:
            connection.execute(_FREE, _build_lease_values(held))


def _build_lease_values(held: Mapping[str, int]) -> list[object]:
    return [[make_storable(name) for name in held], [*held.values()]]


def check_lease(seconds: float) -> float:
    """A lease's length; raises SettingsError if it is too short to be renewed, or too long."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        seconds = nan
    if not _SHORTEST <= seconds <= _LONGEST:
        msg = (
            f"lease={seconds} is no length of a lease: give seconds from {_SHORTEST:.0f} to"
            f" {_LONGEST:.0f}; a holder that does not answer for so long loses its thread."
        )
        raise SettingsError(msg)
    return float(seconds)


@contextmanager
def raise_lease_lost(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """A transaction that checks leases; raises LeaseLost, or SettingsError for too long a name."""
    try:
        yield
    except errors as error:
        if getattr(error, "sqlstate", None) == TOO_LONG:
            raise SettingsError(SHORTER) from error
        if getattr(error, "sqlstate", None) != LOST:
            raise
        told: Any = getattr(error, "diag", None)
        measure(UNWRITTEN)
        who = describe_owner(told.message_detail or "")
        raise LeaseLost(make_lost_error(told.message_primary or "", who)) from error


def describe_owner(owner: str) -> str:
    """The holder as people are told; its computer only where it is another one."""
    return owner.removesuffix(f" on {platform.node()}")
