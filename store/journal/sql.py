"""The journal in SQL: one schema and the same statements, whatever database holds them."""

import json
import sqlite3
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final, TypeVar

from ...state.errors import DatabaseError, ThreadBusy
from ...state.limits import unpack
from ...text.canonical import hash_of, make_storable, make_storable_json
from ..base.worker_threads import WorkerThreads
from .port import Change, Fence, Row, Wish
from .tables import Execute, NotDone, SqliteTables, Tables, retry_once

T = TypeVar("T")

BUSY_SECONDS: Final = 10.0
"""How long one process waits for another's write; a turn's write takes milliseconds."""

_KEPT: Final = 10_000
"""Closed rows of a thread in memory; a process that lives long must not grow with every call."""

# One table for all that is recorded, each kind in its own words: `intent`, `grant` (what a human
# has allowed), `turn` (model calls that a turn has begun), `wish` (what waits for a run of the
# thread), `fence` (of no thread: a thread that is forgotten must not count from the start again).
_SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS loopwright_journal (
    seq {number},
    thread TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (thread, kind, name)
)""",
    "CREATE INDEX IF NOT EXISTS loopwright_journal_by_state"
    " ON loopwright_journal (thread, kind, state)",
)
_FIND: Final = (
    "SELECT seq, body FROM loopwright_journal WHERE thread = ? AND kind = ? AND state IN ({states})"
)
_NAMED: Final = (
    " UNION SELECT seq, body FROM loopwright_journal WHERE thread = ? AND kind = ?"
    " AND name IN ({names})"
)
_SAVE: Final = (
    "INSERT INTO loopwright_journal (thread, kind, name, state, body) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (thread, kind, name) DO UPDATE SET state = excluded.state, body = excluded.body"
)
_RAISE: Final = (
    "INSERT INTO loopwright_journal (thread, kind, name, state, body)"
    " VALUES ('', 'fence', ?, '', '1') ON CONFLICT (thread, kind, name) DO UPDATE"
    " SET body = CAST(CAST(loopwright_journal.body AS BIGINT) + 1 AS TEXT) RETURNING body"
)
_NOTE: Final = (
    "INSERT INTO loopwright_journal (thread, kind, name, state, body)"
    " SELECT ?, 'turn', ?, '', ? WHERE {holds} ON CONFLICT (thread, kind, name) DO UPDATE"
    " SET body = excluded.body"
)
_NOTED: Final = (
    "SELECT body FROM loopwright_journal WHERE thread = ? AND kind = 'turn' AND name = ?"
)
_TOKEN: Final = (
    "SELECT body FROM loopwright_journal WHERE thread = '' AND kind = 'fence' AND name = ?"
)
_DROP: Final = "DELETE FROM loopwright_journal WHERE thread = ? AND kind = ? AND name = ?"
_PRUNE: Final = (
    "DELETE FROM loopwright_journal WHERE thread = ? AND kind = 'intent' AND state = 'closed'"
    " AND seq <= (SELECT seq FROM loopwright_journal WHERE thread = ? AND kind = 'intent'"
    " AND state = 'closed' ORDER BY seq DESC LIMIT 1 OFFSET ?)"
)
_LONG: Final = 1_500
"""Characters of a body that are worth packing: mostly it is what a tool has brought."""
_TOGETHER: Final = "taken"
"""Ends the name under which all that a turn has taken stands."""
_SETTLED: Final = "settled"
"""In the table the state of what has finished and stays with its step: of these a thread has many,
and only their own calls ask for them."""
_LIVE: Final = ("", "claimed", "finished")
_OPEN: Final = (*_LIVE, _SETTLED)

_AWAY: Final = (
    "Cannot use the journal of tool calls in {database!r} ({cause}): a call that may change the"
    " world is not made unrecorded; repair the database, then resume the thread."
)
_FORGET: Final = "DELETE FROM loopwright_journal WHERE thread = ? AND kind <> 'fence'"


class SqlJournal:
    """See `state.journal.Journal`."""

    def __init__(self, connect: Callable[[], Tables], *, durable: bool) -> None:
        """Open the database by `connect`, at the first use: its tables take 60 kB of a file."""
        self.durable = durable
        self.hands: WorkerThreads | None = None
        """The threads of its database, where that has some."""
        self.beside: dict[str, Any] = {}
        """What others keep in its database, by names of theirs."""
        self._connect = connect
        self._tables: Tables | None = None
        self._complete = self._closed = False
        self._lock = threading.Lock()

    def rows(self, thread: str, names: Collection[str] = ()) -> list[Row]:
        """See Journal."""
        with self._open_block() as execute:
            return _select_rows(execute, thread, _OPEN, names)

    @retry_once
    def transact(
        self,
        thread: str,
        work: Callable[[Sequence[Row]], tuple[T, Change]],
        *,
        names: Collection[str] = (),
        fence: Fence | None = None,
    ) -> T:
        """See Journal."""
        tables = self.open()
        with self._open_block(thread, fence) as execute:
            if fence is not None and tables.token(fence.name) != fence.token:
                _check_fence(execute, fence)
            result, change = work(_select_rows(execute, thread, _LIVE if names else _OPEN, names))
            for row in change.save:
                state = _SETTLED if row.state == "finished" and not row.spare else row.state
                _save(execute, thread, "intent", row.name, asdict(row), state, packs=tables.packs)
            for name in change.drop:
                execute(_DROP, [make_storable(thread), "intent", make_storable(name)])
            if not self.durable:
                execute(_PRUNE, [make_storable(thread), make_storable(thread), _KEPT])
            return result

    def raise_fence(self, name: str) -> Fence:
        """See Journal."""
        token = self.open().token(name)
        if token is None:
            with self._open_block() as execute:
                token = int(execute(_RAISE, [make_storable(name)])[0]["body"])
        return Fence(name, token)

    @retry_once
    def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """See Journal."""
        with self._open_block(thread) as execute:
            _save(execute, thread, "grant", hash_of(dict(grant)), dict(grant))

    def grants(self, thread: str) -> list[dict[str, Any]]:
        """See Journal."""
        with self._open_block() as execute:
            return _find(execute, thread, "grant")

    def write_counts(self, thread: str, turn: str, counts: Mapping[str, float]) -> None:
        """See Journal."""
        holds, shown = self.open().holds(thread)
        with self._open_block() as execute:
            values = [
                make_storable(thread),
                make_storable(f"{turn} {_TOGETHER}"),
                json.dumps(dict(counts)),
            ]
            execute(_NOTE.format(holds=holds), [*values, *shown])

    def read_counts(self, thread: str, turn: str) -> dict[str, float]:
        """See Journal."""
        with self._open_block() as execute:
            rows = execute(_NOTED, [make_storable(thread), make_storable(f"{turn} {_TOGETHER}")])
        return dict(json.loads(rows[0]["body"])) if rows else {}

    def add_wish(self, thread: str, wish: Wish) -> None:
        """See Journal."""
        now = self.open().now
        with self._open_block() as execute:
            body = {"name": wish.name, "message": wish.message, "at": _read_clock(execute, now)}
            _save(execute, thread, "wish", wish.name, body)

    def list_wishes(self, thread: str) -> list[Wish]:
        """See Journal. A database in which nothing was ever recorded is not given its tables."""
        with self._lock:
            tables = self._ensure_connected()
        try:
            with explain_errors(tables.errors, _AWAY, tables.name), tables.block() as execute:
                found = _find(execute, thread, "wish")
                now = _read_clock(execute, tables.now) if found else 0.0
                return [Wish(one["name"], one["message"], now - one["at"]) for one in found]
        except DatabaseError:
            if self._complete:
                raise
            return []

    @retry_once
    def forget_wishes(self, thread: str, names: Collection[str]) -> None:
        """See Journal."""
        with self._open_block(thread) as execute:
            for name in names:
                execute(_DROP, [make_storable(thread), "wish", make_storable(name)])

    def read_bodies(self, thread: str) -> list[str]:
        """All that is on record of a thread, as text."""
        with self._open_block() as execute:
            return select_bodies(execute, thread)

    def forget(self, thread: str) -> None:
        """See Journal."""
        with self._open_block() as execute:
            execute(_FORGET, [make_storable(thread)])

    def close(self) -> None:
        """Close it when what is under way has ended; a second call does nothing."""
        with self._lock:
            self._closed = True
            tables = self._tables
        if tables is not None:
            tables.close()

    def open(self) -> Tables:
        """Open the database and make its tables, once; raises DatabaseError."""
        with self._lock:
            tables = self._ensure_connected()
            if not self._complete:
                with explain_errors(tables.errors, _AWAY, tables.name):
                    create(tables, _SCHEMA)
                self._complete = True
            return tables

    def _ensure_connected(self) -> Tables:
        if self._closed:
            msg = "The journal of tool calls was closed: open the database again."
            raise DatabaseError(msg)
        if self._tables is None:
            self._tables = self._connect()
        return self._tables

    @contextmanager
    def _open_block(
        self, thread: str | None = None, fence: Fence | None = None
    ) -> Iterator[Execute]:
        tables = self.open()
        with (
            explain_errors(tables.errors, _AWAY, tables.name),
            tables.block(thread, fence) as execute,
        ):
            yield execute


class MemoryJournal(SqlJournal):
    """The journal of a graph that was given none: it lasts as long as the process."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__(_open_in_memory, durable=False)
        self.identity = uuid.uuid4().hex


