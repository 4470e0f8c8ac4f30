"""Who holds a thread in PostgreSQL: advisory locks of one session."""

import hashlib
import os
import platform
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from ...state.errors import DatabaseError
from ..journal import cause_of

_TAKE: Final = "SELECT pg_try_advisory_lock(%s) AS got"
_FREE: Final = "SELECT pg_advisory_unlock(%s)"
# PostgreSQL splits the 64-bit key of an advisory lock into these two columns.
_HOLDER: Final = (
    "SELECT a.application_name AS name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND (l.classid::bigint << 32) | l.objid::bigint = %s"
)
_NAME: Final = "loopwright process "


class PostgresLocks:
    """The advisory locks of one session; the server lets go of them with the connection."""

    def __init__(
        self, connect: Callable[[str], Any], errors: tuple[type[Exception], ...], database: str
    ) -> None:
        """Keep one connection for locks, opened with the first.

        `connect` opens it under an application name, in autocommit mode, with rows as dicts.
        """
        self._connect = connect
        self._errors = errors
        self._database = database
        self._connection: Any = None
        self._process = os.getpid()
        self._held: set[int] = set()
        self._lock = threading.Lock()

    @property
    def place(self) -> Hashable:
        """Another session is another holder, also in this process."""
        return id(self)

    def take(self, name: str) -> Callable[[], None] | str:
        """Lock a name; see `Locks`."""
        number = _number(name)
        with self._lock:
            try:
                holder = self._holder(number)
            except self._errors as error:
                msg = (
                    f"Cannot lock a thread in the database {self._database!r} ({cause_of(error)}):"
                    " check that the server runs, then try again."
                )
                raise DatabaseError(msg) from error
            if holder is not None:
                return holder
            self._held.add(number)
        return partial(self._free, number)

    def close(self) -> None:
        """Close the connection, and with it every lock."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._held.clear()

    def _holder(self, number: int, *, again: bool = True) -> str | None:
        """Who has the lock; None if it is ours now. A broken connection is replaced once."""
        connection = self._session()
        try:
            if connection.execute(_TAKE, [number]).fetchone()["got"]:
                return None
            found = connection.execute(_HOLDER, [number]).fetchone()
        except self._errors:
            if again and connection.closed:
                return self._holder(number, again=False)
            raise
        return _in_words(found["name"]) if found else ""

    def _session(self) -> Any:
        if self._process != os.getpid():  # a forked child: the connection is its parent's
            self._connection, self._process, self._held = None, os.getpid(), set()
        if self._connection is None or self._connection.closed:
            self._connection = self._connect(f"{_NAME}{os.getpid()} on {platform.node()}"[:63])
            # With the old connection the server let go of what runs here still hold.
            for number in self._held:
                self._connection.execute(_TAKE, [number])
        return self._connection

    def _free(self, number: int) -> None:
        with self._lock:
            self._held.discard(number)
            if self._connection is None or self._connection.closed:
                return
            try:
                self._connection.execute(_FREE, [number])
            except self._errors:
                # Half a connection may still hold the lock; none does not.
                self._connection.close()


def _number(name: str) -> int:
    """The lock's key: 64 bits, signed, that no other program is likely to use."""
    text = f"loopwright thread {name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], signed=True)


def _in_words(application: str) -> str:
    """The holder from the name of its connection; its computer only where it is another one."""
    told = application.removeprefix("loopwright ") if application.startswith(_NAME) else ""
    return told.removesuffix(f" on {platform.node()}")
