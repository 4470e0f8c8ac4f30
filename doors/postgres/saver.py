"""Threads in PostgreSQL: what waits together is saved together, in one round trip.

A superstep is one row: what its tasks wrote is folded into the checkpoint that came of it, where
both are saved together. All that is sent at once is one transaction: it counts or does not.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)

from ...state.canonical import storable, storable_json
from ...state.errors import DatabaseError
from ...state.journal import Fence
from .. import langgraph_keys as keys
from ..checkpoints.deflate import lean_serializer, next_version
from ..checkpoints.line import Company, Line
from ..checkpoints.packed_writes import packed
from ..hands import Hands
from ..journal.sql import cause_of
from ..threads.listing import GRAPH_KEY
from .earlier import Earlier
from .leases import told_lost
from .pool import CUT, together
from .reading import FOLDED, Reading
from .rows import Move, ThreadRows

_PUT: Final = (
    "INSERT INTO loopwright_checkpoints AS c (thread_id, checkpoint_ns, checkpoint_id,"
    " parent_checkpoint_id, type, checkpoint, metadata, written_type, written)"
    " VALUES (%s, %s, %s, %s, %s, %b, %s, %s, %b)"
    " ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET"
    " parent_checkpoint_id = excluded.parent_checkpoint_id, type = excluded.type,"
    " checkpoint = excluded.checkpoint, metadata = excluded.metadata,"
    " written_type = coalesce(excluded.written_type, c.written_type),"
    " written = coalesce(excluded.written, c.written)"
)
_WRITE: Final = (
    "INSERT INTO loopwright_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path,"
    " idx, channel, type, value) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %b)"
    " ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO {}"
)
_KEEP: Final = _WRITE.format("NOTHING")
_REPLACE: Final = _WRITE.format(
    "UPDATE SET channel = excluded.channel, type = excluded.type, value = excluded.value"
)
KEEP_WRITTEN: Final = (
    "INSERT INTO loopwright_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx,"
    " channel, type, value)"
    " SELECT c.thread_id, c.checkpoint_ns, c.parent_checkpoint_id, c.checkpoint_id, 0,"
    f" '{FOLDED}', c.written_type, c.written FROM loopwright_checkpoints c"
    " JOIN loopwright_checkpoints p ON p.thread_id = c.thread_id"
    " AND p.checkpoint_ns = c.checkpoint_ns AND p.checkpoint_id = c.parent_checkpoint_id"
    " WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = %(ns)s"
    " AND c.checkpoint_id = ANY(%(gone)s) AND c.written IS NOT NULL"
    " AND p.checkpoint_id <> ALL(%(gone)s) ON CONFLICT DO NOTHING"
)
"""Before checkpoints are deleted: what was written onto those that stay is kept for them."""

_TABLES: Final = ("loopwright_checkpoints", "loopwright_writes")
# With its row goes the lease of who holds it, who will write nothing more.
_DELETE: Final = (
    *(f"DELETE FROM {table} WHERE thread_id = %(thread)s" for table in _TABLES),
    "DELETE FROM loopwright_threads WHERE name = %(thread)s",
)
_FORGET: Final = (
    "DELETE FROM {} WHERE thread_id = %s AND checkpoint_ns >= %s AND checkpoint_ns < %s"
)

_HOLDS: Final = "SELECT loopwright_holds(%s, %s)"

Connect = Callable[[], AbstractContextManager[Any]]
Holds = Callable[[str, str], Fence | None]
Place = tuple[str, str, str]
"""Thread, namespace and id of a checkpoint."""


class PostgresSaver(BaseCheckpointSaver[str]):
    """Saves through the connections it is given; safe to use from several threads.

    Attributes:
        line: Where jobs wait to be saved together.
        lined: Which do; what is only read need not wait.
        earlier: The threads that an earlier version has kept in this database.
        hands: The threads in which it is read.
    """

    lined = frozenset({"put", "put_writes"})
    earlier: Earlier | None = None
    hands: Hands | None = None

    def __init__(self, connect: Connect, holds: Holds = lambda _thread, _place: None) -> None:
        """Save through connections, and show what is held.

        Args:
            connect: Gives a connection in autocommit mode, with rows as dicts, for a block.
            holds: Gives by thread and namespace what a write there must show, if anything.
        """
        super().__init__(serde=lean_serializer())
        self._connect, self._holds, self._rows = connect, holds, ThreadRows()
        self._here = threading.local()
        self.line = Line(self._together, again=_was_cut)

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's signature
        """A channel's next version; see `next_version`."""
        return next_version(current)

    def company(
        self, name: str, config: RunnableConfig, given: Any, *more: Any, **_: Any
    ) -> Company:
        """With what a job is best done.

        Writes are, with the checkpoint that comes of them; the checkpoint of a run's input is, too,
        for nothing but taking it up lies between the two. Whoever holds the thread rests before he
        lets go; nobody else leaves anything behind.
        """
        place = config["configurable"]
        thread, space = storable(str(place["thread_id"])), str(place.get("checkpoint_ns", ""))
        held = self._holds(thread, space) is not None
        if name == "put_writes":
            waits = _folds(given, more[0])
            return Company(thread, (space, place.get("checkpoint_id")), waits, waits and held)
        if held and more[0].get("source") == "input":
            return Company(thread, (space, given["id"]), waits=True, result=_next(place, given))
        return Company(thread, (space, place.get("checkpoint_id")))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - the values stand in the checkpoint
    ) -> RunnableConfig:
        """Save a checkpoint; see LangGraph."""
        given = config["configurable"]
        told = storable_json(dict(get_serializable_checkpoint_metadata(config, metadata)))
        with self._saving() as saving:
            saving.put(
                _place(given, checkpoint["id"]), given.get("checkpoint_id"), checkpoint, told
            )
        return _next(given, checkpoint)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote; see LangGraph."""
        given = config["configurable"]
        with self._saving() as saving:
            saving.put_writes(_place(given, given["checkpoint_id"]), writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint with its writes; see LangGraph."""
        found = self._reading().tuple(config)
        if found is None and self._takes_over(config):
            found = self._reading().tuple(config)
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; see LangGraph."""
        self._takes_over(config)
        yield from self._reading().list(config, filter, before, limit)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The values and writes that channels are made of; see LangGraph."""
        if channels and not get_checkpoint_id(config):
            target = self.get_tuple(config)
            if target is None:
                return {name: {"writes": []} for name in channels}
            config = target.config
        return self._reading().history(config, channels)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all that is saved of a thread; see LangGraph."""
        thread = storable(str(thread_id))
        with self.cursor() as cursor:
            for sql in _DELETE:
                cursor.execute(sql, {"thread": thread})
        self._rows.forget(thread)
        if self.earlier is not None:
            self.earlier.delete(thread)

    def forget_scratch(self, thread_id: str, nodes: Iterable[str]) -> None:
        """Delete the checkpoints of subgraphs that ran inside these nodes of a thread.

        See `LeanSqliteSaver`.
        """
        with self.cursor() as cursor:
            for node in nodes:
                for table in _TABLES:
                    # ";" is the character behind ":".
                    about = [storable(thread_id), f"{node}:", f"{node};"]
                    cursor.execute(_FORGET.format(table), about)

    def cut_at(self, config: RunnableConfig) -> RunnableConfig | None:
        """The oldest checkpoint before this one, if the one that it followed is not there."""
        return self._reading().cut_at(config)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor; what is written by it counts all or not at all.

        Its rows are read by column name.
        """
        with self._told(), self._connect() as connection, together(connection):
            yield connection.cursor()

    def _takes_over(self, config: RunnableConfig | None) -> bool:
        """Whether a thread comes here from an earlier version now."""
        if self.earlier is None or config is None or config["configurable"].get("checkpoint_ns"):
            return False
        thread = storable(str(config["configurable"]["thread_id"]))
        with self._told():
            return self.earlier.take_over(thread, self.serde)

    def _reading(self) -> Reading:
        return Reading(self._read, self.serde)

    def _read(self, sql: str, values: Mapping[str, Any], *, again: bool = True) -> Sequence[Any]:
        if "thread" in values:  # what was left in the line belongs to it
            self.line.rest(values["thread"])
        try:
            with self._told(), self._connect() as connection:
                return [*connection.execute(sql, values, binary=True)]
        except DatabaseError as error:
            if not (again and _was_cut(error)):
                raise
        return self._read(sql, values, again=False)

    @contextmanager
    def _saving(self) -> Iterator["Saving"]:
        """What is saved in the block counts all or not at all; in the line with other jobs."""
        if self.line.is_here:
            yield self._here.saving
            return
        with self._together():
            yield self._here.saving

    @contextmanager
    def _together(self) -> Iterator[None]:
        with self._told(), self._connect() as connection, together(connection):
            self._here.saving = saving = Saving(connection, self.serde, self._holds, self._rows)
            try:
                yield
                saving.finish()
            finally:
                del self._here.saving
        self._rows.saved(saving.moves)

    @contextmanager
    def _told(self) -> Iterator[None]:
        import psycopg  # noqa: PLC0415 - an extra

        try:
            with told_lost((psycopg.Error,)):
                yield
        except (psycopg.OperationalError, psycopg.InternalError) as error:  # PgBouncer's
            msg = (
                f"Nothing can be saved or read any more ({cause_of(error)}): see that the database"
                " runs and may be written, then resume the thread."
            )
            raise DatabaseError(msg) from error


