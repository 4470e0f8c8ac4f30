"""What a SQL database has to bring for the journal; what SQLite brings."""

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from ...state.errors import DatabaseError
from .port import Fence

T = TypeVar("T")
P = ParamSpec("P")

VERSION: Final = 3
"""Of the tables; those of another version are refused, never taken for empty."""

TOO_LONG: Final = "54000"
"""The SQLSTATE of what is more than an index takes."""
SHORTER: Final = (
    "An id is too long to be saved in PostgreSQL: give threads, turns and what is kept in the store"
    " ids of 2,000 bytes at most. Nothing was saved under it."
)

Execute = Callable[[str, Sequence[object]], list[Any]]


def explain_refusal(found: int, *, used: bool) -> str | None:
    """Why tables of this version must be left alone, or None; `used`: some have no version."""
    if found > VERSION:
        return (
            f"The tables of this database are those of a newer loopwright (version {found}, this"
            f" one knows {VERSION}): update the package here, or use another database."
        )
    if found == VERSION or not (found or used):
        return None
    return (
        f"The tables of this database are those of an earlier loopwright (version {found or 1},"
        f" this one knows {VERSION}), which it cannot read: end its threads with the version that"
        " began them, or use another database."
    )


class NotDone(Exception):
    """A block of which nothing counts, because its connection was cut: it may be done again."""


def retry_once(method: Callable[P, T]) -> Callable[P, T]:
    """Run a method again whose block did not count; DatabaseError if it does not count then."""

    @wraps(method)
    def call_twice(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except NotDone:
            pass
        try:
            return method(*args, **options)
        except NotDone as error:
            raise DatabaseError(str(error)) from error

    return call_twice


class Tables(Protocol):
    """The differences between SQL databases; safe to use from several threads.

    Attributes:
        name: The database, for error messages.
        number: The type of a column that counts its rows.
        errors: The error classes of its driver.
        made: All tables exist: a user without the right to create tables uses these.
        packs: Whether compressed texts take less room; some databases compress by themselves.
        now: SQL for the seconds since 1970 by its clock.
        pool: The connections of a server; None for a file.
    """

    name: str
    number: str
    errors: tuple[type[Exception], ...]
    made: bool
    packs: bool
    now: str
    pool: Any

    def block(
        self, thread: str | None = None, fence: Fence | None = None
    ) -> AbstractContextManager[Execute]:
        """A block whose statements count all or not at all, alone with the rows of a thread.

        A statement's values stand as `?`; it gives rows, to be read by column name. Without a
        thread each statement is a transaction of its own.

        Raises:
            NotDone: The connection was cut, and nothing counts.
            LeaseLost: The fence of the run, or else the lease by which this process holds the
                thread, is another's by now; told before or after the block, and nothing counts.
        """

    def holds(self, thread: str) -> tuple[str, Sequence[object]]:
        """What a single statement asks for that is only to count under the thread's lease.

        A condition and its values, which fails the statement as `block` would.
        """

    def token(self, name: str) -> int | None:
        """The token of the lease by which this process holds a name; None without leases.

        A run's fence is this token, and `block` checks it.
        """

    def is_race(self, error: Exception) -> bool:
        """Whether it comes only from another process that creates the same tables."""

    def close(self) -> None:
        """Close what is its own, when nobody uses it any more."""


class SqliteTables:
    """The journal's tables in SQLite, through a connection in autocommit mode."""

    number = "INTEGER PRIMARY KEY"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    made = False
    packs = True
    now = "((julianday('now') - 2440587.5) * 86400.0)"
    pool = None

    def __init__(
        self, connection: sqlite3.Connection, name: str, check: Callable[[], None] | None = None
    ) -> None:
        """Use this connection alone; `name` is the file.

        `check` is called before a block: it raises where nothing that is written would be kept.
        """
        self.name, self._check = name, check
        connection.row_factory = sqlite3.Row
        # A claim must survive a power cut: WAL alone promises only a crash of the process.
        connection.execute("PRAGMA synchronous=FULL")
        self._connection = connection
        self._lock = threading.Lock()
        weakref.finalize(self, connection.close)

    @contextmanager
    def block(self, thread: str | None = None, fence: Fence | None = None) -> Iterator[Execute]:  # noqa: ARG002 - see Tables
        """See Tables; SQLite has one writer at a time, for whatever thread."""
        if self._check is not None:
            self._check()
        with self._lock:
            if thread is None:
                yield self._execute
                return
            with begin_transaction(self._connection) as execute:
                yield execute

    def _execute(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def holds(self, thread: str) -> tuple[str, Sequence[object]]:  # noqa: ARG002 - see Tables
        """See Tables."""
        return "true", ()

    def token(self, name: str) -> None:
        """See Tables; a thread is held by a file's lock."""

    def is_race(self, error: Exception) -> bool:
        """See Tables."""
        return is_sqlite_race(error)

    def close(self) -> None:
        """See Tables."""
        with self._lock:
            self._connection.close()


@contextmanager
def begin_transaction(connection: sqlite3.Connection) -> Iterator[Execute]:
    """A block whose statements count all or not at all; their rows are read by column name."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    cursor.execute("BEGIN IMMEDIATE")
    try:
        yield lambda sql, values: cursor.execute(sql, values).fetchall()
        connection.commit()
    finally:
        if connection.in_transaction:
            connection.rollback()


def is_sqlite_race(error: Exception) -> bool:
    """Whether another process uses the same file, or repairs what a killed one left of it."""
    code = error.sqlite_errorcode if isinstance(error, sqlite3.OperationalError) else 0
    return code & 0xFF == sqlite3.SQLITE_BUSY
