"""Threads in a SQLite file: opened for several processes, kept small, locked by files beside it."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from filelock import BaseFileLock, FileLock, Timeout
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from ...state.errors import DatabaseError
from ..deflate import lean_serializer, next_version
from ..journal import (
    BUSY_SECONDS,
    SqliteTables,
    SqlJournal,
    cause_of,
    is_sqlite_race,
    patiently,
)
from ..langgraph_keys import THREADS_SQL
from ..line import Line
from ..packed_writes import PackingSaver
from ..pruning import Keeps
from ..tables import Execute
from ..thread_pruning import LeftError, Rows, ThreadPruning
from .file import DatabaseFile

_MEMORY: Final = ":memory:"
_PAGE_BYTES: Final = 8192
_TABLES: Final = ("checkpoints", "writes")

_SIZES: Final = (
    "SELECT thread_id, sum(size) FROM ("
    "SELECT thread_id, length(checkpoint) AS size FROM checkpoints"
    " UNION ALL SELECT thread_id, length(value) FROM writes) GROUP BY thread_id"
)


class SqliteDatabase:
    """`sqlite:///FILE`; see `durability.Database`."""

    def __init__(self, url: str) -> None:
        """Open it; the journal's connection and tables come with what is first recorded.

        The saver relies on implicit transactions, the store opens its own: two connections.
        """
        name = url.removeprefix("sqlite:///")
        given = name if name == _MEMORY else str(Path(name).expanduser())
        with _told(given), ExitStack() as opened:
            file = None if given == _MEMORY else DatabaseFile(given)
            path = file.path if file else _MEMORY
            self.saver = LeanSqliteSaver(_connect(path, autocommit=False), file)
            opened.callback(self.saver.conn.close)
            self.store = SqliteStore(_connect(path, autocommit=True))
            opened.callback(self.store.conn.close)
            self._prepare()
            if file is not None:
                file.is_open()
            opened.pop_all()
        self.url, self._file = url, file
        self.locks = SqliteLocks(self.saver)
        tables = partial(_journal_tables, path, given, file)
        self.journal = SqlJournal(tables, durable=file is not None)

    def _prepare(self) -> None:
        """Write: opening proves nothing, SQLite opens read-only files and looks at first use."""
        connection = self.store.conn
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
        for setup in (self.saver.setup, self.store.setup):
            patiently(setup, is_sqlite_race)

    def thread_ids(self) -> list[str]:
        """See Database."""
        with self.saver.cursor(transaction=False) as cursor:
            return [thread for (thread,) in cursor.execute(THREADS_SQL)]

    def sizes(self) -> dict[str, int]:
        """See Database; reads all that is saved."""
        with self.saver.cursor(transaction=False) as cursor:
            return dict(cursor.execute(_SIZES).fetchall())

    def size(self) -> int:
        """See Database."""
        if self._file is None:
            with self.saver.lock:
                pages, size = (
                    self.saver.conn.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "page_size")
                )
            return int(pages * size)
        with self._apart() as saver:  # what lies in the log beside it counts once
            saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._file.size()

    def prune(self, thread: str, keeps: Keeps) -> str | bool:
        """See Database."""
        with self._apart() as saver, _transaction(saver.conn) as execute:
            has = partial(_has, execute)
            try:
                return ThreadPruning(Rows(execute, saver, has)).prune(thread, keeps)
            except LeftError as left:
                saver.conn.rollback()
                return str(left)

    def shrink(self) -> bool:
        """See Database; not while another process is in the middle of something."""
        with self._apart() as saver:
            try:
                saver.conn.execute("VACUUM")
                saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.OperationalError:
                return False
        return True

    @contextmanager
    def _apart(self) -> Iterator[SqliteSaver]:
        """A saver with a connection of its own, so that nobody else ends its transaction."""
        if self._file is None:
            yield self.saver
            return
        self._file.check()
        with _told(self._file.path), closing(_connect(self._file.path, autocommit=False)) as own:
            saver = LeanSqliteSaver(own, self._file)
            saver.setup()
            yield saver

    def close(self) -> None:
        """See Database; waits for a write of a cancelled run."""
        if self._file is not None:
            self._file.is_closed()
        self.journal.close()
        for owner in (self.saver, self.store):
            with owner.lock:
                owner.conn.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[Execute]:
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


def _has(execute: Execute, table: str) -> bool:
    return bool(execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [table]))


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        msg = (
            f"Cannot use {path!r} as a database ({cause_of(error)}): check that it is a SQLite"
            " file in a folder you may write, or give another URL."
        )
        raise DatabaseError(msg) from error


def _journal_tables(path: str, given: str, file: DatabaseFile | None) -> SqliteTables:
    check = file.check if file else None
    if check is not None:
        check()
    with _told(given):
        return SqliteTables(_connect(path, autocommit=True), given, check)


def _connect(path: str, *, autocommit: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        check_same_thread=False,
        isolation_level=None if autocommit else "DEFERRED",
    )
    try:
        # Of a new file: checkpoints of about 1 kB leave a fifth of a 4 kB page unused.
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        # A killed process loses nothing by it. A power failure may take the newest steps of a
        # thread, never a call it recorded: the journal's connection waits for the disk.
        connection.execute("PRAGMA synchronous=NORMAL")
        # Readers and one writer side by side; the switch ignores the busy timeout.
        patiently(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone(), is_sqlite_race)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


class LeanSqliteSaver(PackingSaver):
    """LangGraph's SQLite saver, packing and compressing; it can drop what a finished turn left."""

    def __init__(self, connection: sqlite3.Connection, file: DatabaseFile | None = None) -> None:
        """Save through this connection; it may be used from several threads.

        What may be saved says `lean_serializer`.
        """
        super().__init__(connection, serde=lean_serializer())
        self._file = file
        self.line = Line(self._together)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """One transaction for all that the line does in a block."""
        with self.lock:
            try:
                yield
                self.conn.commit()
            except BaseException:
                self.conn.rollback()
                raise

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor, on a file that is still the one that was opened."""
        if self._file is not None:
            self._file.check()
        try:
            if self.line.is_here:
                self.setup()
                with closing(self.conn.cursor()) as cursor:
                    yield cursor
            else:
                with super().cursor(transaction) as cursor:
                    yield cursor
        except sqlite3.OperationalError as error:
            msg = (
                f"Nothing can be saved or read any more ({cause_of(error)}): make room, or see that"
                " the database may be written, then resume the thread."
            )
            raise DatabaseError(msg) from error

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's signature
        """A channel's next version; see `next_version`."""
        return next_version(current)

    def forget_scratch(self, thread_id: str, nodes: Iterable[str]) -> None:
        """Delete the checkpoints of subgraphs that ran inside these nodes of a thread.

        They serve to resume a task in its middle. Once its turn has ended, its result and
        evidence are in the thread's own checkpoints.
        """
        with self.cursor() as cursor:
            for node in nodes:
                for table in _TABLES:
                    cursor.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns GLOB ?",
                        (thread_id, f"{node}:*"),
                    )


