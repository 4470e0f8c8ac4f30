"""One URL opens the checkpointer, the store and the journal of all threads.

Savers and stores of a database have sync methods only (see `ThreadedSaver`).
"""

from collections.abc import Hashable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import BaseStore, PutOp

from ..state.calls import results_of
from ..state.errors import DatabaseError, ThreadBusy, ThreadNotFound
from .checkpoints.async_adapters import ThreadedSaver, ThreadedStore
from .locks.thread_locks import PRUNES, Locks, lock_thread_blocking
from .objects import ObjectResultStore, Objects
from .postgres.database import URL as POSTGRES, PostgresDatabase, hide_password
from .postgres.leases import LEASE, check_lease
from .postgres.pool import CONNECTIONS, check_connections
from .sqlite.database import SqliteDatabase
from .sqlite.file import URL as SQLITE, SqliteLocks
from .threads.pruning import RUNS, Keeps, Pruned, build_keep_rule, iterate_thread_texts
from .threads.thread_list import (
    EXPIRY,
    LOOKED_AT,
    HandOver,
    Order,
    ThreadQuery,
    ThreadSummary,
    Which,
    build_query,
    list_hand_overs,
    list_threads,
)
from .work.turns import Turn, find_queue, find_records

DEFAULT_URL: Final = "sqlite:///.loopwright/threads.db"

_AT_ONCE: Final = 20
"""Long results of a thread that are removed together; each may be a megabyte."""

Saver = BaseCheckpointSaver[Any]

Database = SqliteDatabase | PostgresDatabase
"""An open, writable database of one kind; the methods are documented in the first class."""


class Durability(AbstractContextManager["Durability"]):
    """An open database; use it as a context manager.

    Attributes:
        url: the URL it was opened with, without the password.
        checkpointer: saves threads; usable sync, and async from any event loop.
        store: keeps values beyond one thread; sync and async.
        journal: records tool calls.
        locks: keep the runs of a thread apart.
        results: URL of the object store for long results; None if the database keeps them.
    """

    def __init__(self, database: Database, objects: Objects | None = None) -> None:
        """Use the parts of this database; `objects` keeps long results, if given."""
        self.url, self.journal, self.locks = database.url, database.journal, database.locks
        self.checkpointer = ThreadedSaver(database.saver, self.locks, self._forget)
        self.checkpointer.opened_by = self
        self.store: BaseStore = ThreadedStore(database.store)
        self.results, self._objects = objects and objects.url, objects
        if objects is not None:
            self.store = ObjectResultStore(self.store, objects)
        self.close, self._database = database.close, database

    def thread_ids(self) -> list[str]:
        """The ids of all saved threads, last changed first."""
        return [one.thread_id for one in self._database.find(ThreadQuery(None, "newest", None))]

    def threads(
        self, which: Which | None = None, *, order: Order = "newest", limit: int | None = None
    ) -> list[ThreadSummary]:
        """The saved threads.

        Postgres finds them by an index; SQLite reads threads until there are enough.

        Args:
            which: "unfinished": can be resumed or answered, and no run holds it. "waiting": has an
                open question. "expired": its process died within a turn. None: all.
            order: "newest" or "oldest" change first, or "largest" first.
            limit: The largest number of rows; None: all.

        Raises:
            SettingsError: An argument has no such value.
        """
        return self._list_threads(build_query(which, order, limit))

    def _list_threads(self, wanted: ThreadQuery) -> list[ThreadSummary]:
        found = self._database.find(wanted)
        return list_threads(self.checkpointer, found, self.locks, wanted)

    def unfinished(self, within: timedelta = EXPIRY) -> list[ThreadSummary]:
        """Of the 100 newest threads, those to offer for a resume: killed, or short of their goal.

        Args:
            within: The greatest age. A thread that waits for a human has no age limit.
        """
        newest = ThreadQuery("unfinished", "newest", LOOKED_AT, among=LOOKED_AT)
        return [thread for thread in self._list_threads(newest) if thread.is_offered(within)]

    def handed_over(self) -> list[HandOver]:
        """The threads that a human has taken over, longest wait first."""
        left = self._database.find(ThreadQuery("unfinished", "oldest", None, held=True))
        return list_hand_overs(self.checkpointer, (one.thread_id for one in left))

    def turns(self, thread: str | None = None, *, limit: int | None = None) -> list[Turn]:
        """The enqueued turns, also those set aside, in the order they were enqueued.

        Args:
            thread: Only turns of this thread. Answers come before messages.
            limit: The largest number of rows; None: all.
        """
        queue = find_queue(self.journal)
        return [] if queue is None else queue.list_turns(thread, limit)

    def dismiss(self, thread: str) -> None:
        """Delete a thread and the journal rows of its calls.

        Raises:
            ThreadNotFound: No such thread is saved.
            ThreadBusy: A run holds it.
        """
        self._check_saved(thread)
        with lock_thread_blocking(lambda: self.locks, thread):
            self.checkpointer.delete_thread(thread)

    def _forget(self, thread: str) -> None:
        """Delete everything of a thread but its checkpoints."""
        self.journal.forget(thread)
        if (records := find_records(self.journal)) is not None:
            records.forget(thread)
        if (queue := find_queue(self.journal)) is not None:
            queue.forget(thread)
        place = results_of(thread)
        while found := self.store.search(place, limit=_AT_ONCE):
            self.store.batch([PutOp(one.namespace, one.key, None) for one in found])
        if self._objects is not None:
            self._objects.forget(place)
        self._database.forget(thread)

    def _check_saved(self, thread: str) -> None:
        if not self._database.owns(thread):
            msg = f"No thread {thread!r} is saved in {self.url}."
            raise ThreadNotFound(msg)

    def prune(
        self,
        thread: str | None = None,
        *,
        keep: Literal["latest"] | None = None,
        turns: int | None = None,
        older_than: timedelta | None = None,
    ) -> Pruned:
        """Delete old checkpoints of threads, and the values that only these needed.

        Blocks. A thread is skipped while it runs, waits for a human, has an unfinished turn or an
        uncertain call.

        Args:
            thread: Only this thread; None: all.
            keep: "latest" keeps each thread as it stands, without its history.
            turns: Keep this number of last turns.
            older_than: Delete older checkpoints; each thread keeps its newest state.

        Raises:
            SettingsError: Not exactly one of keep, turns and older_than was given.
            ThreadNotFound: No such thread is saved.
            DatabaseError: The database refused; the message says why.
        """
        keeps = build_keep_rule(keep, turns, older_than)
        if thread is not None:
            self._check_saved(thread)
        done: list[str] = []
        left: dict[str, str] = {}
        before = self._database.size()
        for name in sorted(self._database.prunable()) if thread is None else [thread]:
            said = self._prune(name, keeps)
            if isinstance(said, str):
                left[name] = said
            elif said:
                done.append(name)
        # To rewrite a large file takes long, and a run would wait for it.
        alone = RUNS not in left.values()
        shrunk = not done or (alone and self._database.shrink())
        return Pruned(done, left, before, self._database.size(), shrunk)

    def _prune(self, thread: str, keeps: Keeps) -> str | bool:
        try:
            with lock_thread_blocking(lambda: self.locks, thread, PRUNES):
                said = self._database.prune(thread, keeps)
                if self._objects is None or isinstance(said, str):
                    return said
                return self._drop_objects(self._objects, thread) or said
        except ThreadBusy:
            return RUNS

    def _drop_objects(self, objects: Objects, thread: str) -> bool:
        """Delete the long results that a pruned thread no longer names."""
        place = results_of(thread)
        if not (keys := objects.keys(place)):
            return False
        told = "\n".join(
            iterate_thread_texts(self.checkpointer, thread, self.journal.read_bodies(thread))
        )
        lost = [key for key in keys if key not in told]
        objects.drop(place, lost)
        return bool(lost)

    def __exit__(self, *_: object) -> None:
        """Close at the end of the block."""
        self.close()


