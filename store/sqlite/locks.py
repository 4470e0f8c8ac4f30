"""Who holds a thread in SQLite: a lock of the operating system on a file beside the database."""

import hashlib
import os
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout
from langgraph.checkpoint.sqlite import SqliteSaver

from ...state.errors import DatabaseError


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
        self.domain: Hashable = self._file or id(saver.conn)

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
