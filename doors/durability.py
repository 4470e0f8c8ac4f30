"""Where threads are kept: one URL gives the checkpointer, the store and the journal.

What a database has to bring is `Database`. Savers and stores have sync methods only: every async
call goes to a worker thread, so that one connection serves every event loop. An async driver would
belong to the loop it was opened on.
"""

import asyncio
import copy
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Final, Literal, Protocol, Self

from langchain_core.runnables import ConfigurableFieldSpec, RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.sqlite import SqliteStore

from ..state.errors import DatabaseError, ThreadBusy, ThreadNotFound
from ..state.journal import Journal
from . import langgraph_keys as keys
from .desk import HandOver, handed_over
from .journal import cause_of
from .locks import Locks, held_here
from .pace import in_turn
from .postgres.database import PostgresDatabase, without_password
from .postgres.leases import LEASE, checked_lease
from .pruning import RUNS, Keeps, Pruned, what_stays
from .sqlite import SqliteDatabase, SqliteLocks
from .threads import EXPIRY, ThreadSummary, list_threads, offered

DEFAULT_URL: Final = "sqlite:///.loopwright/threads.db"

Saver = BaseCheckpointSaver[Any]


class Database(Protocol):
    """An open database of one kind, proven to be writable.

    Another kind is a module with such a class and its line in `_opened`.
    """

    @property
    def url(self) -> str:
        """By what it was opened, as it may be shown."""

    @property
    def saver(self) -> Saver:
        """Saves threads; safe to use from several threads, its sync methods are enough.

        Where it has `forget_scratch(thread, nodes)` it is told what a finished turn left.
        """

    @property
    def store(self) -> BaseStore:
        """Keeps what outlives a thread; safe to use from several threads."""

    @property
    def journal(self) -> Journal:
        """Records tool calls."""

    @property
    def locks(self) -> Locks:
        """Keep the runs of a thread apart, whatever process they are of."""

    def thread_ids(self) -> Iterable[str]:
        """Every saved thread, those that changed last before the others."""

    def size(self) -> int:
        """Bytes it takes; 0 where that is not its own to say."""

    def prune(self, thread: str, keeps: Keeps) -> str | bool:
        """Remove what is not kept of a thread that is held, in one transaction.

        Returns:
            Whether anything was removed, or why the thread was left as it is.
        """

    def shrink(self) -> bool:
        """Give back the room of what was removed; False where that cannot be done now."""

    def close(self) -> None:
        """Close it; a second call does nothing."""


class Durability(AbstractContextManager["Durability"]):
    """An open database, which may be used for the length of a block.

    Attributes:
        url: what it was opened by, without its password.
        checkpointer: saves threads; usable sync, and async from any event loop.
        store: keeps what outlives a thread; usable like the checkpointer.
        journal: records tool calls.
        locks: keep the runs of a thread apart.
    """

    def __init__(self, database: Database) -> None:
        """Give out what this database brings."""
        self.url, self.journal, self.locks = database.url, database.journal, database.locks
        self.checkpointer = ThreadedSaver(database.saver, self.locks, self.journal.forget)
        self.store: BaseStore = ThreadedStore(database.store)
        self.thread_ids, self.close = database.thread_ids, database.close
        self._database = database

    def threads(self) -> list[ThreadSummary]:
        """Every saved thread, newest first."""
        return list_threads(self.checkpointer, self.thread_ids(), self.locks)

    def unfinished(self, within: timedelta = EXPIRY) -> list[ThreadSummary]:
        """Of the 100 newest threads, those to offer for a resume: cut off, or short of their goal.

        Args:
            within: How old they may be. One that waits for a human does not expire.
        """
        return offered(self.checkpointer, self.thread_ids(), self.locks, within)

    def handed_over(self) -> list[HandOver]:
        """The threads that wait for a human who took them over, longest first."""
        return handed_over(self.checkpointer, self.thread_ids())

    def dismiss(self, thread: str) -> None:
        """Delete a thread, and what the journal knows of its calls.

        Raises:
            ThreadNotFound: No such thread is saved.
            ThreadBusy: A run holds it.
        """
        self._check_saved(thread)
        with held_here(lambda: self.locks, thread):
            self.checkpointer.delete_thread(thread)

    def _check_saved(self, thread: str) -> None:
        if thread not in self.thread_ids():
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
        """Make threads smaller: older checkpoints go, and what only they needed.

        Blocks; a thread that runs, waits for a human, has not ended its turn, or has a call that
        may have taken effect, is left as it is.

        Args:
            thread: Only this one; all without it.
            keep: "latest" keeps each thread as it stands, without its history.
            turns: Keep the last turns, so many.
            older_than: Remove what is older, and keep each thread as it stands.

        Raises:
            SettingsError: It is not exactly one of the last three.
            ThreadNotFound: No such thread is saved.
            DatabaseError: The database cannot do it.
        """
        keeps = what_stays(keep, turns, older_than)
        if thread is not None:
            self._check_saved(thread)
        done: list[str] = []
        left: dict[str, str] = {}
        before = self._database.size()
        for name in sorted(self.thread_ids()) if thread is None else [thread]:
            said = self._prune(name, keeps)
            if isinstance(said, str):
                left[name] = said
            elif said:
                done.append(name)
        # Writing the file anew takes long where it is large: whoever runs would wait in vain.
        alone = RUNS not in left.values()
        shrunk = not done or (alone and self._database.shrink())
        return Pruned(done, left, before, self._database.size(), shrunk)

    def _prune(self, thread: str, keeps: Keeps) -> str | bool:
        try:
            with held_here(lambda: self.locks, thread):
                return self._database.prune(thread, keeps)
        except ThreadBusy:
            return RUNS

    def __exit__(self, *_: object) -> None:
        """Close at the end of the block."""
        self.close()


