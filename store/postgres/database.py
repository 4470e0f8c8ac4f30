"""Threads in PostgreSQL, over a pool of checked connections; a run holds its thread by a lease.

The drivers are an extra that most installations do not have: they are imported when it is opened.
"""

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from ...state.errors import DatabaseError
from ...text.canonical import make_storable
from ..journal.sql import BUSY_SECONDS, SqlJournal, explain_errors, get_cause, retry_while_busy
from ..locks.thread_locks import build_lock_name
from ..threads.pruning import Keeps
from ..threads.thread_list import FoundThread, ThreadQuery
from ..work.turns import find_records
from .leases import LEASE, Leases, raise_lease_lost
from .pool import CONNECTIONS, Pool
from .schema import ENDED, FREE, HELD, NO_RIGHT, UNENDED, check_encoding, prepare
from .tables import PooledStore, PostgresTables

URL: Final = re.compile(r"postgres(ql)?://")

_OWNS: Final = "SELECT FROM loopwright_threads WHERE name = %s AND updated IS NOT NULL"
"""A thread that this package's saver has saved: others may have theirs in the same tables."""

_DRIVERS: Final = (
    "psycopg", "psycopg_pool", "langgraph.store.postgres", "langgraph.checkpoint.postgres",
)  # fmt: skip

REACHED: Final = (
    "that the server runs, host and port, that the database is there, user and password"
)
"""Possible reasons why a server cannot be reached."""

_SILENT: Final = (
    "The database {database!r} does not answer ({cause}): see that the server runs, then try again."
)

_ASK: Final = "INSERT INTO checkpoint_writes SELECT * FROM checkpoint_writes WHERE false"

_MADE: Final = (
    "SELECT to_regclass('loopwright_journal') IS NOT NULL AND to_regclass('store') IS NOT NULL"
    " AND to_regclass('loopwright_taken') IS NOT NULL"
    " AND to_regclass('checkpoint_writes') IS NOT NULL AS made"
)

# A thread of which nothing is saved, and a part of one, have no time of a change.
_WHERE: Final = {
    None: "updated IS NOT NULL",
    "unfinished": f"({UNENDED} OR status <> 'complete') AND updated IS NOT NULL",
    "waiting": "state = 'asks' AND updated IS NOT NULL",
    "expired": f"{UNENDED} AND updated IS NOT NULL AND {ENDED}",
}
# OFFSET keeps those apart that are left: few of them are expired, so none is sought by its age.
_AMONG: Final = f"(SELECT * FROM loopwright_threads WHERE {UNENDED} OFFSET 0) AS left_open"
_ORDER: Final = {"newest": "updated DESC", "oldest": "updated", "largest": "bytes DESC"}

BYTES: Final = " + ".join(
    f"coalesce((SELECT sum(pg_column_size({column})) FROM {table} WHERE thread_id = name), 0)"
    for table, column in (
        ("checkpoints", "checkpoint"), ("checkpoint_blobs", "blob"), ("checkpoint_writes", "blob"),
    )
)  # fmt: skip
_SIZE: Final = f"SELECT coalesce(sum({BYTES}), 0) AS size FROM loopwright_threads"

_PRUNABLE: Final = (
    "SELECT name FROM loopwright_threads t WHERE updated IS NOT NULL AND EXISTS (SELECT 1"
    " FROM checkpoints c WHERE c.thread_id = t.name AND c.checkpoint_ns = ''"
    " AND c.parent_checkpoint_id IS NOT NULL) ORDER BY name"
)
"""Threads of which there is more than where they stand."""


_PART: Final = "name >= %(from)s AND name < %(to)s"
_FORGET: Final = (
    f"DELETE FROM loopwright_waiting WHERE name = %(name)s OR {_PART}",
    # A thread of which something is saved is no part, whatever its id.
    "DELETE FROM loopwright_threads WHERE"
    f" (name = %(name)s OR {_PART} AND updated IS NULL) AND ({FREE} OR token = %(token)s)",
)


