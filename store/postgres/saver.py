"""LangGraph's Postgres saver, whose writes show the lease of their thread in their transaction.

It is the sync one, in worker threads: its connections serve every event loop of a process, where
those of the async saver belong to the one in which they were opened.
"""

import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg_pool import PoolTimeout

from ...state.channels import RECORDS
from ...state.errors import DatabaseError, LoopwrightError
from ...text.canonical import make_storable, make_storable_json
from ..base.worker_threads import WorkerThreads
from ..checkpoints.packing import PackingSaver, Row, Step, make_serializer, unpack_writes
from ..journal.port import Fence
from ..journal.sql import explain_errors
from ..threads.pruning import Keeps, NotPrunableError, ThreadPruning
from ..threads.thread_list import GRAPH_KEY
from .leases import raise_lease_lost
from .pool import CUT, execute_statement, send_together
from .saving import GroupCommit, Place, RowUpdate, TaskWrites, ThreadRows
from .schema import HOLDS, build_fence_values

T = TypeVar("T")

Connect = Callable[[], AbstractContextManager[Any]]
Holds = Callable[[str, str], Fence | None]

TABLES: Final = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

_PLACE: Final = "thread_id = %(thread)s AND checkpoint_ns = %(ns)s"
_LINE: Final = (
    "WITH RECURSIVE line AS (SELECT checkpoint_id AS id, parent_checkpoint_id AS parent,"
    " checkpoint -> 'channel_versions' AS versions, 0 AS depth FROM checkpoints"
    f" WHERE {_PLACE} AND checkpoint_id = %(id)s"
    " UNION ALL SELECT c.checkpoint_id, c.parent_checkpoint_id,"
    " c.checkpoint -> 'channel_versions', line.depth + 1 FROM line JOIN checkpoints c"
    " ON c.thread_id = %(thread)s AND c.checkpoint_ns = %(ns)s AND c.checkpoint_id = line.parent"
    " WHERE line.depth < %(most)s)"
    " SELECT id, parent, ARRAY(SELECT b.channel FROM checkpoint_blobs b"
    " WHERE b.thread_id = %(thread)s AND b.checkpoint_ns = %(ns)s"
    " AND b.channel = ANY(%(channels)s::text[]) AND b.version = versions ->> b.channel) AS held"
    " FROM line ORDER BY depth"
)
_WRITES: Final = (
    "SELECT checkpoint_id, task_id, channel, type, blob AS value FROM checkpoint_writes"
    f" WHERE {_PLACE} AND checkpoint_id = ANY(%(steps)s::text[])"
    " AND channel = ANY(%(channels)s::text[]) ORDER BY task_path, task_id, idx"
)
_HOLDS: Final = f"SELECT {HOLDS}".replace("?", "%s")
_ERRORS: Final = (psycopg.OperationalError, psycopg.InternalError)
"""Those of a server, and PgBouncer's."""
_UNSAVED: Final = (
    "Nothing can be saved or read any more ({cause}): see that the database runs and may be"
    " written, then resume the thread."
)
_FORGET_ROW: Final = "DELETE FROM loopwright_threads WHERE name = %s"


