"""Threads in PostgreSQL: what waits together is saved together, in one round trip.

All that is sent at once is one transaction: it counts or does not.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)

from ...state.errors import DatabaseError
from ...text.canonical import storable, storable_json
from ..base.hands import Hands
from ..checkpoints.deflate import lean_serializer, next_version
from ..checkpoints.line import Company, Line
from ..checkpoints.passing import PASSING_KEY, Passing, Step
from ..journal.sql import cause_of
from .earlier import Earlier
from .leases import told_lost
from .news import News
from .pool import CUT, together
from .reading import FOLDED, Reading
from .rows import ThreadRows
from .saving import Holds, Place, Saving, folds

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

Connect = Callable[[], AbstractContextManager[Any]]


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
        self._here, self._news = threading.local(), News()
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
        fence = self._holds(thread, space)
        onto = None if space else place.get("checkpoint_id")
        if name == "put_writes":
            self._news.saved(thread, space, fence)
            waits = folds(given, more[0])
            return Company(thread, (space, onto), waits, waits and fence is not None)
        self._news.saved(thread, space, fence, given["id"])
        if fence is not None and _passes(place, given, more[0]):
            result = _next(place, given)
            return Company(thread, (space, onto), waits=True, result=result, long=True)
        if fence is not None and more[0].get("source") == "input":
            onto = None if space else given["id"]
            return Company(thread, (space, onto), waits=True, result=_next(place, given))
        return Company(thread, (space, onto))

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
        passes = _passes(given, checkpoint, metadata)
        step = Step(given.get("checkpoint_id"), checkpoint, told, passes=passes)
        place = _place(given, checkpoint["id"])
        with self._saving(place) as saving:
            saving.put(place, step)
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
        place = _place(given, given["checkpoint_id"])
        with self._saving(place) as saving:
            saving.put_writes(place, writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint with its writes; see LangGraph."""
        if self._news.nothing_at(config["configurable"], self._holds):
            return None
        given = config["configurable"]
        newest = not (given.get("checkpoint_ns") or get_checkpoint_id(config))
        found = Reading(self._once if newest else self._read, self.serde).tuple(config)
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
        self._news.forget(thread)
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

    def leave(self, thread: str) -> None:
        """A thread is about to be let go: what is under way is saved."""
        self.line.rest(thread)
        self._news.forget(thread)

    def cut_at(self, config: RunnableConfig) -> RunnableConfig | None:
        """The oldest checkpoint before this one, if the one that it followed is not there."""
        given = config["configurable"]
        thread = storable(str(given["thread_id"]))
        whole = self._news.is_whole(thread, self._holds(thread, ""))
        if whole and not given.get("checkpoint_ns"):
            return None
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

    def _once(self, sql: str, values: Mapping[str, Any]) -> Sequence[Any]:
        thread = values["thread"]
        return self._news.once(thread, self._holds(thread, ""), partial(self._read, sql, values))

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
    def _saving(self, place: Place) -> Iterator[Saving]:
        """What is saved in the block counts all or not at all; in the line with other jobs."""
        self._news.saved(*place[:2], self._holds(*place[:2]))
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
        for thread in saving.moves:
            self._news.changed(thread)

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


def _next(given: Mapping[str, Any], checkpoint: Checkpoint) -> RunnableConfig:
    place = {key: given[key] for key in ("thread_id", "checkpoint_ns")}
    return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}


def _passes(given: Mapping[str, Any], checkpoint: Checkpoint, metadata: Mapping[str, Any]) -> bool:
    told = given.get(PASSING_KEY)
    space = str(given.get("checkpoint_ns", ""))
    return isinstance(told, Passing) and told.covers(space, checkpoint, metadata)


def _was_cut(error: BaseException) -> bool:
    """Whether a save failed for its connection's sake: it may be done again."""
    state = getattr(error.__cause__, "sqlstate", None)
    return isinstance(error, DatabaseError) and (state is None or state[:2] in CUT)


def _place(given: Mapping[str, Any], checkpoint: str) -> Place:
    return storable(str(given["thread_id"])), str(given["checkpoint_ns"]), str(checkpoint)