def _open_in_memory() -> SqliteTables:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    return SqliteTables(connection, ":memory:")


def create(tables: Tables, schema: Sequence[str]) -> None:
    """Create missing tables, safe beside other processes that do the same."""

    def make() -> None:
        with tables.block() as execute:
            for statement in () if tables.made else schema:
                execute(statement.format(number=tables.number), [])

    retry_while_busy(make, tables.is_race)


def _read_clock(execute: Execute, now: str) -> float:
    """The seconds since 1970 by the database's clock, see Tables."""
    return float(execute(f"SELECT {now} AS now", [])[0]["now"])


def _find(
    execute: Execute, thread: str, kind: str, states: Sequence[str] = _OPEN,
    names: Collection[str] = (),
) -> list[Any]:  # fmt: skip
    """What is on record in these states or under these names, oldest first."""
    about = [make_storable(thread), kind]
    sql, values = _FIND.format(states=_make_placeholders(states)), [*about, *states]
    if names:
        sql += _NAMED.format(names=_make_placeholders(names))
        values += [*about, *map(make_storable, names)]
    return [json.loads(decode_body(row["body"])) for row in execute(f"{sql} ORDER BY seq", values)]


def select_bodies(execute: Execute, thread: str) -> list[str]:
    """All that is on record of a thread, as it was written."""
    sql = "SELECT body FROM loopwright_journal WHERE thread = ?"
    return [decode_body(row["body"]) for row in execute(sql, [make_storable(thread)])]


