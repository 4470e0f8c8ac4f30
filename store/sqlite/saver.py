"""LangGraph's SQLite saver, leaner: a row for what a node has written, compressed, saved together.

What is read back is what LangGraph expects; what was saved row by row is read as well.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, get_checkpoint_id
from langgraph.checkpoint.sqlite import SqliteSaver

from ...state.errors import DatabaseError
from ..checkpoints.deflate import lean_serializer, next_version
from ..checkpoints.line import Line
from ..checkpoints.packed_writes import PACKED, Walk, Written, apart, packed, unpacked
from ..checkpoints.shared_values import COUNTERS
from ..journal.sql import cause_of
from .file import DatabaseFile

_TABLES: Final = ("checkpoints", "writes")

_LINE: Final = (
    "WITH RECURSIVE line(id, parent, type, checkpoint, metadata) AS ("
    "SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints"
    " WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id"
    " UNION ALL SELECT c.checkpoint_id, c.parent_checkpoint_id, c.type, c.checkpoint, c.metadata"
    " FROM line CROSS JOIN checkpoints c ON c.checkpoint_id = line.parent"
    " WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns"
    ") SELECT id, type, checkpoint, metadata FROM line"
)
_WRITES: Final = (
    "SELECT checkpoint_id, task_id, channel, type, value FROM writes"
    " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id IN ({steps})"
    " AND channel IN ({channels}) ORDER BY task_path, task_id, idx"
)


class PackingSaver(SqliteSaver):
    """LangGraph's SQLite saver with a row for each node that ended, not for each channel."""

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote; see LangGraph.

        What is written onto a checkpoint itself is saved again, and longer, with each addition:
        that stays a row each, and so does what LangGraph replaces by its channel.
        """
        writes = packed(writes, task_id)
        super().put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint with its writes; see LangGraph."""
        saved = super().get_tuple(config)
        return saved if saved is None else unpacked(saved)

    def list(self, *args: Any, **options: Any) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; see LangGraph."""
        yield from map(unpacked, super().list(*args, **options))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The values and writes that channels are made of; see LangGraph.

        A checkpoint is read only where its metadata do not say that it holds none of them.
        """
        walk = Walk(channels)
        if not get_checkpoint_id(config):
            newest = self.get_tuple(config)
            if newest is None:
                return walk.found
            config = newest.config
        place, target = config["configurable"], get_checkpoint_id(config)
        about = str(place["thread_id"]), place.get("checkpoint_ns", "")
        with self.cursor(transaction=False) as cursor:
            named = dict(zip(("thread", "ns", "id"), (*about, target), strict=True))
            for step, kind, blob, metadata in cursor.execute(_LINE, named):
                if not walk.goes_on(step):
                    break
                if step != target:
                    counted = json.loads(metadata or "{}").get(COUNTERS, {})
                    walk.back(step, counted, partial(self.serde.loads_typed, (kind, blob)))
        return walk.told(self._written(about, walk))

    def _written(self, about: tuple[str, str], walk: "Walk") -> "Written":
        """What was written onto the checkpoints of a walk."""
        steps, names = walk.steps, [*walk.found, PACKED]
        written: Written = {step: [] for step in steps}
        marks = {"steps": ", ".join("?" * len(steps)), "channels": ", ".join("?" * len(names))}
        with self.cursor(transaction=False) as cursor:
            found = cursor.execute(_WRITES.format(**marks), (*about, *steps, *names))
            for step, task, channel, *value in found:
                written[step] += apart(task, channel, self.serde.loads_typed(value))
        return written


class LeanSqliteSaver(PackingSaver):
    """LangGraph's SQLite saver, packing and compressing; it can drop what a finished turn left."""

    def __init__(self, connection: sqlite3.Connection, file: DatabaseFile | None = None) -> None:
        """Save through this connection; it may be used from several threads.

        What may be saved says `lean_serializer`.
        """
        super().__init__(connection, serde=lean_serializer())
        self._file = file
        self.line = Line(self._together)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """One transaction for all that the line does in a block."""
        with self.lock:
            try:
                yield
                self.conn.commit()
            except BaseException:
                self.conn.rollback()
                raise

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor, on a file that is still the one that was opened."""
        if self._file is not None:
            self._file.check()
        try:
            if self.line.is_here:
                self.setup()
                with closing(self.conn.cursor()) as cursor:
                    yield cursor
            else:
                with super().cursor(transaction) as cursor:
                    yield cursor
        except sqlite3.OperationalError as error:
            msg = (
                f"Nothing can be saved or read any more ({cause_of(error)}): make room, or see that"
                " the database may be written, then resume the thread."
            )
            raise DatabaseError(msg) from error

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's signature
        """A channel's next version; see `next_version`."""
        return next_version(current)

    def forget_scratch(self, thread_id: str, nodes: Iterable[str]) -> None:
        """Delete the checkpoints of subgraphs that ran inside these nodes of a thread.

        They serve to resume a task in its middle. Once its turn has ended, its result and
        evidence are in the thread's own checkpoints.
        """
        with self.cursor() as cursor:
            for node in nodes:
                for table in _TABLES:
                    cursor.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns GLOB ?",
                        (thread_id, f"{node}:*"),
                    )
