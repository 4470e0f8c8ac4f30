"""Locks on files beside a database; the operating system lets go of them with the process."""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from ..state.errors import DatabaseError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_LOCKED_BYTE: Final = 1 << 30
"""Windows lets nobody read what is locked, so it is a byte far behind the process id."""

_open_here: set[int] = set()


def _close_copies() -> None:
    """In a forked child: its copies of the parent's files would keep them locked."""
    while _open_here:
        os.close(_open_here.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)


class FileLocks:
    """One file a lock, in the folder `<database>.locks`, there only while it is held."""

    def __init__(self, database: str) -> None:
        """Lock beside this file, given by its real absolute path."""
        self.place = database
        self._folder = Path(f"{database}.locks")

    def take(self, name: str) -> Callable[[], None] | str:
        """Lock a name; see `Locks`."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        path = self._folder / digest[:32]
        try:
            return _take(path)
        except OSError as error:
            msg = (
                f"Cannot lock a thread by a file in {str(self._folder)!r}"
                f" ({error.strerror or error}): make the folder writable for this user."
            )
            raise DatabaseError(msg) from error


def _take(path: Path) -> Callable[[], None] | str:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder was removed in between
            continue
        _open_here.add(file)
        if not _lock(file):
            holder = _written(file)
            _close(file)
            return f"process {holder}" if holder else ""
        if _is_at(file, path):
            os.truncate(file, 0)
            os.write(file, str(os.getpid()).encode())
            return partial(_free, file, path)
        # Locked, but its last holder had removed it: nobody else will come to this one.
        _close(file)


def _lock(file: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            os.lseek(file, 0, os.SEEK_SET)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _written(file: int) -> str:
    """The holder's process id, which it writes right after locking."""
    for _ in range(10):
        os.lseek(file, 0, os.SEEK_SET)
        if written := os.read(file, 20).decode("ascii", "replace"):
            return written
        time.sleep(0.002)
    return ""


def _is_at(file: int, path: Path) -> bool:
    try:
        there, mine = path.stat(), os.fstat(file)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _free(file: int, path: Path) -> None:
    """Remove the file while it is locked: who opened it before sees that it is gone."""
    if sys.platform == "win32":  # which removes no open file
        _close(file)
        with suppress(OSError):
            path.unlink()
        return
    with suppress(OSError):
        if _is_at(file, path):
            path.unlink()
    _close(file)


def _close(file: int) -> None:
    _open_here.discard(file)
    os.close(file)
