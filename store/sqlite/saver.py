"""LangGraph's SQLite saver: a row a task, compressed, on the file that was opened."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

from ..base.langgraph_keys import KIND_SQL
from ..base.worker_threads import WorkerThreads
from ..checkpoints.packing import SQLITE, PackingSaver, Row, Step, make_serializer, unpack_writes
from ..checkpoints.shared_values import COUNTERS, select_rows
from ..journal.sql import explain_errors
from .file import DatabaseFile

_TABLES: Final = ("checkpoints", "writes")

_LINE: Final = (
    "WITH RECURSIVE line(id, parent, metadata, depth) AS ("
    "SELECT checkpoint_id, parent_checkpoint_id, metadata, 0 FROM checkpoints"
    " WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id"
    " UNION ALL SELECT c.checkpoint_id, c.parent_checkpoint_id, c.metadata, line.depth + 1"
    " FROM line CROSS JOIN checkpoints c ON c.checkpoint_id = line.parent"
    " WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns AND line.depth < :most"
    f") SELECT id, parent, json_extract(CAST(metadata AS TEXT), '$.{COUNTERS}') AS counted"
    " FROM line ORDER BY depth"
)
_WRITES: Final = (
    "SELECT checkpoint_id, task_id, channel, type, value FROM writes"
    " WHERE thread_id = :thread AND checkpoint_ns = :ns"
    " AND checkpoint_id IN (SELECT value FROM json_each(:steps))"
    " AND channel IN (SELECT value FROM json_each(:channels))"
    " ORDER BY task_path, task_id, idx"
)


_UNSAVED: Final = (
    "Nothing can be saved or read any more ({cause}): make room, or see that the database may be"
    " written, then resume the thread."
)


class LeanSqliteSaver(PackingSaver, SqliteSaver):
    """LangGraph's SQLite saver, packing and compressing; it can drop what a finished turn left."""

    dialect = SQLITE

    def __init__(self, connection: sqlite3.Connection, file: DatabaseFile | None = None) -> None:
        """Save through this connection; it may be used from several threads."""
        super().__init__(connection, serde=make_serializer())
        self.hands, self._file = WorkerThreads(1), file

    def find_kind(self, thread: str) -> str | None:
        """How the newest checkpoint of a thread is written, if there is one."""
        rows = self.select(KIND_SQL, {"thread": thread})
        return rows[0]["type"] if rows else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint with its writes; see LangGraph."""
        saved = super().get_tuple(config)
        return saved and unpack_writes(saved)

    def list(self, *args: Any, **options: Any) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; see LangGraph."""
        yield from map(unpack_writes, super().list(*args, **options))

    def select(self, sql: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """See PackingSaver."""
        return select_rows(self, sql, values)

    def read_ancestors(self, about: Mapping[str, Any], channels: Sequence[str]) -> Sequence[Step]:
        """See PackingSaver; what its counters name a checkpoint does not hold itself."""
        return [
            Step(row["id"], row["parent"], {*channels} - json.loads(row["counted"] or "{}").keys())
            for row in self.select(_LINE, about)
        ]

    def read_writes(
        self, about: Mapping[str, Any], steps: Sequence[str], names: Sequence[str]
    ) -> Sequence[Row]:
        """See PackingSaver."""
        lists = {"steps": json.dumps(steps), "channels": json.dumps(names)}
        return self.select(_WRITES, {**about, **lists})

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor, on a file that is still the one that was opened."""
        if self._file is not None:
            self._file.check()
        with (
            explain_errors((sqlite3.OperationalError,), _UNSAVED),
            super().cursor(transaction) as cursor,
        ):
            yield cursor

    def forget_scratch(self, thread_id: str, nodes: Iterable[str]) -> None:
        """Delete what graphs inside these nodes saved: only an unfinished turn needs it."""
        with self.cursor() as cursor:
            for node in nodes:
                for table in _TABLES:
                    cursor.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns GLOB ?",
                        (thread_id, f"{node}:*"),
                    )
