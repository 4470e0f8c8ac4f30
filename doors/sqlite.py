"""Threads in a SQLite file: opened for several processes, kept small, locked by files beside it."""

import hashlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from filelock import BaseFileLock, FileLock, Timeout
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

from ..state.errors import DatabaseError
from .durability import BUSY_SECONDS, THREADS_SQL, Durability, cause_of, patiently, refused
from .journal_sql import SqlJournal
from .journal_tables import SqliteTables, Tables, unusable
from .savers import ThreadedSaver, ThreadedStore

_PAGE_BYTES: Final = 8192
_TABLES: Final = ("checkpoints", "writes")

_ZLIB: Final = "zlib"
_PLAIN: Final = "plain"
# Below this size the header outweighs what compression saves.
_SMALLEST: Final = 128
# zlib's own default; a preset dictionary would save 4 % more and cost a tenth of each read.
_LEVEL: Final = 6


def open_database(url: str) -> Durability:
    """Open `sqlite:///FILE`; see `open_durability`."""
    name = url.removeprefix("sqlite:///")
    if not name or name == url:
        raise refused(url)
    path = name if name == ":memory:" else str(Path(name).expanduser())
    opened: list[sqlite3.Connection] = []
    try:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        for autocommit in (False, True, True):
            opened.append(_connect(path, autocommit=autocommit))
        return _opened(url, *opened, path=path)
    except (sqlite3.Error, OSError) as error:
        for connection in opened:
            connection.close()
        msg = (
            f"Cannot use {path!r} as a database ({cause_of(error)}): check that it is a SQLite"
            f" file in a folder you may write, or give another URL instead of {url!r}."
        )
        raise DatabaseError(msg) from error


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
        # Readers and one writer side by side.
        patiently(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone(), _race)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _race(error: Exception) -> bool:
    """A switch to WAL ignores the busy timeout; migrations run side by side find each other's."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY or "duplicate column" in str(error)
    return isinstance(error, sqlite3.IntegrityError)


def _opened(
    url: str,
    for_saver: sqlite3.Connection,
    for_store: sqlite3.Connection,
    for_journal: sqlite3.Connection,
    *,
    path: str,
) -> Durability:
    """Three connections: the saver relies on implicit transactions, the store opens its own."""
    saver = LeanSqliteSaver(for_saver)
    store = SqliteStore(for_store)
    tables = SqliteTables(for_journal, path)
    for_store.execute("BEGIN IMMEDIATE")
    # Opening proves nothing: SQLite opens read-only files, and looks into them at the first use.
    version = for_store.execute("PRAGMA user_version").fetchone()[0]
    for_store.execute(f"PRAGMA user_version = {version}")
    for_store.execute("COMMIT")
    for setup in (saver.setup, store.setup):
        patiently(setup, _race)
    journal = SqlJournal(partial(_created, tables, path), durable=path != ":memory:")
    return Durability(
        url=url,
        checkpointer=ThreadedSaver(saver, journal.forget),
        store=ThreadedStore(store),
        journal=journal,
        thread_ids=partial(_thread_ids, saver),
        # The journal closes its connection only if it was used.
        closers=(partial(_close, saver), partial(_close, store), journal.close, tables.close),
    )


def _created(tables: SqliteTables, path: str) -> Tables:
    """The journal's tables, once something is to be recorded: they take 60 kB of a file."""
    try:
        patiently(tables.create, _race)
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    return tables


def _close(owner: SqliteSaver | SqliteStore) -> None:
    """Close a connection when nobody uses it: a write of a cancelled run may still be under way."""
    with owner.lock:
        owner.conn.close()


def _thread_ids(saver: SqliteSaver) -> list[str]:
    with saver.cursor(transaction=False) as cursor:
        return [thread for (thread,) in cursor.execute(THREADS_SQL)]


class Deflate(CipherProtocol):
    """Compresses where LangGraph would encrypt: the one wrapper its type allowlist reaches into.

    Checkpoints repeat channel names, versions and texts many times over.
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Compress; tiny values stay as they are."""
        if len(plaintext) < _SMALLEST:
            return _PLAIN, plaintext
        return _ZLIB, zlib.compress(plaintext, _LEVEL)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Give back what was compressed."""
        return zlib.decompress(ciphertext) if ciphername == _ZLIB else ciphertext


class LeanSqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver, compressing, with a way to drop what a finished turn left."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Save through this connection; it may be used from several threads."""
        super().__init__(connection, serde=EncryptedSerializer(Deflate(), JsonPlusSerializer()))

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's signature
        """A channel's next version: LangGraph's, without the random part.

        That part keeps forks apart where values are stored under their version. Here they are
        stored inside the checkpoint, and a random number in every channel is what compresses
        worst. Comparable with LangGraph's own versions, so its threads can be continued; its
        saver, however, cannot read what is compressed.
        """
        return f"{int(str(current or 0).split('.')[0]) + 1:032}"

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


class FileLocks:
    """One file a lock, in the folder `<database>.locks`, there only while it is held.

    The operating system lets go of it with the process.
    """

    def __init__(self, database: str) -> None:
        """Lock beside this file, given by its real absolute path."""
        self.place = database
        self._folder = Path(f"{database}.locks")

    def take(self, name: str) -> Callable[[], None] | str:
        """Lock a name; see `Locks`."""
        path = self._folder / hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            # Taken and let go in different threads; a file that only says "locked" would outlive
            # its process.
            lock = FileLock(
                path, blocking=False, mode=0o600, thread_local=False, fallback_to_soft=False,
                on_acquired=_sign,
            )  # fmt: skip
            lock.acquire()
        except Timeout:
            return _holder(path)
        except OSError as error:
            msg = (
                f"Cannot lock a thread by a file in {str(self._folder)!r}"
                f" ({error.strerror or error}): make the folder writable for this user."
            )
            raise DatabaseError(msg) from error
        return partial(_let_go, lock, path)


def _let_go(lock: BaseFileLock, path: Path) -> None:
    """Remove the file while it is locked: who opened it before sees that it is gone."""
    with suppress(OSError):  # on Windows, which removes no open file
        path.unlink()
    lock.release()


def _sign(file: int) -> None:
    """Write down whose lock it is."""
    os.truncate(file, 0)
    os.write(file, str(os.getpid()).encode())


def _holder(path: Path) -> str:
    try:
        process = path.read_text(encoding="ascii")
    except OSError:  # let go meanwhile, or on Windows, where nobody may read what is locked
        return ""
    return f"process {process}" if process else ""
