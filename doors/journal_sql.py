"""The journal in SQLite and Postgres: the same statements for both."""

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from ..state.canonical import hash_of, storable, storable_json
from ..state.errors import DatabaseError, ThreadBusy
from ..state.journal import Change, Fence, Row
from .journal_memory import OVERTAKEN
from .journal_tables import Connect, Execute, Tables

T = TypeVar("T")

_OPEN: Final = (
    "SELECT body FROM loopwright_intents WHERE thread = ? AND (state <> 'closed'{named})"
    " ORDER BY seq"
)
_SAVE: Final = (
    "INSERT INTO loopwright_intents (thread, name, state, body) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (thread, name) DO UPDATE SET state = excluded.state, body = excluded.body"
)
_DROP: Final = "DELETE FROM loopwright_intents WHERE thread = ? AND name = ?"
_FENCE: Final = "SELECT token FROM loopwright_fences WHERE name = ?"
_RAISE: Final = (
    "INSERT INTO loopwright_fences (name, token) VALUES (?, 1)"
    " ON CONFLICT (name) DO UPDATE SET token = loopwright_fences.token + 1 RETURNING token"
)
_GRANT: Final = (
    "INSERT INTO loopwright_grants (key, thread, body) VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO NOTHING"
)
_GRANTS: Final = "SELECT body FROM loopwright_grants WHERE thread = ? ORDER BY seq"
_COUNT: Final = (
    "INSERT INTO loopwright_begun (thread, turn, model_calls) VALUES (?, ?, ?)"
    " ON CONFLICT (thread, turn) DO UPDATE"
    " SET model_calls = loopwright_begun.model_calls + ? RETURNING model_calls"
)
_OF_THREADS: Final = ("loopwright_intents", "loopwright_grants", "loopwright_begun")


class SqlJournal:
    """See `state.journal.Journal`."""

    def __init__(self, connect: Connect, *, durable: bool) -> None:
        """Open the database by `connect`, at the first use."""
        self.durable = durable
        self._connect = connect
        self._tables: Tables | None = None
        self._closed = False
        self._lock = threading.Lock()

    def rows(self, thread: str, names: Collection[str] = ()) -> list[Row]:
        """See Journal."""
        return _open(self.tables().execute, thread, names)

    def transact(
        self,
        thread: str,
        work: Callable[[Sequence[Row]], tuple[T, Change]],
        *,
        names: Collection[str] = (),
        fence: Fence | None = None,
    ) -> T:
        """See Journal."""
        with self.tables().transaction(thread) as execute:
            if fence is not None:
                _, found = execute(_FENCE, [storable(fence.name)])
                if not found or found[0]["token"] != fence.token:
                    raise ThreadBusy(OVERTAKEN.format(name=fence.name))
            result, change = work(_open(execute, thread, names))
            for row in change.save:
                body = json.dumps(storable_json(asdict(row)), ensure_ascii=False, default=str)
                execute(_SAVE, [storable(thread), storable(row.name), row.state, body])
            for name in change.drop:
                execute(_DROP, [storable(thread), storable(name)])
            return result

    def raise_fence(self, name: str) -> Fence:
        """See Journal."""
        _, found = self.tables().execute(_RAISE, [storable(name)])
        return Fence(name, int(found[0]["token"]))

    def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """See Journal."""
        body = json.dumps(storable_json(dict(grant)), ensure_ascii=False)
        values = [hash_of([thread, dict(grant)]), storable(thread), body]
        self.tables().execute(_GRANT, values)

    def grants(self, thread: str) -> list[dict[str, Any]]:
        """See Journal."""
        _, found = self.tables().execute(_GRANTS, [storable(thread)])
        return [json.loads(row["body"]) for row in found]

    def model_calls(self, thread: str, turn: str, *, add: int = 0, at_least: int = 0) -> int:
        """See Journal."""
        values = [storable(thread), storable(turn), at_least + add, add]
        _, found = self.tables().execute(_COUNT, values)
        return int(found[0]["model_calls"])

    def forget(self, thread: str) -> None:
        """See Journal."""
        for table in _OF_THREADS:
            self.tables().execute(f"DELETE FROM {table} WHERE thread = ?", [storable(thread)])

    def close(self) -> None:
        """Close it when what is under way has ended; a second call does nothing."""
        with self._lock:
            self._closed = True
            tables = self._tables
        if tables is not None:
            tables.close()

    def tables(self) -> Tables:
        """What it is kept in, opened if it is not.

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


def _open(execute: Execute, thread: str, names: Collection[str]) -> list[Row]:
    marks = ", ".join("?" * len(names))
    sql = _OPEN.format(named=f" OR name IN ({marks})" if names else "")
    _, found = execute(sql, [storable(thread), *map(storable, names)])
    return [Row(**json.loads(row["body"])) for row in found]