def open_durability(url: str = DEFAULT_URL, *, lease: float = LEASE) -> Durability:
    """Open a database and prove that it can be written.

    Args:
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///:memory:` or
            `postgresql://user@host/name`. Missing folders of a SQLite file are created.
        lease: Seconds after which a thread in Postgres is free whose holder does not answer. With
            SQLite the operating system frees it at once, whatever is said here.

    Raises:
        SettingsError: The lease is too short or too long.
        DatabaseError: it cannot be opened or written; says what, where and what to do.
    """
    return Durability(_opened(url, checked_lease(lease)))


def _opened(url: str, lease: float) -> Database:
    if re.fullmatch(r"sqlite:///.+", url):
        return SqliteDatabase(url)
    if re.match(r"postgres(ql)?://", url):
        return PostgresDatabase(url, lease)
    shown = without_password(url) if "://" in url else url
    file = f" (sqlite:///{url} for a file)" if "/" not in url and ":" not in url else ""
    msg = (
        f"Cannot open the database {shown!r}{file}: give sqlite:///FILE,"
        " sqlite:////ABSOLUTE/FILE, sqlite:///:memory: or postgresql://…."
    )
    raise DatabaseError(msg)


class _InProcess:
    """Locks of a saver that others than this process do not use, or whose locks nobody knows."""

    def __init__(self, place: Hashable) -> None:
        self.place = place

    def take(self, name: str) -> None:
        """There is no other process."""


def locks_of(saver: Saver) -> Locks:
    """What locks the threads of a saver, also of one that was not opened here.

    Savers are copied (LangGraph does, with strict deserialization); what they share is not.
    """
    if isinstance(saver, ThreadedSaver):
        return saver.locks or locks_of(saver.inner)
    if isinstance(saver, SqliteSaver):
        return SqliteLocks(saver)
    return _InProcess(id(getattr(saver, "conn", getattr(saver, "storage", saver))))


def is_sync_only(saver: object) -> bool:
    """Whether a saver lacks the async methods a run needs.

    `aput_writes` decides: a sync saver may override some async methods only to refuse them
    (SqliteSaver does), but none overrides this one without supporting it.
    """
    return (
        isinstance(saver, BaseCheckpointSaver)
        and type(saver).aput_writes is BaseCheckpointSaver.aput_writes
    )


def with_async(saver: Any) -> Any:
    """The saver itself, or its threaded twin if it is sync only; None and flags pass."""
    return ThreadedSaver(saver) if is_sync_only(saver) else saver


def with_async_store(store: BaseStore | None) -> BaseStore | None:
    """The store itself, or its threaded twin if its `abatch` refuses (SqliteStore)."""
    return ThreadedStore(store) if isinstance(store, SqliteStore) else store