class PostgresDatabase:
    """`postgresql://…`; see `SqliteDatabase`."""

    def __init__(self, url: str, lease: float = LEASE, connections: int = CONNECTIONS) -> None:
        """Open it over a pool, create the tables that are missing, and prove the right to write."""
        psycopg, pools, stores, _ = import_drivers(url)
        self.url = hide_password(url)
        self._errors = errors = (psycopg.Error, pools.PoolTimeout, pools.PoolClosed)
        self._pool = Pool(psycopg, pools, url, connections)
        self.locks = Leases(self._pool, errors, self.url, lease)
        # It needs the drivers.
        self._savers = importlib.import_module(".saver", __package__)
        self.saver = self._savers.LeasedPostgresSaver(self._pool.connection, self.locks.find_fence)
        self.locks.before_leaving = self.saver.flush_thread
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
                f"Cannot use the database {self.url!r} ({redact_cause(url, error)}): check"
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
                retry_while_busy(made.setup, tables.is_race)
        except self._errors as error:
            # What makes nothing new wants the right to do so all the same.
            if not tables.made or getattr(error, "sqlstate", None) != NO_RIGHT:
                raise
        if (records := find_records(self.journal)) is not None:
            records.open()
        with self._pool.connection() as connection:
            # Existing tables are not touched by setup; no row is enough to ask for the right to
            # write.
            connection.execute(_ASK)

    def find(self, wanted: ThreadQuery) -> list[FoundThread]:
        """See SqliteDatabase."""
        sql, values = build_find_statement(wanted)
        with self._borrow_connection() as connection:
            return parse_found(connection.execute(sql, values).fetchall())

    def owns(self, thread: str) -> bool:
        """See SqliteDatabase."""
        with self._borrow_connection() as connection:
            return connection.execute(_OWNS, [make_storable(thread)]).fetchone() is not None

    def prunable(self) -> list[str]:
        """See SqliteDatabase."""
        with self._borrow_connection() as connection:
            return [row["name"] for row in connection.execute(_PRUNABLE)]

    def size(self) -> int:
        """See SqliteDatabase; what is saved of all threads."""
        with self._borrow_connection() as connection:
            return int(connection.execute(_SIZE).fetchone()["size"])

    def prune(self, thread: str, keeps: Keeps) -> str | bool:
        """See SqliteDatabase."""
        with self._borrow_connection() as connection:
            done: str | bool = self._savers.prune(
                connection, thread, keeps, self.locks.find_fence(thread)
            )
            return done

    def forget(self, thread: str) -> None:
        """See SqliteDatabase."""
        with self._borrow_connection() as connection:
            _forget(connection, thread, self.locks.token(build_lock_name(thread)))

    @contextmanager
    def _borrow_connection(self) -> Iterator[Any]:
        with (
            explain_errors(self._errors, _SILENT, self.url),
            raise_lease_lost(self._errors),
            self._pool.connection() as connection,
        ):
            yield connection

    def shrink(self) -> bool:
        """See SqliteDatabase; the server does that by itself."""
        return True

    def close(self) -> None:
        """See SqliteDatabase."""
        self.saver.close()
        self.journal.close()
        self.locks.close()
        self._pool.close()
        self._pool.hands.shut_down()
        self._pool.saving.shut_down()


def build_find_statement(wanted: ThreadQuery) -> tuple[str, Sequence[object]]:
    """The statement that finds threads, and its values."""
    free = f" AND {FREE}" if wanted.which and not wanted.held else ""
    among = _AMONG if wanted.which == "expired" else "loopwright_threads"
    sql = (
        f"SELECT name, state = 'asks' AS asks, ({BYTES})::bigint AS bytes, {HELD} AS held,"
        f" {UNENDED} AND {ENDED} AS expired FROM {among}"
        f" WHERE {_WHERE[wanted.which]}{free} ORDER BY {_ORDER[wanted.order]}"
    )
    return (sql, []) if wanted.limit is None else (f"{sql} LIMIT %s", [wanted.limit])


def parse_found(rows: Sequence[Any]) -> list[FoundThread]:
    """What such a statement has found."""
    return [
        FoundThread(row["name"], row["asks"], bool(row["held"]), bool(row["expired"]), row["bytes"])
        for row in rows
    ]


def _forget(connection: Any, thread: str, token: int | None) -> None:
    """Remove its row and those of its parts, unless another run holds it, and who waits for it."""
    name, part = make_storable(thread), build_lock_name(thread, "part").removesuffix("part")
    about = {"name": name, "from": part, "to": f"{part[:-1]}\x0b", "token": token}
    with connection.transaction():
        for statement in _FORGET:
            connection.execute(statement, about)


def import_drivers(url: str) -> tuple[Any, ...]:
    """The packages that are needed; raises DatabaseError if they are not installed."""
    try:
        return tuple(importlib.import_module(name) for name in _DRIVERS)
    except ImportError as error:
        msg = (
            f"Cannot open {hide_password(url)!r}: the PostgreSQL drivers are not installed"
            f" ({error.name}); install the extra `postgres`:"
            " pip install '.[postgres]' in the folder of loopwright."
        )
        raise DatabaseError(msg) from error


def redact_cause(url: str, error: BaseException) -> str:
    """What a driver says of a URL, which it may repeat where it cannot be read."""
    told = get_cause(error)
    for secret in re.findall(r"(?i)(?<=//)[^:/]*:([^/]*)@|password=([^&]*)", url):
        for word in filter(None, secret):
            told = told.replace(word, "…")
    return told


def hide_password(url: str) -> str:
    """A URL as it may be shown."""
    scheme, _, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    shown = f"{scheme}://{user.partition(':')[0]}{at}{host}"
    return re.sub(r"(?i)(password=)[^&]*", r"\1…", shown)
