"""The journal in SQL: one schema and the same statements, whatever database holds them."""

import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any, Final, Protocol, TypeVar

from ..state.canonical import hash_of, storable, storable_json
from ..state.errors import DatabaseError, ThreadBusy
from ..state.journal import Change, Fence, Row

T = TypeVar("T")

BUSY_SECONDS: Final = 10.0
"""How long one process waits for another's write; a turn's write takes milliseconds."""

_KEPT: Final = 10_000
"""Closed rows of a thread in memory; a process that lives long must not grow with every call."""

_SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS loopwright_intents (
    seq {number},
    thread TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (thread, name)
)""",
    "CREATE INDEX IF NOT EXISTS loopwright_intents_by_state ON loopwright_intents (thread, state)",
    """
CREATE TABLE IF NOT EXISTS loopwright_fences (
    name TEXT PRIMARY KEY,
    token BIGINT NOT NULL
)""",
    """
CREATE TABLE IF NOT EXISTS loopwright_grants (
    seq {number},
    key TEXT NOT NULL UNIQUE,
    thread TEXT NOT NULL,
    body TEXT NOT NULL
)""",
    """
CREATE TABLE IF NOT EXISTS loopwright_begun (
    thread TEXT NOT NULL,
    turn TEXT NOT NULL,
    model_calls BIGINT NOT NULL,
    PRIMARY KEY (thread, turn)
)""",
)
_OPEN: Final = (
    "SELECT body FROM loopwright_intents WHERE thread = ? AND (state <> 'closed'{named})"
    " ORDER BY seq"
)
_SAVE: Final = (
    "INSERT INTO loopwright_intents (thread, name, state, body) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (thread, name) DO UPDATE SET state = excluded.state, body = excluded.body"
)
_DROP: Final = "DELETE FROM loopwright_intents WHERE thread = ? AND name = ?"
_PRUNE: Final = (
    "DELETE FROM loopwright_intents WHERE thread = ? AND state = 'closed' AND seq <="
    " (SELECT seq FROM loopwright_intents WHERE thread = ? AND state = 'closed'"
    " ORDER BY seq DESC LIMIT 1 OFFSET ?)"
)
_FENCE: Final = "SELECT token FROM loopwright_fences WHERE name = ?"
_RAISE: Final = (
    "INSERT INTO loopwright_fences (name, token) VALUES (?, 1)"
    " ON CONFLICT (name) DO UPDATE SET token = loopwright_fences.token + 1 RETURNING token"
)
_GRANT: Final = (
    "INSERT INTO loopwright_grants (key, thread, body) VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO NOTHING"
)
_GRANTS: Final = "SELECT body FROM loopwright_grants WHERE thread = ? ORDER BY seq"
_COUNT: Final = (
    "INSERT INTO loopwright_begun (thread, turn, model_calls) VALUES (?, ?, ?)"
    " ON CONFLICT (thread, turn) DO UPDATE"
    " SET model_calls = loopwright_begun.model_calls + ? RETURNING model_calls"
)
_OF_THREADS: Final = ("loopwright_intents", "loopwright_grants", "loopwright_begun")

Execute = Callable[[str, Sequence[object]], list[Any]]


class Tables(Protocol):
    """What differs from one SQL database to the next; safe to use from several threads.

    Attributes:
        name: The database, for error messages.
        number: The type of a column that counts its rows.
        errors: What its driver raises.
    """

    name: str
    number: str
    errors: tuple[type[Exception], ...]

    def block(self, thread: str | None = None) -> AbstractContextManager[Execute]:
        """A block whose statements count all or not at all, alone with the rows of a thread.

        A statement's values stand as `?`; it gives rows, to be read by column name. Without a
        thread each statement is a transaction of its own.
        """

    def is_race(self, error: Exception) -> bool:
        """Whether it comes only from another process that creates the same tables."""

    def close(self) -> None:
        """Close what is its own, when nobody uses it any more."""


class SqlJournal:
    """See `state.journal.Journal`."""

    def __init__(self, connect: Callable[[], Tables], *, durable: bool) -> None:
        """Open the database by `connect`, at the first use: its tables take 60 kB of a file."""
        self.durable = durable
        self._connect = connect
        self._tables: Tables | None = None
        self._closed = False
        self._lock = threading.Lock()

    def rows(self, thread: str, names: Collection[str] = ()) -> list[Row]:
        """See Journal."""
        with self._block() as execute:
            return _open_rows(execute, thread, names)

    def transact(
        self,
        thread: str,
        work: Callable[[Sequence[Row]], tuple[T, Change]],
        *,
        names: Collection[str] = (),
        fence: Fence | None = None,
    ) -> T:
        """See Journal."""
        with self._block(thread) as execute:
            if fence is not None:
                _check_fence(execute, fence)
            result, change = work(_open_rows(execute, thread, names))
            for row in change.save:
                body = json.dumps(storable_json(asdict(row)), ensure_ascii=False, default=str)
                execute(_SAVE, [storable(thread), storable(row.name), row.state, body])
            for name in change.drop:
                execute(_DROP, [storable(thread), storable(name)])
            if not self.durable:
                execute(_PRUNE, [storable(thread), storable(thread), _KEPT])
            return result

    def raise_fence(self, name: str) -> Fence:
        """See Journal."""
        with self._block() as execute:
            return Fence(name, int(execute(_RAISE, [storable(name)])[0]["token"]))

    def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """See Journal."""
        body = json.dumps(storable_json(dict(grant)), ensure_ascii=False)
        with self._block() as execute:
            execute(_GRANT, [hash_of([thread, dict(grant)]), storable(thread), body])

    def grants(self, thread: str) -> list[dict[str, Any]]:
        """See Journal."""
        with self._block() as execute:
            return [json.loads(row["body"]) for row in execute(_GRANTS, [storable(thread)])]

    def model_calls(self, thread: str, turn: str, *, add: int = 0, at_least: int = 0) -> int:
        """See Journal."""
        values = [storable(thread), storable(turn), at_least + add, add]
        with self._block() as execute:
            return int(execute(_COUNT, values)[0]["model_calls"])

    def forget(self, thread: str) -> None:
        """See Journal."""
        with self._block() as execute:
            for table in _OF_THREADS:
                execute(f"DELETE FROM {table} WHERE thread = ?", [storable(thread)])

    def close(self) -> None:
        """Close it when what is under way has ended; a second call does nothing."""
        with self._lock:
            self._closed = True
            tables = self._tables
        if tables is not None:
            tables.close()

    def open(self) -> Tables:
        """The database it is kept in, opened and given its tables if that is not done.

        Raises:
            DatabaseError: It cannot be opened, or was closed.
        """
        with self._lock:
            if self._closed:
                msg = "The journal of tool calls was closed: open the database again."
                raise DatabaseError(msg)
            if self._tables is None:
                tables = self._connect()
                with _told(tables):
                    patiently(lambda: _create(tables), tables.is_race)
                self._tables = tables
            return self._tables

    @contextmanager
    def _block(self, thread: str | None = None) -> Iterator[Execute]:
        tables = self.open()
        with _told(tables), tables.block(thread) as execute:
            yield execute


class MemoryJournal(SqlJournal):
    """The journal of a graph that was given none: it lasts as long as the process."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__(_in_memory, durable=False)


