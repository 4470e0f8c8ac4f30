"""Threads in PostgreSQL, over a pool of checked connections; a run holds its thread by a lease.

The drivers are an extra that most installations do not have: they are imported when it is opened.
"""

import importlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from ...state.errors import DatabaseError
from ...text.canonical import storable
from ..journal.sql import BUSY_SECONDS, SqlJournal, cause_of, patiently
from ..locks.held import name_of
from ..threads.listing import Found, Wanted
from ..threads.what_stays import Keeps
from ..work.turns import Turns
from .finding import OWNS, PRUNABLE, SIZE, finding, forget, found
from .leases import LEASE, Leases, told_lost
from .pool import CONNECTIONS, Pool
from .schema import check_encoding, prepare
from .store import PooledStore
from .tables import PostgresTables

_DRIVERS: Final = (
    "psycopg", "psycopg_pool", "langgraph.store.postgres", "langgraph.checkpoint.postgres",
)  # fmt: skip

REACHED: Final = (
    "that the server runs, host and port, that the database is there, user and password"
)
"""What may be wrong where a server is not reached."""

_ASK: Final = "INSERT INTO checkpoint_writes SELECT * FROM checkpoint_writes WHERE false"

_MADE: Final = (
    "SELECT to_regclass('loopwright_journal') IS NOT NULL AND to_regclass('store') IS NOT NULL"
    " AND to_regclass('loopwright_turns') IS NOT NULL"
    " AND to_regclass('checkpoint_writes') IS NOT NULL AS made"
)
_NO_RIGHT: Final = "42501"
"""The SQLSTATE of what a user may not do."""


class PostgresDatabase:
    """`postgresql://…`; see `durability.Database`."""

    def __init__(self, url: str, lease: float = LEASE, connections: int = CONNECTIONS) -> None:
        """Open it over a pool, create the tables that are missing, and prove the right to write."""
        psycopg, pools, stores, _ = drivers(url)
        self.url = without_password(url)
        self._errors = errors = (psycopg.Error, pools.PoolTimeout, pools.PoolClosed)
        self._pool = Pool(psycopg, pools, url, connections)
        self.locks = Leases(self._pool, errors, self.url, lease)
        savers = importlib.import_module(".saver", __package__)  # it needs the drivers
        self.saver = savers.LeasedPostgresSaver(self._pool.connection, self.locks.of)
        self.locks.before_leaving = self.saver.leave
        self.store = PooledStore(self._pool, stores.PostgresStore, errors, self.locks)
        tables = PostgresTables(self._pool, errors, self.url, self.locks)
        self.journal = SqlJournal(lambda: tables, durable=True)
        self.locks.hands = self.journal.hands = self._pool.hands
        self.saver.hands = self._pool.saving
        try:
            with ExitStack() as opened:
                opened.callback(self._pool.close)
                # Alone it fails at once and says why; a pool tries again and only says it gave up.
                psycopg.connect(url, connect_timeout=int(BUSY_SECONDS)).close()
                self._pool.open()
                self._prepare(tables)
                opened.pop_all()
        except errors as error:
            msg = (
                f"Cannot use the database {self.url!r} ({cause_at(url, error)}): check"
                f" {REACHED}, and that this user may create and write tables there."
            )
            raise DatabaseError(msg) from error

    def _prepare(self, tables: PostgresTables) -> None:
        with self._pool.connection() as connection:
            check_encoding(connection)
            prepare(connection)
            tables.made = connection.execute(_MADE).fetchone()["made"]
        try:
            for made in (self.saver, self.store):
                patiently(made.setup, tables.is_race)
        except self._errors as error:
            # What makes nothing new wants the right to do so all the same.
            if not tables.made or getattr(error, "sqlstate", None) != _NO_RIGHT:
                raise
        Turns(self.journal).open()
        with self._pool.connection() as connection:
            # Existing tables are not touched by setup; no row is enough to ask for the right to
            # write.
            connection.execute(_ASK)

    def find(self, wanted: Wanted) -> list[Found]:
        """See Database."""
        sql, values = finding(wanted)
        with self._connected() as connection:
            return found(connection.execute(sql, values).fetchall())

    def owns(self, thread: str) -> bool:
        """See Database."""
        with self._connected() as connection:
            return connection.execute(OWNS, [storable(thread)]).fetchone() is not None

    def prunable(self) -> list[str]:
        """See Database."""
        with self._connected() as connection:
            return [row["name"] for row in connection.execute(PRUNABLE)]

    def size(self) -> int:
        """See Database; what is saved of all threads."""
        with self._connected() as connection:
            return int(connection.execute(SIZE).fetchone()["size"])

    def prune(self, thread: str, keeps: Keeps) -> str | bool:
        """See Database."""
        with self._connected() as connection:
            pruning = importlib.import_module(".pruning", __package__)
            done: str | bool = pruning.prune(connection, thread, keeps, self.locks.of(thread))
            return done

    def forget(self, thread: str) -> None:
        """See Database."""
        with self._connected() as connection:
            forget(connection, thread, self.locks.token(name_of(thread)))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            with told_lost(self._errors), self._pool.connection() as connection:
                yield connection
        except self._errors as error:
            msg = (
                f"The database {self.url!r} does not answer ({cause_of(error)}): see that the"
                " server runs, then try again."
            )
            raise DatabaseError(msg) from error

    def shrink(self) -> bool:
        """See Database; the server does that by itself."""
        return True

    def close(self) -> None:
        """See Database."""
        self.saver.close()
        self.journal.close()
        self.locks.close()
        self._pool.close()
        self._pool.hands.rest()
        self._pool.saving.rest()


def drivers(url: str) -> tuple[Any, ...]:
    """The packages that are needed.

    Raises:
        DatabaseError: They are not installed.
    """
    try:
        return tuple(importlib.import_module(name) for name in _DRIVERS)
    except ImportError as error:
        msg = (
            f"Cannot open {without_password(url)!r}: the PostgreSQL drivers are not installed"
            f" ({error.name}); install the extra `postgres`:"
            " pip install '.[postgres]' in the folder of loopwright."
        )
        raise DatabaseError(msg) from error


def cause_at(url: str, error: BaseException) -> str:
    """What a driver says of a URL, which it may repeat where it cannot be read."""
    told = cause_of(error)
    for secret in re.findall(r"(?i)(?<=//)[^:/]*:([^/]*)@|password=([^&]*)", url):
        for word in filter(None, secret):
            told = told.replace(word, "…")
    return told


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    scheme, _, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    shown = f"{scheme}://{user.partition(':')[0]}{at}{host}"
    return re.sub(r"(?i)(password=)[^&]*", r"\1…", shown)
