"""Where threads are kept: one URL gives the checkpointer, the store and the journal."""

import importlib
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

from ..state.errors import DatabaseError
from ..state.messages import MESSAGES
from .checks import Head
from .journal import Journal
from .journal_tables import PostgresTables, SqliteTables, Tables, unusable
from .lean_sqlite import LeanSqliteSaver
from .postgres_locks import PostgresLocks
from .savers import ThreadedSaver, with_async_store

DEFAULT_URL: Final = "sqlite:///.loopwright/threads.db"

BUSY_SECONDS: Final = 10.0
"""How long one process waits for another's write; a turn's write takes milliseconds."""

_PAGE_BYTES: Final = 8192

_IDLE_SECONDS: Final = 300.0
"""Postgres connections unused for longer are closed: firewalls drop idle ones silently."""

_KEEP_ALIVE_SECONDS: Final = 60
"""An idle connection that holds locks may not be closed: it is kept awake instead."""

_POSTGRES_RACES: Final = frozenset({"23505", "40P01", "42701", "42710", "42P07"})
"""SQLSTATEs of migrations run side by side: duplicate row, column, object or table; deadlock."""

_FORMS: Final = "sqlite:///FILE, sqlite:////ABSOLUTE/FILE, sqlite:///:memory: or postgresql://…"
_THREADS_SQL: Final = "SELECT DISTINCT thread_id FROM checkpoints WHERE checkpoint_ns = ''"


@dataclass(frozen=True, kw_only=True)
class Durability:
    """An open database.

    Attributes:
        url: what it was opened by.
        checkpointer: saves threads; usable sync, and async from any event loop.
        store: keeps what outlives a thread; usable like the checkpointer.
        journal: records tool calls.
    """

    url: str
    checkpointer: BaseCheckpointSaver[Any]
    store: BaseStore
    journal: Journal
    thread_ids: Callable[[], Iterable[str]] = field(repr=False)
    closers: tuple[Callable[[], None], ...] = field(default=(), repr=False)

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        for close in self.closers:
            close()

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close at the end of the block."""
        self.close()


def open_durability(url: str = DEFAULT_URL) -> Durability:
    """Open a database and prove that it can be written.

    Args:
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///:memory:` or
            `postgresql://user@host/name`. Missing folders of a SQLite file are created.

    Raises:
        DatabaseError: it cannot be opened or written; says what, where and what to do.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and rest[1:]:
        return _open_sqlite(url, rest[1:])
    if scheme in {"postgresql", "postgres"}:
        return _open_postgres(url)
    msg = f"Cannot open the database {_without_password(url)!r}: give {_FORMS}."
    raise DatabaseError(msg)


