"""Threads in PostgreSQL, over a pool of checked connections; a run holds its thread by a lease.

The drivers are an extra that most installations do not have: they are imported when it is opened.
"""

import importlib
import re
from contextlib import ExitStack
from typing import Any, Final

from ...state.errors import DatabaseError
from ..journal import BUSY_SECONDS, SqlJournal, cause_of, patiently
from ..pruning import Keeps
from .leases import LEASE, Leases
from .pool import CONNECTIONS, Pool
from .saver import PostgresSaver
from .schema import prepare
from .tables import PostgresTables

_DRIVERS: Final = ("psycopg", "psycopg_pool", "langgraph.store.postgres")

_ASK: Final = "INSERT INTO loopwright_writes SELECT * FROM loopwright_writes WHERE false"
_THREADS: Final = "SELECT name FROM loopwright_threads WHERE state <> '' ORDER BY updated DESC"


class PostgresDatabase:
    """`postgresql://…`; see `durability.Database`."""

    def __init__(self, url: str, lease: float = LEASE, connections: int = CONNECTIONS) -> None:
        """Open it over a pool, create the tables that are missing, and prove the right to write."""
        psycopg, pools, stores = drivers(url)
        self.url = without_password(url)
        errors = (psycopg.Error, pools.PoolTimeout, pools.PoolClosed)
        self._pool = Pool(psycopg, pools, url, connections)
        self.locks = Leases(self._pool, errors, self.url, lease)
        self.saver = PostgresSaver(self._pool.connection, self.locks.of)
        self.locks.before_leaving = self.saver.line.rest
        self.store = stores.PostgresStore(self._pool.pool)
        tables = PostgresTables(self._pool, errors, self.url, self.locks)
        self.journal = SqlJournal(lambda: tables, durable=True)
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
                f"Cannot use the database {self.url!r} ({cause_of(error)}): check that the server"
                " runs and that this user may create and write tables there."
            )
            raise DatabaseError(msg) from error

    def _prepare(self, tables: PostgresTables) -> None:
        patiently(self.store.setup, tables.is_race)
        self.journal.open()
        with self._pool.connection() as connection:
            prepare(connection)
            # Existing tables are not touched by setup; no row is enough to ask for the right to
            # write.
            connection.execute(_ASK)

    def thread_ids(self) -> list[str]:
        """See Database."""
        with self._pool.connection() as connection:
            return [row["name"] for row in connection.execute(_THREADS)]

    def size(self) -> int:
        """See Database."""
        return 0

    def prune(self, thread: str, keeps: Keeps) -> str | bool:  # noqa: ARG002 - see Database
        """See Database; not here yet."""
        msg = (
            f"Threads in {self.url!r} cannot be pruned: that can be done in a SQLite database only."
            " Delete threads you no longer need by checkpointer.delete_thread(thread)."
        )
        raise DatabaseError(msg)

    def shrink(self) -> bool:
        """See Database; the server does that by itself."""
        return True

    def close(self) -> None:
        """See Database."""
        self.journal.close()
        self.locks.close()
        self._pool.close()


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
            f" ({error.name}); run pip install 'loopwright[postgres]'."
        )
        raise DatabaseError(msg) from error


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    scheme, _, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    shown = f"{scheme}://{user.partition(':')[0]}{at}{host}"
    return re.sub(r"(?i)(password=)[^&]*", r"\1…", shown)