def open_durability(
    url: str = DEFAULT_URL,
    *,
    lease: float = LEASE,
    connections: int = CONNECTIONS,
    results: str | None = None,
) -> Durability:
    """Open a database and check that it can be written.

    Args:
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///:memory:` or
            `postgresql://user@host/name`. Missing folders of a SQLite file are created.
        lease: Seconds until a thread in Postgres is free again if its process does not answer.
            With SQLite the operating system frees it at once.
        connections: The largest number of connections to Postgres, and of threads that wait for
            them.
        results: Where long results are kept instead of the database, as a URL that fsspec opens:
            `s3://bucket/folder`, `file:///folder`. Every process that opens the database must
            give the same URL.

    Raises:
        SettingsError: The lease is too short or too long, or there is no connection.
        DatabaseError: it cannot be opened or written; says what, where and what to do.
    """
    lease, connections = check_lease(lease), check_connections(connections)
    objects = None if results is None else Objects(results)
    return Durability(_open_database(url, lease, connections), objects)


def _open_database(url: str, lease: float, connections: int) -> Database:
    if SQLITE.fullmatch(url):
        return SqliteDatabase(url)
    if POSTGRES.match(url):
        return PostgresDatabase(url, lease, connections)
    shown = hide_password(url) if "://" in url else url
    file = f" (sqlite:///{url} for a file)" if "/" not in url and ":" not in url else ""
    msg = (
        f"Cannot open the database {shown!r}{file}: give sqlite:///FILE,"
        " sqlite:////ABSOLUTE/FILE, sqlite:///:memory: or postgresql://…."
    )
    raise DatabaseError(msg)


class _ProcessLocks:
    """Locks of a saver that others than this process do not use, or whose locks nobody knows."""

    def __init__(self, domain: Hashable) -> None:
        self.domain = domain

    def take(self, name: str, doing: str = "", *, waits: bool = False) -> None:
        """There is no other process."""

    def stop_waiting(self, name: str) -> None:
        """Nobody of another process waits."""


def get_saver_locks(saver: Saver | None) -> Locks:
    """The locks for threads of any saver, also of one that was not opened here, or of None.

    LangGraph copies savers (strict deserialization); a copy shares the original's connection.
    """
    if isinstance(saver, ThreadedSaver):
        return saver.locks or get_saver_locks(saver.inner)
    if isinstance(saver, SqliteSaver):
        return SqliteLocks(saver)
    return _ProcessLocks(id(getattr(saver, "conn", getattr(saver, "storage", saver))))
