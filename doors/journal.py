"""The journal: a row before each call that may change the world, and its result after it.

A row is claimed atomically, so a call is made at most once for its key. After a crash the rows
say what ended, and what may have happened without anybody knowing how it ended.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from ..state.canonical import hash_of, storable, storable_json
from ..state.errors import DatabaseError
from .journal_tables import Connect, Tables, in_memory

T = TypeVar("T")

CallStateWord = Literal["claimed", "finished", "failed", "uncertain"]
EndWord = Literal["finished", "failed", "uncertain"]

_LARGEST_RESULT: Final = 1_000_000
"""Characters of JSON; what a model is shown is far below, the rest is a tool's raw data."""

_PRUNE: Final = (
    "DELETE FROM loopwright_calls WHERE state IN ('finished', 'failed')"
    " AND seq <= (SELECT MAX(seq) FROM loopwright_calls) - ?"
)
_KEPT_IN_MEMORY: Final = 10_000
"""Calls; a process that keeps its journal in memory must not grow with every call it makes."""

_LONGEST_REST: Final = 5.0
"""Seconds; a tool that is cancelled gets two to stop, and then its end is written down."""

_BETWEEN_LOOKS: Final = 0.05
"""Seconds."""

_TURNS_KNOWN: Final = 256
"""Turns whose counts are kept in memory, the newest."""

_CLAIM: Final = (
    "INSERT INTO loopwright_calls (key, thread, place, turn, call, arguments_hash, tool, server,"
    " arguments, state, claimed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'claimed', ?)"
    " ON CONFLICT (key) DO NOTHING"
)
_FIND: Final = "SELECT * FROM loopwright_calls WHERE key = ?"
_RECLAIM: Final = (
    "UPDATE loopwright_calls SET state = 'claimed', result = NULL, claimed_at = ?,"
    " ended_at = NULL WHERE key = ?"
)
_DROP_CLAIM: Final = "DELETE FROM loopwright_calls WHERE key = ? AND state = 'claimed'"
_END: Final = "UPDATE loopwright_calls SET state = ?, result = ?, ended_at = ? WHERE key = ?"
_GRANT: Final = (
    "INSERT INTO loopwright_grants (key, thread, body) VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO NOTHING"
)
_GRANTS: Final = "SELECT body FROM loopwright_grants WHERE thread = ? ORDER BY seq"
_SEED: Final = (
    "INSERT INTO loopwright_begun (thread, turn, model_calls) VALUES (?, ?, ?)"
    " ON CONFLICT (thread, turn) DO NOTHING"
)
_COUNT: Final = (
    "UPDATE loopwright_begun SET model_calls = model_calls + 1 WHERE thread = ? AND turn = ?"
)
_BEGUN: Final = "SELECT model_calls FROM loopwright_begun WHERE thread = ? AND turn = ?"
_TABLES: Final = ("loopwright_calls", "loopwright_grants", "loopwright_begun")


class CallKey(NamedTuple):
    """What makes a call this one and no other; the same after a crash and a resume.

    Attributes:
        thread: The thread's id.
        place: The nodes around the graph, `outer|inner`; "" at the root.
        turn: The user turn.
        call: The evidence id.
        arguments: The hash of the arguments (`state.canonical.hash_of`).
    """

    thread: str
    place: str
    turn: str
    call: str
    arguments: str

    @property
    def idempotency_key(self) -> str:
        """64 hexadecimal digits that a server may use to recognise a repeated call."""
        return hash_of(list(self))


@dataclass(frozen=True, slots=True)
class CallRow:
    """One recorded call; the times are ISO 8601, UTC."""

    key: CallKey
    tool: str
    server: str | None
    arguments: dict[str, Any]
    state: CallStateWord
    result: dict[str, Any] | None
    claimed_at: str
    ended_at: str | None


