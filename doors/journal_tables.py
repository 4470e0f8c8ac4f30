"""The tables of the journal in SQLite and Postgres: the same statements for both."""

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, Protocol

from ..state.errors import DatabaseError

_INTENTS: Final = """
CREATE TABLE IF NOT EXISTS loopwright_intents (
    seq {number},
    thread TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (thread, name)
)"""
_BY_THREAD: Final = (
    "CREATE INDEX IF NOT EXISTS loopwright_intents_by_state ON loopwright_intents (thread, state)"
)
_FENCES: Final = """
CREATE TABLE IF NOT EXISTS loopwright_fences (
    name TEXT PRIMARY KEY,
    token BIGINT NOT NULL
)"""
_GRANTS: Final = """
CREATE TABLE IF NOT EXISTS loopwright_grants (
    seq {number},
    key TEXT NOT NULL UNIQUE,
    thread TEXT NOT NULL,
    body TEXT NOT NULL
)"""
_BEGUN: Final = """
CREATE TABLE IF NOT EXISTS loopwright_begun (
    thread TEXT NOT NULL,
    turn TEXT NOT NULL,
    model_calls BIGINT NOT NULL,
    PRIMARY KEY (thread, turn)
)"""
_SCHEMA: Final = (_INTENTS, _BY_THREAD, _FENCES, _GRANTS, _BEGUN)
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"

Execute = Callable[[str, Sequence[object]], tuple[int, list[Any]]]


class Tables(Protocol):
    """An open database that holds the journal; safe to use from several threads."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> tuple[int, list[Any]]:
        """Run one statement in a transaction of its own; `?` stands for a value.

        Returns:
            How many rows it changed, and the rows it found, to be read by column name.

        Raises:
            DatabaseError: The database cannot be read or written.
        """

    def transaction(self, thread: str) -> AbstractContextManager[Execute]:
        """A block whose statements count all or not at all, alone with the rows of a thread."""

    def close(self) -> None:
        """Close it when nobody uses it any more."""


class SqliteTables:
    """The tables in a SQLite database, through a connection in autocommit mode."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        """Use this connection alone; `name` is the file, for error messages."""
        connection.row_factory = sqlite3.Row
        self._connection = connection
        self._name = name
        self._lock = threading.Lock()
        weakref.finalize(self, connection.close)

    def create(self) -> None:
        """Create the tables that are missing.

        Raises:
            sqlite3.Error: It cannot be done; SQLITE_BUSY where another process is at it.
        """
        with self._lock:
            # A claim must survive a power cut: WAL alone promises only a crash of the process.
            self._connection.execute("PRAGMA synchronous=FULL")
            for statement in _SCHEMA:
                self._connection.execute(statement.format(number="INTEGER PRIMARY KEY"))

    def execute(self, sql: str, values: Sequence[object] = ()) -> tuple[int, list[Any]]:
        """See Tables."""
        try:
            with self._lock:
                return self._execute(sql, values)
        except sqlite3.Error as error:
            raise unusable(self._name, error) from error

    def _execute(self, sql: str, values: Sequence[object]) -> tuple[int, list[Any]]:
        cursor = self._connection.execute(sql, values)
        return cursor.rowcount, cursor.fetchall()

    @contextmanager
    def transaction(self, thread: str) -> Iterator[Execute]:
        """See Tables; SQLite has one writer at a time, for whatever thread."""
        del thread
        try:
            with self._lock:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._execute
                    self._connection.execute("COMMIT")
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise unusable(self._name, error) from error

    def close(self) -> None:
        """See Tables."""
        with self._lock:
            self._connection.close()


class PostgresTables:
    """The tables in a Postgres database, through somebody else's pool of connections."""

    def __init__(self, pool: Any, errors: tuple[type[Exception], ...], name: str) -> None:
        """Use an open pool whose connections are in autocommit mode and give rows as dicts.

        Args:
            pool: A `psycopg_pool.ConnectionPool`; whoever opened it closes it.
            errors: What driver and pool raise.
            name: The database, for error messages.
        """
        self._pool = pool
        self._errors = errors
        self._name = name

    def create(self) -> None:
        """Create the tables that are missing; a race with another process raises its error."""
        with self._pool.connection() as connection:
            for statement in _SCHEMA:
                connection.execute(statement.format(number="BIGSERIAL PRIMARY KEY"))

    def execute(self, sql: str, values: Sequence[object] = ()) -> tuple[int, list[Any]]:
        """See Tables."""
        with self._told(), self._pool.connection() as connection:
            return _executed(connection, sql, values)

    @contextmanager
    def transaction(self, thread: str) -> Iterator[Execute]:
        """See Tables."""
        with (
            self._told(),
            self._pool.connection() as connection,
            connection.transaction(),
        ):
            connection.execute(_ONE_AT_A_TIME, [thread])
            yield partial(_executed, connection)

    def close(self) -> None:
        """The pool is closed by who opened it."""

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise unusable(self._name, error) from error


def _executed(connection: Any, sql: str, values: Sequence[object]) -> tuple[int, list[Any]]:
    cursor = connection.execute(sql.replace("?", "%s"), values)
    found = [] if cursor.description is None else cursor.fetchall()
    return cursor.rowcount, found


def unusable(name: str, error: Exception) -> DatabaseError:
    """The sentence for a journal that cannot be read or written."""
    cause = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    msg = (
        f"Cannot use the journal of tool calls in {name!r} ({cause}): a call that may change the"
        " world is not made unrecorded; mend the database, then resume the thread."
    )
    return DatabaseError(msg)


Connect = Callable[[], Tables]