def decode_body(body: str | bytes) -> str:
    """A body as it stands in the table, unpacked."""
    return body if isinstance(body, str) else unpack(body).decode()


def _make_placeholders(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))


def _select_rows(
    execute: Execute, thread: str, states: Sequence[str], names: Collection[str]
) -> list[Row]:
    return [Row(**body) for body in _find(execute, thread, "intent", states, names)]


def _save(
    execute: Execute, thread: str, kind: str, name: str, body: dict[str, Any], state: str = "", *,
    packs: bool = False,
) -> None:  # fmt: skip
    text = json.dumps(make_storable_json(body), ensure_ascii=False, default=str)
    packed = zlib.compress(text.encode()) if packs and len(text) > _LONG else text
    execute(_SAVE, [make_storable(thread), kind, make_storable(name), state, packed])


def _check_fence(execute: Execute, fence: Fence) -> None:
    found = execute(_TOKEN, [make_storable(fence.name)])
    if not found or int(found[0]["body"]) != fence.token:
        msg = (
            f"Another run has locked the thread {fence.name!r} since this one began: it stops"
            " before it changes anything more. Resume the thread when that run has ended."
        )
        raise ThreadBusy(msg)


@contextmanager
def explain_errors(
    errors: tuple[type[Exception], ...], sentence: str, database: str = ""
) -> Iterator[None]:
    """What a driver raises in the block is told by a sentence with `database` and `cause`."""
    failures: tuple[type[Exception], ...] = (*errors, NotDone)
    try:
        yield
    except failures as error:
        msg = sentence.format(database=database, cause=get_cause(error))
        raise (NotDone if isinstance(error, NotDone) else DatabaseError)(msg) from error


def retry_while_busy(act: Callable[[], object], passes: Callable[[Exception], bool]) -> None:
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


def get_cause(error: BaseException) -> str:
    """What a driver says, in its first line."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
