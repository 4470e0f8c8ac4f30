"""What stands in PostgreSQL beside checkpoints: the journal's tables, and the store.

What a thread keeps in the store only its run may put there, as its checkpoints are.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from langgraph.store.base import BaseStore, Op, PutOp, Result

from ...state.calls import thread_of_results
from ...text.canonical import make_storable
from ..base.worker_threads import run_in_worker
from ..journal.port import Fence
from ..journal.sql import BUSY_SECONDS, get_cause
from ..journal.tables import Execute, NotDone
from .leases import Leases, raise_lease_lost
from .pool import Pool, PooledTransaction, execute_statement
from .schema import BRIEFLY, HOLDS, build_fence_values

_RACES: Final = frozenset({"23505", "40P01", "42701", "42710", "42P07"})
"""SQLSTATEs of migrations run side by side: duplicate row, column, object or table; deadlock."""

_ONE_AT_A_TIME: Final = (
    "SELECT pg_current_xact_id()::text AS number, pg_advisory_xact_lock(hashtextextended(%s, 0)),"
    f" {BRIEFLY}"
)
_STATUS: Final = "SELECT pg_xact_status(?::xid8) AS status"
_LOOKS: Final = 0.1
"""Seconds between two looks whether the server has noticed that a connection was cut."""
_HELD: Final = f"{_ONE_AT_A_TIME}, {HOLDS}".replace("?", "%s")
"""In one statement: a process that is frozen between two would keep the first lock for good."""


class PostgresTables:
    """The journal's tables in Postgres, through a pool of connections in autocommit mode."""

    number = "BIGSERIAL PRIMARY KEY"
    made = False
    packs = False
    now = "extract(epoch FROM clock_timestamp())::float8"

    def __init__(
        self, pool: Pool, errors: tuple[type[Exception], ...], name: str, leases: Leases
    ) -> None:
        """Use a pool that gives rows as dicts; whoever opened it closes it."""
        self.errors, self.name, self.pool = errors, name, pool
        self._leases = leases

    @contextmanager
    def block(self, thread: str | None = None, fence: Fence | None = None) -> Iterator[Execute]:
        """See Tables."""
        with raise_lease_lost(self.errors):
            if thread is None:
                yield self.pool.fetch_rows
                return
            begun: PooledTransaction | None = None
            try:
                with self.pool.begin_transaction(
                    self._build_first_statement(thread, fence)
                ) as begun:
                    yield begun
            except self.errors as error:
                if begun is None or not begun.is_cut(error):
                    raise
                if not self._has_committed(begun.number, error):
                    raise NotDone(get_cause(error)) from error

    def _has_committed(self, number: str | None, error: Exception) -> bool:
        """Whether a transaction counts whose end was not told; one that asked nothing is not it."""
        until = time.monotonic() + BUSY_SECONDS
        while number is not None:
            (found,) = self.pool.fetch_rows(_STATUS, [number])
            if found["status"] != "in progress":
                return bool(found["status"] == "committed")
            if time.monotonic() > until:
                raise error
            time.sleep(_LOOKS)
        return False

    def _build_first_statement(self, thread: str, fence: Fence | None) -> tuple[str, list[object]]:
        mine = fence is not None and self.token(fence.name) == fence.token
        shown = fence if mine else self._leases.find_fence(thread)
        if shown is None:
            return _ONE_AT_A_TIME, [make_storable(thread)]
        return _HELD, [make_storable(thread), *build_fence_values(shown)]

    def holds(self, thread: str) -> tuple[str, Sequence[object]]:
        """See Tables."""
        shown = self._leases.find_fence(thread)
        if shown is None:
            return "true", ()
        return HOLDS, build_fence_values(shown)

    def token(self, name: str) -> int | None:
        """See Tables."""
        return self._leases.token(name)

    def is_race(self, error: Exception) -> bool:
        """See Tables."""
        return getattr(error, "sqlstate", None) in _RACES

    def close(self) -> None:
        """The pool is closed by who opened it."""


_HOLDS: Final = f"SELECT {BRIEFLY}, {HOLDS}"


class PooledStore(BaseStore):
    """A store on whichever connection is free."""

    supports_ttl = True

    def __init__(
        self, pool: Pool, over: Callable[[Any], Any], errors: tuple[type[Exception], ...],
        leases: Leases,
    ) -> None:  # fmt: skip
        """Keep by what `over` makes of a connection."""
        self.errors, self.hands = errors, pool.hands
        self._pool, self._over, self._leases = pool, over, leases

    def setup(self) -> None:
        """Make the tables that are missing."""
        self._over(self._pool.pool).setup()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See LangGraph; each operation may be done twice. Raises LeaseLost."""
        given = [*ops]
        shown = {fence for op in given if (fence := self._find_fence(op)) is not None}

        def work(connection: Any) -> list[Result]:
            with connection.transaction() if shown else nullcontext():
                for fence in sorted(shown):
                    execute_statement(connection, _HOLDS, build_fence_values(fence))
                found: list[Result] = self._over(connection).batch(given)
                return found

        with raise_lease_lost(self.errors):
            done: list[Result] = self._pool.run(work)
            return done

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await run_in_worker(self, self.batch, list(ops))

    def _find_fence(self, op: Op) -> Fence | None:
        if not isinstance(op, PutOp) or op.value is None:
            return None
        thread = thread_of_results(op.namespace)
        return None if thread is None else self._leases.find_fence(thread)
