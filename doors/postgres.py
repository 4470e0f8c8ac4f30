"""Threads in PostgreSQL, over a pool of checked connections; locked by advisory locks.

The drivers are an extra that most installations do not have: they are imported when it is opened.
"""

import hashlib
import importlib
import os
import platform
import re
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

from ..state.errors import DatabaseError
from .journal import BUSY_SECONDS, Execute, SqlJournal, cause_of, patiently
from .langgraph_keys import THREADS_SQL
from .pruning import Keeps

_IDLE_SECONDS: Final = 300.0
"""Connections unused for longer are closed: firewalls drop idle ones silently."""

_KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection that holds locks may not be closed: it is kept awake instead."""

_RACES: Final = frozenset({"23505", "40P01", "42701", "42710", "42P07"})
"""SQLSTATEs of migrations run side by side: duplicate row, column, object or table; deadlock."""

_DRIVERS: Final = (
    "psycopg", "psycopg_pool", "langgraph.checkpoint.postgres", "langgraph.store.postgres",
)  # fmt: skip

_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"
_TAKE: Final = "SELECT pg_try_advisory_lock(%s) AS got"
_FREE: Final = "SELECT pg_advisory_unlock(%s)"
# PostgreSQL splits the 64-bit key of an advisory lock into these two columns.
_HOLDER: Final = (
    "SELECT a.application_name AS name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (l.classid::bigint << 32) | l.objid::bigint = %s"
)
_NAME: Final = "loopwright process "


class PostgresDatabase:
    """`postgresql://…`; see `durability.Database`."""

    def __init__(self, url: str) -> None:
        """Open it over a pool, create the tables that are missing, and prove the right to write."""
        psycopg, pools, savers, stores = _drivers(url)
        self.url = without_password(url)
        errors = (psycopg.Error, pools.PoolTimeout, pools.PoolClosed)
        # No prepared statements: PgBouncer hands a session to somebody else between two of them.
        rows = psycopg.rows.dict_row
        options = {"autocommit": True, "prepare_threshold": None, "row_factory": rows}
        connect = partial(psycopg.connect, url, connect_timeout=int(BUSY_SECONDS), **options)
        self._pool = pools.ConnectionPool(
            url,
            max_size=10,
            min_size=1,
            max_idle=_IDLE_SECONDS,
            timeout=BUSY_SECONDS,
            open=False,
            check=pools.ConnectionPool.check_connection,
            kwargs=options,
        )
        self.saver, self.store = savers.PostgresSaver(self._pool), stores.PostgresStore(self._pool)
        tables = PostgresTables(self._pool, errors, self.url)
        self.journal = SqlJournal(lambda: tables, durable=True)
        self.locks = PostgresLocks(
            lambda name: connect(application_name=name, keepalives_idle=_KEEP_ALIVE_SECONDS),
            errors,
            self.url,
        )
        try:
            with ExitStack() as opened:
                opened.callback(self._pool.close)
                # Alone it fails at once and says why; a pool tries again and only says it gave up.
                connect().close()
                self._pool.open()
                self._prepare(tables)
                opened.pop_all()
        except errors as error:
            msg = (
                f"Cannot use the database {self.url!r} ({cause_of(error)}): check that the server"
                " runs and that this user may create and write tables there."
            )
            raise DatabaseError(msg) from error

    def _prepare(self, tables: "PostgresTables") -> None:
        for setup in (self.saver.setup, self.store.setup):
            patiently(setup, tables.is_race)
        self.journal.open()
        with self._pool.connection() as connection:
            # Existing tables are not touched by setup; no row is enough to ask for the right to
            # write.
            connection.execute("INSERT INTO checkpoints SELECT * FROM checkpoints WHERE false")

    def thread_ids(self) -> list[str]:
        """See Database."""
        with self._pool.connection() as connection:
            return [row["thread_id"] for row in connection.execute(THREADS_SQL)]

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


def _drivers(url: str) -> tuple[Any, ...]:
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


class PostgresTables:
    """The journal's tables in Postgres, through a pool of connections in autocommit mode."""

    number = "BIGSERIAL PRIMARY KEY"
    packs = False

    def __init__(self, pool: Any, errors: tuple[type[Exception], ...], name: str) -> None:
        """Use a pool that gives rows as dicts; whoever opened it closes it."""
        self.errors, self.name = errors, name
        self._pool = pool

    @contextmanager
    def block(self, thread: str | None = None) -> Iterator[Execute]:
        """See Tables."""
        with self._pool.connection() as connection:
            execute = partial(_executed, connection)
            if thread is None:
                yield execute
                return
            with connection.transaction():
                execute(_ONE_AT_A_TIME, [thread])
                yield execute

    def is_race(self, error: Exception) -> bool:
        """See Tables."""
        return getattr(error, "sqlstate", None) in _RACES

    def close(self) -> None:
        """The pool is closed by who opened it."""