class Journal:
    """Calls, session grants and what was begun, of every thread of one database.

    Its methods work in worker threads and may be called from any event loop. A cancelled caller
    is let go once the statement has ended, so nothing is written after it.

    Attributes:
        durable: Whether it outlives the process.
        at_work: Calls that are under way through it; a claimed row of any other is a crash's.
    """

    durable: bool
    at_work: set[CallKey]

    def __init__(self, connect: Connect, *, durable: bool) -> None:
        """Open the database by `connect`, at the first use and in a worker thread."""
        self.durable = durable
        self.at_work = set()
        self._connect = connect
        self._tables: Tables | None = None
        self._closed = False
        self._begun: dict[tuple[str, str], int] = {}
        self._own: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    async def claim(
        self, key: CallKey, *, tool: str, server: str | None, arguments: Mapping[str, Any]
    ) -> CallRow | None:
        """Claim a call, atomically.

        Returns:
            None: it is claimed by this call now, and nobody else may make it. Else the row that
            was there before, untouched.

        Raises:
            DatabaseError: It could not be recorded; the call must not be made. So do all methods.
        """
        texts = [key.idempotency_key, *key, tool, None if server is None else storable(server)]
        body = json.dumps(storable_json(dict(arguments)), ensure_ascii=False, default=str)
        values = [storable(v) if v is not None else None for v in texts]

        def claim(tables: Tables) -> CallRow | None:
            while True:
                if tables.execute(_CLAIM, [*values, body, _now()])[0] == 1:
                    return None
                _, found = tables.execute(_FIND, values[:1])
                if found:
                    return _row(found[0])

        def undo(tables: Tables, found: CallRow | None) -> None:
            # The call of a cancelled claim is never made: left behind, its row would say "maybe".
            if found is None:
                tables.execute(_DROP_CLAIM, values[:1])

        return await self._do(claim, undo)

    async def reclaim(self, key: CallKey) -> None:
        """Claim a recorded call once more: a human says so, or its tool may be repeated."""
        values = [_now(), key.idempotency_key]
        await self._do(lambda tables: tables.execute(_RECLAIM, values))

    async def end(self, key: CallKey, state: EndWord, result: Mapping[str, Any] | None) -> None:
        """Record how a claimed call ended.

        Args:
            key: Of the call.
            state: `finished` or `failed` where the tool answered, `uncertain` where it may have
                run and nobody knows.
            result: JSON; of one above 1 MB only texts, numbers and flags at its top are kept.
        """
        body = None if result is None else _body(result)
        values = [state, body, _now(), key.idempotency_key]

        def end(tables: Tables) -> None:
            tables.execute(_END, values)
            if not self.durable:
                tables.execute(_PRUNE, [_KEPT_IN_MEMORY])

        await self._do(end)

    async def find(self, key: CallKey) -> CallRow | None:
        """The row of a call."""
        values = [key.idempotency_key]
        _, found = await self._do(lambda tables: tables.execute(_FIND, values))
        return _row(found[0]) if found else None

    async def at_rest(self, thread: str, turn: str) -> None:
        """Wait for calls of this process that outlive their run, but no longer than 5 s.

        One that goes on even then counts as begun, with an end that nobody knows.
        """
        deadline = time.monotonic() + _LONGEST_REST
        # A copy each time: other threads add to it and take from it.
        while any((key.thread, key.turn) == (thread, turn) for key in tuple(self.at_work)):
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(_BETWEEN_LOOKS)

    async def rows(
        self, thread: str, *, turn: str | None = None, states: Collection[str] = ()
    ) -> list[CallRow]:
        """A thread's calls, oldest first; all of them, or those of one turn or in some states."""
        if self._tables is None and not (self.durable or self._closed):
            return []  # nothing was ever written here, and to open it takes a while
        sql, values = "SELECT * FROM loopwright_calls WHERE thread = ?", [storable(thread)]
        if turn is not None:
            sql, values = f"{sql} AND turn = ?", [*values, storable(turn)]
        if states:
            marks = ", ".join("?" * len(states))
            sql, values = f"{sql} AND state IN ({marks})", [*values, *states]
        _, found = await self._do(lambda tables: tables.execute(f"{sql} ORDER BY seq", values))
        return [_row(row) for row in found]

    async def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """Remember for the thread that a human allows calls like this; twice is once."""
        body = json.dumps(storable_json(dict(grant)), ensure_ascii=False, default=str)
        values = [hash_of([thread, dict(grant)]), storable(thread), body]
        await self._do(lambda tables: tables.execute(_GRANT, values))

    async def grants(self, thread: str) -> list[dict[str, Any]]:
        """What a human has allowed for the thread, oldest first."""
        values = [storable(thread)]
        _, found = await self._do(lambda tables: tables.execute(_GRANTS, values))
        return [json.loads(row["body"]) for row in found]

    def own_turn(self, thread: str, turn: str) -> None:
        """A turn begins in this process: until a crash its state tells all that it used."""
        self._know((thread, turn), 0)
        self._own.add((thread, turn))

    def count_model_call(self, thread: str, turn: str) -> None:
        """Count a model call that is being made, so that crashes do not refill an allowance.

        Of a turn that another process began it is written down, behind the call, which does not
        wait for it: each crash may forget the newest calls, and all those before the first one.
        """
        known = (thread, turn)
        if known in self._begun:
            self._begun[known] += 1
        if known not in self._own:
            values = [storable(thread), storable(turn)]
            asyncio.get_running_loop().run_in_executor(None, self._counted, values)

    def _counted(self, values: list[Any]) -> None:
        with suppress(DatabaseError):  # closed meanwhile, or told by the next statement
            self.tables().execute(_COUNT, values)

    async def model_calls(self, thread: str, turn: str, *, at_least: int = 0) -> int:
        """How many model calls of a turn were begun; asks the database once for each turn.

        Args:
            thread: The thread.
            turn: The turn.
            at_least: Calls that the state tells of, where no crash has been counted yet.
        """
        known = (thread, turn)
        if known not in self._begun:
            values = [storable(thread), storable(turn)]

            def begun(tables: Tables) -> int:
                tables.execute(_SEED, [*values, at_least])
                return int(tables.execute(_BEGUN, values)[1][0]["model_calls"])

            self._know(known, await self._do(begun))
        return self._begun[known]

    def _know(self, known: tuple[str, str], calls: int) -> None:
        for oldest in list(self._begun)[: -_TURNS_KNOWN + 1]:
            del self._begun[oldest]
            self._own.discard(oldest)
        self._begun[known] = calls

    async def forget(self, thread: str) -> None:
        """Delete everything about a thread."""
        await self._do(lambda _: self.forget_now(thread))

    def forget_now(self, thread: str) -> None:
        """The sync twin of `forget`, for a saver that deletes the thread."""
        for table in _TABLES:
            self.tables().execute(f"DELETE FROM {table} WHERE thread = ?", [storable(thread)])
        self._begun = {known: n for known, n in self._begun.items() if known[0] != thread}

    def close(self) -> None:
        """Close it when what is under way has ended; a second call does nothing."""
        with self._lock:
            self._closed = True
            tables = self._tables
        if tables is not None:
            tables.close()

    def tables(self) -> Tables:
        """What it is kept in, opened if it is not; blocks meanwhile.

        Raises:
            DatabaseError: It cannot be opened, or was closed.
        """
        with self._lock:
            if self._closed:
                msg = "The journal of tool calls was closed: open the database again."
                raise DatabaseError(msg)
            if self._tables is None:
                self._tables = self._connect()
            return self._tables

    async def _do(
        self,
        work: Callable[[Tables], T],
        undo: Callable[[Tables, T], None] | None = None,
    ) -> T:
        """Work in a worker thread to its end, also where the caller is cancelled meanwhile.

        Args:
            work: What to do; `undo` takes it back for a caller who will not see its result.
            undo: See `work`.
        """
        # Not a task: a loop that shuts down cancels those, and with them what is not begun yet.
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(None, lambda: work(self.tables()))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await _over(working)
            if working.exception() is None and undo is not None:
                result = working.result()
                undoing = loop.run_in_executor(None, lambda: undo(self.tables(), result))
                await _over(undoing)
                with suppress(DatabaseError):
                    undoing.result()
            raise


async def _over(working: asyncio.Future[Any]) -> None:
    """Wait for it, however often the caller is cancelled: nothing may be written after that."""
    while not working.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([working])


def memory_journal() -> Journal:
    """A journal that lasts as long as the process; it costs nothing until it is used."""
    return Journal(in_memory, durable=False)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _body(result: Mapping[str, Any]) -> str:
    body = json.dumps(storable_json(dict(result)), ensure_ascii=False, default=str)
    if len(body) <= _LARGEST_RESULT:
        return body
    flat = {k: v for k, v in result.items() if v is None or isinstance(v, str | int | float)}
    return json.dumps(storable_json(flat), ensure_ascii=False)


def _row(found: Mapping[str, Any]) -> CallRow:
    result = found["result"]
    return CallRow(
        key=CallKey(
            found["thread"], found["place"], found["turn"], found["call"], found["arguments_hash"]
        ),
        tool=found["tool"],
        server=found["server"],
        arguments=json.loads(found["arguments"]),
        state=cast("CallStateWord", found["state"]),
        result=None if result is None else json.loads(result),
        claimed_at=found["claimed_at"],
        ended_at=found["ended_at"],
    )