class Saving:
    """What is saved together, on one connection."""

    def __init__(self, connection: Any, serde: Any, holds: Holds, rows: ThreadRows) -> None:
        """Nothing is saved yet."""
        self._connection, self._serde, self._holds, self._rows = connection, serde, holds, rows
        self._written: dict[Place, list[Any]] = {}
        self._shown: dict[str, int] = {}
        self.moves: dict[str, Move] = {}

    def put(self, place: Place, parent: str | None, checkpoint: Checkpoint, metadata: Any) -> None:
        """Save a checkpoint, with what was written onto the one it came of."""
        folded: tuple[str | None, bytes | None] = (None, None)
        thread, space, name = place
        # What came of a checkpoint is looked for among those that are newer.
        if parent is not None and parent < name and (thread, space, parent) in self._written:
            folded = self._serde.dumps_typed(self._written.pop((thread, space, parent)))
        value, told = self._serde.dumps_typed(checkpoint), json.dumps(metadata, ensure_ascii=False)
        self._execute(_PUT, place, [parent, *value, told, *folded])
        move = self._move(thread, space)
        move.graph = str(metadata.get(GRAPH_KEY) or move.graph)
        move.then(self._rows.standings.put(thread, space, checkpoint, move.token))

    def put_writes(
        self, place: Place, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> None:
        """Save what a task wrote: folded, if the checkpoint that comes of it comes in time."""
        move = self._move(*place[:2])
        move.then(self._rows.standings.put_writes(place, writes, path, move.token))
        if _folds(writes, task):
            pairs = [[channel, value] for channel, value in writes]
            self._written.setdefault(place, []).append([task, path, pairs])
        else:
            special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
            self._each(place, writes, task, path, _REPLACE if special else _KEEP)

    def finish(self) -> None:
        """Save what is left, and what is told of the threads; in order of names, see `schema`."""
        for place, tasks in self._written.items():
            for task, path, pairs in tasks:
                self._each(place, packed([(c, v) for c, v in pairs], task), task, path, _KEEP)
        for name in sorted({*self._shown, *self.moves}):
            if name in self._shown:
                self._connection.execute(_HOLDS, [name, self._shown[name]])
            if name in self.moves and (told := self._rows.told(name, self.moves[name])):
                self._connection.execute(*told)

    def _move(self, thread: str, space: str) -> Move:
        if (fence := self._holds(thread, space)) is not None:
            self._shown[storable(fence.name)] = fence.token
        move = self.moves.setdefault(thread, Move())
        move.token = move.token if fence is None else fence.token
        return move

    def _each(
        self, place: Place, writes: Sequence[tuple[str, Any]], task: str, path: str, sql: str
    ) -> None:
        for number, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, number)
            dumped = self._serde.dumps_typed(value)
            self._execute(sql, place, [task, path, idx, channel, *dumped])

    def _execute(self, sql: str, place: Place, values: Sequence[Any]) -> None:
        self.moves.setdefault(place[0], Move()).size += sum(
            len(value) for value in values if isinstance(value, bytes)
        )
        self._connection.execute(sql, [*place, *values])


def _next(given: Mapping[str, Any], checkpoint: Checkpoint) -> RunnableConfig:
    place = {key: given[key] for key in ("thread_id", "checkpoint_ns")}
    return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}


def _folds(writes: Sequence[tuple[str, Any]], task: str) -> bool:
    """Whether it is what a task brought, from which the next checkpoint comes."""
    special = any(channel in WRITES_IDX_MAP or channel == keys.RETURN for channel, _ in writes)
    return bool(writes) and task != keys.NULL_TASK and not special


def _was_cut(error: BaseException) -> bool:
    """Whether a save failed for its connection's sake: it may be done again."""
    state = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, DatabaseError) and (state is None or state[:2] in CUT)


def _place(given: Mapping[str, Any], checkpoint: str) -> Place:
    return storable(str(given["thread_id"])), str(given["checkpoint_ns"]), str(checkpoint)
