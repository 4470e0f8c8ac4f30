"""The file of a SQLite database, and the files beside it by which its threads are locked."""

import hashlib
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Hashable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final

from filelock import BaseFileLock, FileLock, Timeout
from langgraph.checkpoint.sqlite import SqliteSaver

from ...state.errors import DatabaseError
from ..journal.sql import BUSY_SECONDS, retry_while_busy
from ..journal.tables import explain_refusal, is_sqlite_race

URL: Final = re.compile(r"sqlite:///(.+)")

OWN_FOLDER: Final = ".loopwright"
_FILE, _FOLDER = 0o600, 0o700
_BESIDE: Final = ("-wal", "-shm")

_OURS: Final[Mapping[str, frozenset[str]]] = {
    "checkpoints": frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint"}),
    "writes": frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "value"}),
    "store": frozenset({"prefix", "key", "value"}),
    "loopwright_journal": frozenset({"thread", "kind", "name", "state", "body"}),
}
"""The tables of a database of threads, and columns by which they are known."""

MAIN_FILE: Final = "SELECT file FROM pragma_database_list WHERE name = 'main'"
"""Asks a connection for its file; "" of a database in memory."""

SCHEMA: Final = "loopwright_schema"
"""The table in which the version of the others stands."""


class DatabaseFile:
    """One file, from the moment it is opened; `path` is absolute."""

    def __init__(self, path: str) -> None:
        """Make it if it is missing, for this user alone; DatabaseError if it is not ours."""
        self.path, self._given = os.path.abspath(path), path
        make_folder(Path(self.path).parent)
        # Only made, never opened: closing it would let go of SQLite's locks on it.
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE))
        retry_while_busy(self._refuse_foreign, is_sqlite_race)
        real = os.path.realpath(self.path)  # beside it lie SQLite's other files
        for name in (real, *(real + end for end in _BESIDE)):
            restrict_access(name, _FILE)
        # Another user's folder of locks is told where a lock is taken.
        restrict_access(f"{self.path}.locks", _FOLDER)
        self._opened: dict[str, tuple[int, int]] = {}

    def mark_open(self) -> None:
        """Note which file it is; its connections are open now."""
        names = (self.path, self.path + _BESIDE[0])
        self._opened = {name: found for name in names if (found := _read_identity(name))}

    def mark_closed(self) -> None:
        """Nothing is written to it any more, and SQLite removes what lies beside it."""
        self._opened = {}

    def size(self) -> int:
        """Bytes, with what SQLite keeps beside it."""
        names = (self.path, self.path + _BESIDE[0])
        return sum(os.path.getsize(name) for name in names if os.path.exists(name))

    def check(self) -> None:
        """Raise DatabaseError if the file was deleted, moved or replaced: writes would be lost."""
        if any(_read_identity(name) != known for name, known in self._opened.items()):
            msg = (
                f"The database {self._given!r} was deleted, moved or replaced while it was in use:"
                " nothing more is done, because nothing could be recorded. Put the file back, with"
                " its -wal file, and run the command again."
            )
            raise DatabaseError(msg)

    def _refuse_foreign(self) -> None:
        with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as connection:
            refuse_foreign(connection, self._given)


def refuse_foreign(connection: sqlite3.Connection, given: str) -> None:
    """Raise DatabaseError for a database of another program, or of another version of this one."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type <> 'index'")
    names = {name for (name,) in found if not name.startswith("sqlite_")}
    foreign = bool(names) and not names & _OURS.keys()
    for name in names & _OURS.keys():
        columns = connection.execute(f"SELECT name FROM pragma_table_info('{name}')")
        foreign = foreign or not _OURS[name] <= {column for (column,) in columns}
    if foreign:
        msg = (
            f"{given!r} is the database of another program (it holds"
            f" {', '.join(sorted(names)[:5])}) and was left as it is: give a file of its own"
            " for threads."
        )
        raise DatabaseError(msg)
    version = 0
    if SCHEMA in names:
        version = connection.execute(f"SELECT max(version) FROM {SCHEMA}").fetchone()[0] or 0
    used = "loopwright_journal" in names and SCHEMA not in names
    if why := explain_refusal(version, used=used):
        raise DatabaseError(why)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone.

    One that is there keeps its rights, but for the folder that is the package's own.
    """
    for missing in (*reversed(folder.parents), folder):
        with suppress(FileExistsError):
            if not missing.exists():
                missing.mkdir(mode=_FOLDER)
    if not folder.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(folder))
    if folder.name == OWN_FOLDER:
        restrict_access(str(folder), _FOLDER)


def restrict_access(path: str, mode: int) -> None:
    """Remove the rights of other users from this user's file or folder.

    Links are not followed: a writer of the folder may have made them.
    """
    with suppress(OSError):
        rights = os.lstat(path).st_mode
        if not stat.S_ISLNK(rights) and rights & 0o777 & ~mode:
            os.chmod(path, mode)


def _read_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class SqliteLocks:
    """One file a lock, in the folder `<database>.locks`, there only while it is held.

    The operating system lets go of it with the process. A database in memory has no other users.
    """

    def __init__(self, saver: SqliteSaver) -> None:
        """Lock beside the file of this saver; two ways to one file are one place."""
        with saver.lock:
            ((file,),) = saver.conn.execute(MAIN_FILE)
        self._file = os.path.realpath(file) if file else ""
        self.domain: Hashable = self._file or id(saver.conn)

    def take(
        self,
        name: str,
        doing: str = "",
        *,
        waits: bool = False,  # noqa: ARG002 - see `Locks`
    ) -> Callable[[], None] | str | None:
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
                on_acquired=partial(_write_holder, doing),
            )  # fmt: skip
            lock.acquire()
        except Timeout:
            return _read_holder(path)
        except OSError as error:
            msg = (
                f"Cannot lock a thread by a file in {str(folder)!r}"
                f" ({error.strerror or error}): make the folder writable for this user."
            )
            raise DatabaseError(msg) from error
        return partial(_release_lock, lock, path)

    def stop_waiting(self, name: str) -> None:
        """See `Locks`: the processes that wait stand in no line."""


def _release_lock(lock: BaseFileLock, path: Path) -> None:
    """Remove the file while it is locked: who opened it before sees that it is gone."""
    with suppress(OSError):  # on Windows, which removes no open file
        path.unlink()
    lock.release()


def _write_holder(doing: str, file: int) -> None:
    """Write down whose lock it is, and what for."""
    os.truncate(file, 0)
    os.write(file, f"{os.getpid()}{doing}".encode())


def _read_holder(path: Path) -> str:
    try:
        process = path.read_text(encoding="ascii")
    except OSError:  # let go meanwhile, or on Windows, where nobody may read what is locked
        return ""
    return f"process {process}" if process else ""