class SqliteLocks:
    """One file a lock, in the folder `<database>.locks`, there only while it is held.

    The operating system lets go of it with the process. A database in memory has no other users.
    """

    def __init__(self, saver: SqliteSaver) -> None:
        """Lock beside the file of this saver; two ways to one file are one place."""
        with saver.lock:
            files = saver.conn.execute("PRAGMA database_list").fetchall()
        file = next((file for _, name, file in files if name == "main"), "")
        self._file = os.path.realpath(file) if file else ""
        self.place: Hashable = self._file or id(saver.conn)

    def take(self, name: str, doing: str = "") -> Callable[[], None] | str | None:
        """Lock a name; see `Locks`."""
        if not self._file:
            return None
        folder = Path(f"{self._file}.locks")
        path = folder / hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Taken and let go in different threads; a file that only says "locked" would outlive
            # its process.
            lock = FileLock(
                path, blocking=False, mode=0o600, thread_local=False, fallback_to_soft=False,
                on_acquired=partial(_sign, doing),
            )  # fmt: skip
            lock.acquire()
        except Timeout:
            return _holder(path)
        except OSError as error:
            msg = (
                f"Cannot lock a thread by a file in {str(folder)!r}"
                f" ({error.strerror or error}): make the folder writable for this user."
            )
            raise DatabaseError(msg) from error
        return partial(_let_go, lock, path)


def _let_go(lock: BaseFileLock, path: Path) -> None:
    """Remove the file while it is locked: who opened it before sees that it is gone."""
    with suppress(OSError):  # on Windows, which removes no open file
        path.unlink()
    lock.release()


def _sign(doing: str, file: int) -> None:
    """Write down whose lock it is, and what for."""
    os.truncate(file, 0)
    os.write(file, f"{os.getpid()}{doing}".encode())


def _holder(path: Path) -> str:
    try:
        process = path.read_text(encoding="ascii")
    except OSError:  # let go meanwhile, or on Windows, where nobody may read what is locked
        return ""
    return f"process {process}" if process else ""
