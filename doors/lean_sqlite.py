"""SQLite threads that stay small: compressed, and without the scratch of turns that ended."""

import sqlite3
from collections.abc import Iterable

from langgraph.checkpoint.sqlite import SqliteSaver

from .compact import compact_serializer

_TABLES = ("checkpoints", "writes")


class LeanSqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver, compressing, with a way to drop what a finished turn left."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Save through this connection; it may be used from several threads."""
        super().__init__(connection, serde=compact_serializer())

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's signature
        """A channel's next version: LangGraph's, without the random part.

        That part keeps forks apart where values are stored under their version. Here they are
        stored inside the checkpoint, and a random number in every channel is what compresses
        worst. Comparable with LangGraph's own versions, so its threads can be continued; its
        saver, however, cannot read what is compressed.
        """
        return f"{int(str(current or 0).split('.')[0]) + 1:032}"

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