class ThreadedSaver(Saver):
    """Any sync saver with async methods that run in worker threads.

    Every method is the inner saver's; see below the class.

    Attributes:
        locks: what locks its threads, if that is not to be seen from the inner saver.
        forget: what else is known of a thread is dropped by this when the thread is deleted.
    """

    def __init__(
        self,
        inner: Saver,
        locks: Locks | None = None,
        forget: Callable[[str], None] | None = None,
    ) -> None:
        """Adapt `inner`, which must be safe to call from several threads."""
        super().__init__(serde=inner.serde)
        self.inner, self.locks, self.forget = inner, locks, forget

    def __getattr__(self, name: str) -> Any:
        """What only the inner saver knows (its connection, `setup`, …)."""
        if name == "inner":  # asked by copy() before the instance has its fields
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of the inner saver."""
        return self.inner.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The inner saver's version scheme."""
        return self.inner.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A twin whose inner saver accepts these types as well."""
        twin = copy.copy(self)
        twin.inner = self.inner.with_allowlist(extra_allowlist)
        twin.serde = twin.inner.serde
        return twin

    def delete_thread(self, thread_id: str) -> None:
        """See the inner saver; whatever else is kept of the thread goes with it."""
        self.inner.delete_thread(thread_id)
        if self.forget is not None:
            self.forget(thread_id)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[Any]:
        """`list` in a worker thread, read to its end there: its cursor may not change threads."""
        for saved in await asyncio.to_thread(lambda: [*self.inner.list(config, **options)]):
            yield saved


# What runs do all the time; the rest goes beyond the saver's own connection, or is rare.
_LINED: Final = frozenset({"put", "put_writes", "get_tuple", "get_delta_channel_history"})


# Under the signatures of the base class: LangGraph looks whether a saver takes `task_path`.
def _inner(name: str) -> Callable[..., Any]:
    @wraps(getattr(BaseCheckpointSaver, name))
    def call(self: ThreadedSaver, *args: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(*args, **options)

    return call


def _in_thread(name: str) -> Callable[..., Any]:
    @wraps(getattr(BaseCheckpointSaver, f"a{name}"))
    async def call(self: ThreadedSaver, *args: Any, **options: Any) -> Any:
        work = partial(getattr(self, name), *args, **options)
        line = getattr(self.inner, "line", None)
        if line is None or name not in _LINED:
            return await asyncio.to_thread(work)
        result = await line.run(work)
        await in_turn()  # whoever was saved together need not go on together
        return result

    return call


# Whatever a saver can do in two ways, those that LangGraph adds one day included.
for _name in vars(BaseCheckpointSaver):
    if f"a{_name}" in vars(BaseCheckpointSaver):
        for _method, _made in ((_name, _inner), (f"a{_name}", _in_thread)):
            if _method not in vars(ThreadedSaver):
                setattr(ThreadedSaver, _method, _made(_name))


class ThreadedStore(BaseStore):
    """A sync store whose async methods run in worker threads."""

    def __init__(self, inner: BaseStore) -> None:
        """Adapt `inner`, which must be safe to call from several threads."""
        super().__init__()
        self.inner = inner
        self.supports_ttl = inner.supports_ttl
        self.ttl_config = inner.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See the inner store; what it cannot keep is told in a sentence."""
        try:
            return self.inner.batch(ops)
        except sqlite3.OperationalError as error:
            first: BaseException = error  # the store fails once more when it cleans up
            while isinstance(first.__context__, sqlite3.Error):
                first = first.__context__
            msg = (
                f"Nothing can be kept in the store or read from it ({cause_of(first)}): make room,"
                " or see that the database may be written, then try again."
            )
            raise DatabaseError(msg) from error

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))


def lend(config: RunnableConfig, configurable: Mapping[str, Any]) -> RunnableConfig:
    """Give async methods to the saver and the store a sync parent graph passes down."""
    lent: dict[str, Any] = {}
    if is_sync_only(saver := configurable.get(keys.SAVER)):
        lent[keys.SAVER] = with_async(saver)
    runtime = configurable.get(keys.RUNTIME)
    if isinstance(runtime, Runtime) and with_async_store(runtime.store) is not runtime.store:
        lent[keys.RUNTIME] = runtime.override(store=with_async_store(runtime.store))
    return (
        {**config, "configurable": {**config.get("configurable", {}), **lent}} if lent else config
    )
