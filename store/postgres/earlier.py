"""Threads that an earlier version kept in the tables of LangGraph's own saver: taken over singly.

The tables may be another program's as well, or a server's: only what this package's graphs have
saved there by themselves is theirs. Each is copied when it is first opened, unless a worker of the
earlier version runs it, which holds an advisory lock; from then on a trigger refuses whatever such
a worker would save of it. What it was copied from stays where it is.
"""

import hashlib
import importlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ...state.errors import ThreadBusy
from ...text.canonical import storable_json
from ..checkpoints.head import Head
from ..threads.listing import GRAPH_KEY
from .pool import together
from .schema import OURS

THERE: Final = "SELECT to_regprocedure('loopwright_taken_over()') IS NOT NULL AS there"

_SAVED: Final = f"SELECT FROM checkpoints c WHERE thread_id = %(thread)s AND {OURS.format('c')}"
_KEPT: Final = (
    f"SELECT EXISTS ({_SAVED}) AND NOT EXISTS"
    " (SELECT FROM loopwright_checkpoints WHERE thread_id = %(thread)s) AS kept"
)
# One after the other, and nobody while a worker of the earlier version has the thread.
_MINE: Final = (
    "SELECT pg_advisory_xact_lock(hashtextextended('loopwright earlier ' || %s, 0)),"
    " pg_try_advisory_xact_lock(%s) AS mine"
)
_PUT: Final = (
    "INSERT INTO loopwright_checkpoints (thread_id, checkpoint_ns, checkpoint_id,"
    " parent_checkpoint_id, type, checkpoint, metadata) VALUES (%s, %s, %s, %s, %s, %b, %s)"
)
_WRITES: Final = (
    "INSERT INTO loopwright_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path,"
    " idx, channel, type, value) SELECT thread_id, checkpoint_ns, checkpoint_id, task_id,"
    " task_path, idx, channel, type, blob FROM checkpoint_writes WHERE thread_id = %s"
)
_ROW: Final = (
    "INSERT INTO loopwright_threads (name, graph, state, status, updated, bytes)"
    " VALUES (%(name)s, %(graph)s, %(state)s, %(status)s, %(updated)s, %(bytes)s)"
    " ON CONFLICT (name) DO UPDATE SET graph = excluded.graph, state = excluded.state,"
    " status = excluded.status, updated = excluded.updated, bytes = excluded.bytes"
)
# The checkpoints last: by them the others are known.
_DELETE: Final = tuple(
    f"DELETE FROM {table} WHERE thread_id = %(thread)s AND EXISTS ({_SAVED})"
    for table in ("checkpoint_blobs", "checkpoint_writes", "checkpoints")
)


class Earlier:
    """The threads of the earlier version in one database."""

    def __init__(self, connect: Callable[[], AbstractContextManager[Any]]) -> None:
        """Take them over through connections in autocommit mode, with rows as dicts."""
        self._connect = connect

    def take_over(self, thread: str, serde: SerializerProtocol) -> bool:
        """Copy a thread, if there is one and it was not copied yet; `serde` writes values down.

        Raises:
            ThreadBusy: A worker of the earlier version runs it.
        """
        with self._connect() as connection:
            if not connection.execute(_KEPT, {"thread": thread}).fetchone()["kept"]:
                return False
            with connection.transaction():
                mine = connection.execute(_MINE, [thread, _number(thread)]).fetchone()["mine"]
                if not mine:
                    raise ThreadBusy(_busy(thread))
                if connection.execute(_KEPT, {"thread": thread}).fetchone()["kept"]:
                    self._copy(connection, thread, serde)
            return True

    def delete(self, thread: str) -> None:
        """Delete what a thread was copied from, too."""
        with self._connect() as connection, together(connection):
            for statement in _DELETE:
                connection.execute(statement, {"thread": thread})

    def _copy(self, connection: Any, thread: str, serde: SerializerProtocol) -> None:
        module = importlib.import_module("langgraph.checkpoint.postgres")
        # As the earlier version read them: of any type.
        saver = module.PostgresSaver(connection, serde=JsonPlusSerializer())
        newest: CheckpointTuple | None = None
        size = 0
        for saved in saver.list({"configurable": {"thread_id": thread}}):
            place = saved.config["configurable"]
            if newest is None and not place["checkpoint_ns"]:
                newest = saved
            kind, value = serde.dumps_typed(saved.checkpoint)
            size += len(value)
            about = [thread, place["checkpoint_ns"], place["checkpoint_id"]]
            parent = saved.parent_config and saved.parent_config["configurable"]["checkpoint_id"]
            told = json.dumps(storable_json(dict(saved.metadata)), ensure_ascii=False)
            connection.execute(_PUT, [*about, parent, kind, value, told])
        connection.execute(_WRITES, [thread])
        if newest is not None:
            connection.execute(_ROW, {"name": thread, "bytes": size, **_standing(newest)})


def _standing(newest: CheckpointTuple) -> dict[str, Any]:
    head = Head(newest)
    asks = "asks" if head.interrupts() else "unfinished" if head.waiting() else "ended"
    graph = dict(newest.metadata).get(GRAPH_KEY) or ""
    updated = newest.checkpoint["ts"]
    return {"state": asks, "status": head.status, "graph": graph, "updated": updated}


def _number(thread: str) -> int:
    """The key of the lock that the earlier version takes."""
    text = f"loopwright thread {thread}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], signed=True)


def _busy(thread: str) -> str:
    return (
        f"A worker of an earlier version of loopwright runs the thread {thread!r}: wait until it"
        " has ended, or update that worker, then try again."
    )