class SqliteTables:
    """The journal's tables in SQLite, through a connection in autocommit mode."""

    number = "INTEGER PRIMARY KEY"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        """Use this connection alone; `name` is the file."""
        self.name = name
        connection.row_factory = sqlite3.Row
        # A claim must survive a power cut: WAL alone promises only a crash of the process.
        connection.execute("PRAGMA synchronous=FULL")
        self._connection = connection
        self._lock = threading.Lock()
        weakref.finalize(self, connection.close)

    @contextmanager
    def block(self, thread: str | None = None) -> Iterator[Execute]:
        """See Tables; SQLite has one writer at a time, for whatever thread."""
        with self._lock:
            if thread is None:
                yield self._execute
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _execute(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def is_race(self, error: Exception) -> bool:
        """See Tables."""
        return is_sqlite_race(error)

    def close(self) -> None:
        """See Tables."""
        with self._lock:
            self._connection.close()


def is_sqlite_race(error: Exception) -> bool:
    """Whether another process is opening the same file; LangGraph's migrations find its columns."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY or "duplicate column" in str(error)
    return isinstance(error, sqlite3.IntegrityError)


def _in_memory() -> SqliteTables:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    return SqliteTables(connection, ":memory:")


def _create(tables: Tables) -> None:
    with tables.block() as execute:
        for statement in _SCHEMA:
            execute(statement.format(number=tables.number), [])


def _open_rows(execute: Execute, thread: str, names: Collection[str]) -> list[Row]:
    marks = ", ".join("?" * len(names))
    sql = _OPEN.format(named=f" OR name IN ({marks})" if names else "")
    found = execute(sql, [storable(thread), *map(storable, names)])
    return [Row(**json.loads(row["body"])) for row in found]


def _check_fence(execute: Execute, fence: Fence) -> None:
    found = execute(_FENCE, [storable(fence.name)])
    if not found or found[0]["token"] != fence.token:
        msg = (
            f"Another run has locked the thread {fence.name!r} since this one began: it stops"
            " before it changes anything more. Resume the thread when that run has ended."
        )
        raise ThreadBusy(msg)


@contextmanager
def _told(tables: Tables) -> Iterator[None]:
    try:
        yield
    except tables.errors as error:
        msg = (
            f"Cannot use the journal of tool calls in {tables.name!r} ({cause_of(error)}): a call"
            " that may change the world is not made unrecorded; mend the database, then resume"
            " the thread."
        )
        raise DatabaseError(msg) from error


def patiently(act: Callable[[], object], passes: Callable[[Exception], bool]) -> None:
    """Repeat what fails only because another process is opening the same database."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            act()
        except Exception as error:
            if not passes(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def cause_of(error: Exception) -> str:
    """What a driver says, in its first line."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