def _executed(connection: Any, sql: str, values: Sequence[object]) -> list[Any]:
    cursor = connection.execute(sql.replace("?", "%s"), values)
    return [] if cursor.description is None else list(cursor.fetchall())


class PostgresLocks:
    """The advisory locks of one session; the server lets go of them with the connection."""

    def __init__(
        self, connect: Callable[[str], Any], errors: tuple[type[Exception], ...], database: str
    ) -> None:
        """Keep one connection for locks, opened with the first.

        `connect` opens it under an application name, in autocommit mode, with rows as dicts.
        """
        self._connect = connect
        self._errors = errors
        self._database = database
        self._connection: Any = None
        self._process = os.getpid()
        self._held: set[int] = set()
        self._lock = threading.Lock()

    @property
    def place(self) -> Hashable:
        """Another session is another holder, also in this process."""
        return id(self)

    def take(self, name: str) -> Callable[[], None] | str:
        """Lock a name; see `Locks`."""
        number = _number(name)
        with self._lock:
            try:
                holder = self._holder(number)
            except self._errors as error:
                msg = (
                    f"Cannot lock a thread in the database {self._database!r} ({cause_of(error)}):"
                    " check that the server runs, then try again."
                )
                raise DatabaseError(msg) from error
            if holder is not None:
                return holder
            self._held.add(number)
        return partial(self._free, number)

    def close(self) -> None:
        """Close the connection, and with it every lock."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._held.clear()

    def _holder(self, number: int, *, again: bool = True) -> str | None:
        """Who has the lock; None if it is ours now. A broken connection is replaced once."""
        connection = self._session()
        try:
            if connection.execute(_TAKE, [number]).fetchone()["got"]:
                return None
            found = connection.execute(_HOLDER, [number]).fetchone()
        except self._errors:
            if again and connection.closed:
                return self._holder(number, again=False)
            raise
        return _in_words(found["name"]) if found else ""

    def _session(self) -> Any:
        if self._process != os.getpid():  # a forked child: the connection is its parent's
            self._connection, self._process, self._held = None, os.getpid(), set()
        if self._connection is None or self._connection.closed:
            self._connection = self._connect(f"{_NAME}{os.getpid()} on {platform.node()}"[:63])
            # With the old connection the server let go of what runs here still hold.
            for number in self._held:
                self._connection.execute(_TAKE, [number])
        return self._connection

    def _free(self, number: int) -> None:
        with self._lock:
            self._held.discard(number)
            if self._connection is None or self._connection.closed:
                return
            try:
                self._connection.execute(_FREE, [number])
            except self._errors:
                # Half a connection may still hold the lock; none does not.
                self._connection.close()


def _number(name: str) -> int:
    """The lock's key: 64 bits, signed, that no other program is likely to use."""
    text = f"loopwright thread {name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], signed=True)


def _in_words(application: str) -> str:
    """The holder from the name of its connection; its computer only where it is another one."""
    told = application.removeprefix("loopwright ") if application.startswith(_NAME) else ""
    return told.removesuffix(f" on {platform.node()}")