def _open_sqlite(url: str, name: str) -> Durability:
    path = name if name == ":memory:" else str(Path(name).expanduser())
    opened: list[sqlite3.Connection] = []
    try:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        for autocommit in (False, True, True):
            opened.append(_connect(path, autocommit=autocommit))
        return _on_sqlite(url, *opened, path=path)
    except (sqlite3.Error, OSError) as error:
        for connection in opened:
            connection.close()
        msg = (
            f"Cannot use {path!r} as a database ({_cause(error)}): check that it is a SQLite file"
            f" in a folder you may write, or give another URL instead of {url!r}."
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
        _patiently(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone(), _sqlite_race)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _patiently(act: Callable[[], object], passes: Callable[[Exception], bool]) -> None:
    """Repeat what fails only because another process is opening the same database."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            act()
        except Exception as error:
            if not passes(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _sqlite_race(error: Exception) -> bool:
    """A switch to WAL ignores the busy timeout; migrations run side by side find each other's."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_BUSY or "duplicate column" in str(error)
    return isinstance(error, sqlite3.IntegrityError)


def _on_sqlite(
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
        _patiently(setup, _sqlite_race)
    journal = Journal(partial(_created, tables, path), durable=path != ":memory:")
    adapted = with_async_store(store)
    return Durability(
        url=url,
        checkpointer=ThreadedSaver(saver, journal.forget_now),
        store=adapted if adapted is not None else store,
        journal=journal,
        thread_ids=lambda: _sqlite_threads(saver),
        # The journal closes its connection only if it was used.
        closers=(partial(_close, saver), partial(_close, store), journal.close, tables.close),
    )


def _created(tables: SqliteTables, path: str) -> Tables:
    """The journal's tables, once something is to be recorded: they take 60 kB of a file."""
    try:
        _patiently(tables.create, _sqlite_race)
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    return tables


def _close(owner: SqliteSaver | SqliteStore) -> None:
    """Close a connection when nobody uses it: a write of a cancelled run may still be under way."""
    with owner.lock:
        owner.conn.close()


def _sqlite_threads(saver: SqliteSaver) -> list[str]:
    with saver.cursor(transaction=False) as cursor:
        return [thread for (thread,) in cursor.execute(_THREADS_SQL)]


def _drivers(url: str) -> tuple[Any, ...]:
    # Imported by name: the drivers are an extra most installations do not have.
    names = ("psycopg", "psycopg_pool", "langgraph.checkpoint.postgres", "langgraph.store.postgres")
    try:
        return tuple(importlib.import_module(name) for name in names)
    except ImportError as error:
        msg = (
            f"Cannot open {_without_password(url)!r}: the PostgreSQL drivers are not installed"
            f" ({error.name}); run pip install 'loopwright[postgres]'."
        )
        raise DatabaseError(msg) from error


def _open_postgres(url: str) -> Durability:
    psycopg, pools, savers, stores = _drivers(url)
    errors = (psycopg.Error, pools.PoolTimeout, pools.PoolClosed)
    # No prepared statements: PgBouncer hands a session to somebody else between two of them.
    options = {
        "autocommit": True,
        "prepare_threshold": None,
        "row_factory": psycopg.rows.dict_row,
    }
    connect = partial(psycopg.connect, url, connect_timeout=int(BUSY_SECONDS), **options)
    pool = _pool(pools, url, options)
    try:
        # Alone it fails at once and says why; a pool tries again and only says that it gave up.
        connect().close()
        pool.open()
        saver, store = savers.PostgresSaver(pool), stores.PostgresStore(pool)
        tables = PostgresTables(pool, errors, _without_password(url))
        for setup in (saver.setup, store.setup, tables.create):
            _patiently(setup, lambda error: getattr(error, "sqlstate", None) in _POSTGRES_RACES)
        # Where the doors look; a copy of the saver, which LangGraph may make, has it as well.
        saver.thread_locks = PostgresLocks(
            lambda name: connect(application_name=name, keepalives_idle=_KEEP_ALIVE_SECONDS),
            errors,
            _without_password(url),
        )
        return _on_postgres(url, pool, saver, store, tables)
    except errors as error:
        pool.close()
        msg = (
            f"Cannot use the database {_without_password(url)!r} ({_cause(error)}): check that"
            " the server runs and that this user may create and write tables there."
        )
        raise DatabaseError(msg) from error


def _pool(pools: Any, url: str, options: dict[str, Any]) -> Any:
    return pools.ConnectionPool(
        url,
        min_size=1,
        max_size=10,
        max_idle=_IDLE_SECONDS,
        timeout=BUSY_SECONDS,
        open=False,
        check=pools.ConnectionPool.check_connection,
        kwargs=options,
    )


def _on_postgres(url: str, pool: Any, saver: Any, store: Any, tables: Tables) -> Durability:
    with pool.connection() as connection:
        # Existing tables are not touched by setup; no row is enough to ask for the right to write.
        connection.execute("INSERT INTO checkpoints SELECT * FROM checkpoints WHERE false")
    journal = Journal(lambda: tables, durable=True)
    return Durability(
        url=_without_password(url),
        checkpointer=ThreadedSaver(saver, journal.forget_now),
        store=store,
        journal=journal,
        thread_ids=lambda: _postgres_threads(pool),
        closers=(saver.thread_locks.close, pool.close),
    )


def _postgres_threads(pool: Any) -> list[str]:
    with pool.connection() as connection:
        return [row["thread_id"] for row in connection.execute(_THREADS_SQL)]


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    shown = f"{scheme}://{user.partition(':')[0]}{at}{host}"
    return re.sub(r"(?i)(password=)[^&]*", r"\1…", shown)


def _cause(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """One saved thread as a list shows it.

    Attributes:
        thread_id: its id.
        updated: when its newest checkpoint was written, ISO 8601, UTC.
        next: the nodes of the step the thread stands at; empty where it ended.
        waiting: a question waits for a human.
        status: the status of its last outcome, None while a turn is unfinished.
        request: the text of the first human message that is still kept, '' without one.
    """

    thread_id: str
    updated: str
    next: tuple[str, ...]
    waiting: bool
    status: str | None
    request: str


def list_threads(durability: Durability) -> list[ThreadSummary]:
    """Every saved thread, newest first; reads one checkpoint a thread."""
    found = (_summary(durability.checkpointer, thread) for thread in durability.thread_ids())
    known = [summary for summary in found if summary is not None]
    return sorted(known, key=lambda summary: summary.updated, reverse=True)


def _summary(saver: BaseCheckpointSaver[Any], thread: str) -> ThreadSummary | None:
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if saved is None:  # deleted since it was listed
        return None
    head = Head(saved)
    return ThreadSummary(
        thread_id=thread,
        updated=saved.checkpoint["ts"],
        next=tuple(sorted(head.waiting())),
        waiting=bool(head.interrupts()),
        status=head.status,
        request=_first_request(saver, head),
    )


def _first_request(saver: BaseCheckpointSaver[Any], head: Head) -> str:
    stored = head.values.get("messages")
    if stored is None:
        config = head.saved.config
        history = saver.get_delta_channel_history(config=config, channels=["messages"])["messages"]
        channel = MESSAGES.from_checkpoint(history.get("seed", []))
        channel.replay_writes(history["writes"])
        stored = channel.get()
    return _first_human_text(stored)


def _first_human_text(messages: object) -> str:
    known = getattr(messages, "value", messages)
    for message in known if isinstance(known, Iterable) else ():
        if isinstance(message, BaseMessage) and message.type == "human":
            return message.text
    return ""
