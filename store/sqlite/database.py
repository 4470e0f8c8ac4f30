"""Threads in a SQLite file: opened for several processes, and kept small."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from ..base.langgraph_keys import THREADS_SQL
from ..checkpoints.packing import is_own
from ..journal.sql import BUSY_SECONDS, SqlJournal, explain_errors, retry_while_busy
from ..journal.tables import VERSION, SqliteTables, begin_transaction, is_sqlite_race
from ..threads.pruning import JOURNAL, STORE, Keeps, NotPrunableError, ThreadPruning
from ..threads.thread_list import FoundThread, ThreadQuery
from .file import SCHEMA, DatabaseFile, SqliteLocks
from .saver import LeanSqliteSaver

_MEMORY: Final = ":memory:"
_PAGE_BYTES: Final = 8192
_LOG_PAGES: Final = 250
_ERRORS: Final = (sqlite3.Error, OSError)
_UNUSABLE: Final = (
    "Cannot use {database!r} as a database ({cause}): check that it is a SQLite file in a folder"
    " you may write, or give another URL."
)

_BESIDE: Final = f"SELECT name FROM sqlite_master WHERE name IN ('{JOURNAL}', '{STORE}')"
_SIZES: Final = (
    "SELECT thread_id, sum(size) FROM ("
    "SELECT thread_id, length(checkpoint) AS size FROM checkpoints"
    " UNION ALL SELECT thread_id, length(value) FROM writes) GROUP BY thread_id"
)


class SqliteDatabase:
    """`sqlite:///FILE`: a saver, a store, a journal and locks, safe to use from several threads."""

    def __init__(self, url: str) -> None:
        """Open it; the journal's connection and tables come with what is first recorded.

        The saver relies on implicit transactions, the store opens its own: two connections.
        """
        name = url.removeprefix("sqlite:///")
        given = name if name == _MEMORY else str(Path(name).expanduser())
        with explain_errors(_ERRORS, _UNUSABLE, given), ExitStack() as opened:
            file = None if given == _MEMORY else DatabaseFile(given)
            path = file.path if file else _MEMORY
            self.saver = LeanSqliteSaver(_connect(path, autocommit=False), file)
            opened.callback(self.saver.conn.close)
            self.store = SqliteStore(_connect(path, autocommit=True))
            opened.callback(self.store.conn.close)
            self._prepare()
            if file is not None:
                file.mark_open()
            opened.pop_all()
        self.url, self._file = url, file
        self.locks = SqliteLocks(self.saver)
        tables = partial(_open_journal_tables, path, given, file)
        self.journal = SqlJournal(tables, durable=file is not None)

    def _prepare(self) -> None:
        """Write: opening proves nothing, SQLite opens read-only files and looks at first use."""
        with begin_transaction(self.store.conn) as execute:
            execute(f"CREATE TABLE IF NOT EXISTS {SCHEMA} (version INT NOT NULL)", [])
            execute(f"DELETE FROM {SCHEMA}", [])
            execute(f"INSERT INTO {SCHEMA} (version) VALUES (?)", [VERSION])
            self.store.setup()
        retry_while_busy(self.saver.setup, is_sqlite_race)  # each table where it is missing

    def find(self, wanted: ThreadQuery) -> list[FoundThread]:
        """The threads that are asked for, in their order; if no row tells which, all of them.

        To tell the largest it reads all that is saved.
        """
        largest = wanted.order == "largest"
        with self.saver.cursor(transaction=False) as cursor:
            rows = cursor.execute(THREADS_SQL).fetchall()
            sizes = dict(cursor.execute(_SIZES).fetchall()) if largest else {}
        names = (name for name, kind, _ in rows if is_own(kind))
        found = [FoundThread(name, bytes=sizes.get(name)) for name in islice(names, wanted.among)]
        if largest:
            found.sort(key=lambda one: one.bytes or 0, reverse=True)
        return found[::-1] if wanted.order == "oldest" else found

    def owns(self, thread: str) -> bool:
        """Whether a thread is saved that is not another saver's."""
        kind = self.saver.find_kind(thread)
        return kind is not None and is_own(kind)

    def prunable(self) -> list[str]:
        """Every thread of which something may be removed."""
        return [one.thread_id for one in self.find(ThreadQuery(None, "newest", None))]

    def forget(self, thread: str) -> None:
        """Remove what it keeps of a thread beside, when all else of it is gone: nothing."""

    def size(self) -> int:
        """Bytes it takes."""
        if self._file is None:
            with self.saver.lock:
                pages, size = (
                    self.saver.conn.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "page_size")
                )
            return int(pages * size)
        with self._open_separate_saver() as saver:  # what lies in the log beside it counts once
            saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._file.size()

    def prune(self, thread: str, keeps: Keeps) -> str | bool:
        """Remove what is not kept of a held thread; whether anything went, or why it was left."""
        with self._open_separate_saver() as saver, begin_transaction(saver.conn) as execute:
            beside = [row["name"] for row in execute(_BESIDE, ())]
            pruning = ThreadPruning(execute, saver, beside)
            try:
                return pruning.prune(thread, keeps)
            except NotPrunableError as left:
                saver.conn.rollback()
                return str(left)

    def shrink(self) -> bool:
        """Return free pages to the file system; False if that is not possible now.

        It is not possible while another process has an open transaction.
        """
        with self._open_separate_saver() as saver:
            try:
                saver.conn.execute("VACUUM")
                saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.OperationalError:
                return False
        return True

    @contextmanager
    def _open_separate_saver(self) -> Iterator[SqliteSaver]:
        """A saver with a connection of its own, so that nobody else ends its transaction."""
        if self._file is None:
            yield self.saver
            return
        self._file.check()
        with (
            explain_errors(_ERRORS, _UNUSABLE, self._file.path),
            closing(_connect(self._file.path, autocommit=False)) as own,
        ):
            saver = LeanSqliteSaver(own, self._file)
            saver.setup()
            yield saver

    def close(self) -> None:
        """Close it, when a write of a cancelled run has ended; a second call does nothing."""
        if self._file is not None:
            self._file.mark_closed()
        self.journal.close()
        for owner in (self.saver, self.store):
            with owner.lock:
                owner.conn.close()


class _UnbrokenConnection(sqlite3.Connection):
    """A connection whose scripts do not end the transaction around them, as `sqlite3`'s would."""

    def executescript(self, script: str) -> sqlite3.Cursor:
        """Change the store; a kill may have left a column without the number of its change."""
        for statement in script.split(";"):
            try:
                self.execute(statement)
            except sqlite3.OperationalError as error:
                if "duplicate column" not in str(error):
                    raise
        return self.cursor()


def _open_journal_tables(path: str, given: str, file: DatabaseFile | None) -> SqliteTables:
    check = file.check if file else None
    if check is not None:
        check()
    with explain_errors(_ERRORS, _UNUSABLE, given):
        return SqliteTables(_connect(path, autocommit=True), given, check)


def _connect(path: str, *, autocommit: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        check_same_thread=False,
        isolation_level=None if autocommit else "DEFERRED",
        factory=_UnbrokenConnection if autocommit else sqlite3.Connection,
    )
    try:
        # Of a new file: checkpoints of about 1 kB leave a fifth of a 4 kB page unused.
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        # Of its log: 2 MB at most lie beside the file.
        connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
        # A killed process loses nothing by it. A power failure may take the newest steps of a
        # thread, never a call it recorded: the journal's connection waits for the disk.
        connection.execute("PRAGMA synchronous=NORMAL")
        # Readers and one writer side by side; the switch ignores the busy timeout.
        retry_while_busy(
            lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone(), is_sqlite_race
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection
