"""The journal in SQLite: its tables, through a connection of their own."""

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .port import Fence
from .tables import Execute


class SqliteTables:
    """The journal's tables in SQLite, through a connection in autocommit mode."""

    number = "INTEGER PRIMARY KEY"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    made = False
    packs = True
    now = "((julianday('now') - 2440587.5) * 86400.0)"
    free = died = skips = ""

    def __init__(
        self,
        connection: sqlite3.Connection,
        name: str,
        check: Callable[[], None] | None = None,
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
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._execute
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

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


def is_sqlite_race(error: Exception) -> bool:
    """Whether another process uses the same file, or mends what a killed one left of it."""
    code = error.sqlite_errorcode if isinstance(error, sqlite3.OperationalError) else 0
    return code & 0xFF == sqlite3.SQLITE_BUSY