class LeasedPostgresSaver(PackingSaver, PostgresSaver):
    """Saves through the connections it is given; safe to use from several threads.

    `follows`: it keeps the rows of threads up to date.
    """

    hands: WorkerThreads | None = None
    follows = True
    dialect: ClassVar = {"join": "JOIN", **{name: f"%({name})s" for name in ("thread", "ns", "id")}}

    def __init__(self, connect: Connect, holds: Holds = lambda _thread, _place: None) -> None:
        """Save through autocommit connections; `holds` gives the fence by thread and namespace."""
        super().__init__(None, serde=make_serializer())  # type: ignore[arg-type]  # see `_cursor`
        self._connect, self._holds, self._rows = connect, holds, ThreadRows()
        self._joins = GroupCommit(self._save_alone)
        self._here = threading.local()

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint; see LangGraph. Its records are JSON in its row, not own rows."""
        given = _make_storable(config)
        place = given["configurable"]
        thread, space = place["thread_id"], place["checkpoint_ns"]
        values = {
            name: self._encode_record(value) if name in RECORDS else value
            for name, value in checkpoint["channel_values"].items()
        }
        kept: Checkpoint = {**checkpoint, "channel_values": values}
        about: Any = make_storable_json(dict(metadata))

        onto = thread, space, str(place.get("checkpoint_id"))

        def save() -> RunnableConfig:
            with self._joins.take_waiting(onto) as joined, self._begin_write(thread, space) as move:
                for writes in joined:
                    self._put_writes(given, writes, move)
                move.graph = str((config.get("metadata") or {}).get(GRAPH_KEY) or "")
                move.add_change(self._rows.standings.put(thread, space, checkpoint, move.token))
                return super(LeasedPostgresSaver, self).put(given, kept, about, new_versions)

        saved = _retry_once(save)["configurable"]
        return {"configurable": {**saved, "thread_id": config["configurable"]["thread_id"]}}

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote; see LangGraph."""
        given = _make_storable(config)
        place = given["configurable"]
        thread, space = place["thread_id"], place["checkpoint_ns"]
        onto, mine = (thread, space, place["checkpoint_id"]), TaskWrites(writes, task_id, task_path)
        # Who holds a lease saves what waits before it lets go; others may leave at any time.
        if mine.can_wait and self._holds(thread, space) is not None:
            self._joins.add(onto, mine)
            return
        with self._joins.take_waiting(onto) as waiting:
            self._save_alone(onto, [*waiting, mine])

    def _save_alone(self, onto: Place, saved: Sequence[TaskWrites]) -> None:
        names = zip(("thread_id", "checkpoint_ns", "checkpoint_id"), onto, strict=True)
        config: RunnableConfig = {"configurable": dict(names)}

        def save() -> None:
            with self._begin_write(*onto[:2]) as move:
                for writes in saved:
                    self._put_writes(config, writes, move)

        _retry_once(save)

    def _put_writes(self, config: RunnableConfig, mine: TaskWrites, move: RowUpdate) -> None:
        place = config["configurable"]
        onto = place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]
        move.add_change(self._rows.standings.put_writes(onto, mine.writes, mine.path, move.token))
        super().put_writes(config, *mine)

    def flush_thread(self, thread: str) -> None:
        """A thread is about to be let go: what is under way is saved."""
        self._joins.drop(make_storable(thread))

    def close(self) -> None:
        """Save what is under way; the connections are the pool's to close."""
        with suppress(LoopwrightError):
            self._joins.flush()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint with its writes; see LangGraph."""
        given = _make_storable(config)
        self._joins.flush(given["configurable"]["thread_id"])
        return _retry_once(lambda: super(LeasedPostgresSaver, self).get_tuple(given))

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; see LangGraph."""
        given = config and _make_storable(config)
        if given:
            self._joins.flush(given["configurable"]["thread_id"])
        yield from _retry_once(lambda: [*super(LeasedPostgresSaver, self).list(given, **options)])

    def delete_thread(self, thread_id: str) -> None:
        """Delete all that is saved of a thread; see LangGraph."""
        thread = make_storable(str(thread_id))
        self.flush_thread(thread)
        super().delete_thread(thread)
        with self._cursor() as cursor:
            cursor.execute(_FORGET_ROW, [thread])
        self._rows.forget(thread)

    def forget_scratch(self, thread_id: str, nodes: Iterable[str]) -> None:
        """Delete the checkpoints of subgraphs that ran inside these nodes of a thread.

        See `LeanSqliteSaver`.
        """
        self._joins.flush(make_storable(thread_id))
        about = {"thread": make_storable(thread_id), "inside": [f"{node}:%" for node in nodes]}
        with self._cursor(pipeline=True) as cursor:
            for table in TABLES if about["inside"] else ():
                where = "thread_id = %(thread)s AND checkpoint_ns LIKE ANY(%(inside)s)"
                cursor.execute(f"DELETE FROM {table} WHERE {where}", about)

    def select(self, sql: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """See PackingSaver."""

        def read() -> Sequence[Row]:
            with self._cursor() as cursor:
                rows: Sequence[Row] = cursor.execute(sql, values).fetchall()
                return rows

        return _retry_once(read)

    def read_ancestors(self, about: Mapping[str, Any], channels: Sequence[str]) -> Sequence[Step]:
        """See PackingSaver."""
        rows = self.select(_LINE, {**about, "channels": [*channels]})
        return [Step(row["id"], row["parent"], row["held"]) for row in rows]

    def read_writes(
        self, about: Mapping[str, Any], steps: Sequence[str], names: Sequence[str]
    ) -> Sequence[Row]:
        """See PackingSaver."""
        return self.select(_WRITES, {**about, "steps": [*steps], "channels": [*names]})

    def build_values(self, config: RunnableConfig) -> dict[str, Any]:
        """See PackingSaver."""
        return super().build_values(_make_storable(config))

    @contextmanager
    def _begin_write(self, thread: str, space: str) -> Iterator[RowUpdate]:
        """A transaction that counts only under the lease of whoever may save there."""
        fence = self._holds(thread, space)
        move = RowUpdate(token=None if fence is None else fence.token)
        with self._cursor(pipeline=True) as cursor:
            self._here.cursor = cursor
            try:
                yield move
            finally:
                del self._here.cursor
            row = self._rows.build_statement(thread, move) if self.follows else None
            after = [(thread, row)] if row else []
            shows = (
                [(make_storable(fence.name), (_HOLDS, build_fence_values(fence)))] if fence else []
            )
            # No transaction locks two rows in another order than that of their names.
            for _, statement in sorted([*shows, *after], key=lambda one: one[0]):
                cursor.execute(*statement)
        self._rows.mark_saved(thread, move)

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
        """A cursor of one of the pool's connections: LangGraph's saver would use one at a time."""
        if (mine := getattr(self._here, "cursor", None)) is not None:
            yield mine
            return
        with (
            explain_errors(_ERRORS, _UNSAVED),
            raise_lease_lost((psycopg.Error,)),
            self._connect() as connection,
            send_together(connection) if pipeline else nullcontext(),
        ):
            yield connection.cursor(binary=True)

    def _encode_record(self, record: Any) -> str:
        kind, packed = self.serde.dumps_typed(record)
        return f"{kind} {b64encode(packed).decode()}"

    def _load_checkpoint_tuple(self, value: Any) -> CheckpointTuple:
        saved = unpack_writes(super()._load_checkpoint_tuple(value))
        values = saved.checkpoint["channel_values"]
        for name in RECORDS:
            if isinstance(record := values.get(name), str):
                kind, _, text = record.partition(" ")
                values[name] = self.serde.loads_typed((kind, b64decode(text)))
        return saved


def _retry_once(work: Callable[[], T]) -> T:
    """Do what may be done twice, and again where its connection was cut."""
    try:
        return work()
    except DatabaseError as error:
        state = getattr(error.__cause__, "sqlstate", None)
        if isinstance(error.__cause__, PoolTimeout) or not (state or "08").startswith(CUT):
            raise
    return work()


def prune(connection: Any, thread: str, keeps: Keeps, fence: Fence | None) -> str | bool:
    """Delete all of a thread but what is kept, in one transaction; see `SqliteDatabase.prune`.

    The lease is checked last, and nobody can renew it meanwhile. Without the lease nothing is
    deleted.
    """
    execute = partial(execute_statement, connection)
    saver = LeasedPostgresSaver(partial(nullcontext, connection))
    saver.follows = False
    pruning = ThreadPruning(execute, saver, tables=TABLES)
    try:
        with connection.transaction():
            removed = pruning.prune(thread, keeps)
            if fence is not None:
                execute(f"SELECT {HOLDS}", build_fence_values(fence))
            return removed
    except NotPrunableError as left:
        return str(left)


def _make_storable(config: RunnableConfig) -> RunnableConfig:
    """A config whose texts a database can hold."""
    given, about = config["configurable"], config.get("metadata")
    texts = {key: make_storable(one) for key, one in given.items() if isinstance(one, str)}
    clean: RunnableConfig = {**config, "configurable": {**given, **texts}}
    if "thread_id" in given:
        clean["configurable"]["thread_id"] = make_storable(str(given["thread_id"]))
    if about:
        clean["metadata"] = make_storable_json(dict(about))
    return clean
