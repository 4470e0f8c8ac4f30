"""What is saved together in PostgreSQL, in one transaction: a superstep is one row.

What its tasks wrote is folded into the checkpoint that came of it, where both are saved together.
Steps that pass give way to those that came of them; see `passing`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from langgraph.checkpoint.base import WRITES_IDX_MAP

from ...text.canonical import storable
from ..base import langgraph_keys as keys
from ..checkpoints.packed_writes import packed
from ..checkpoints.passing import Step, inside
from ..journal.port import Fence
from ..threads.listing import GRAPH_KEY
from .rows import Move, ThreadRows
from .schema import HOLDS

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
_HOLDS: Final = f"SELECT {HOLDS}".replace("?", "%s")

Holds = Callable[[str, str], Fence | None]
Place = tuple[str, str, str]
"""Thread, namespace and id of a checkpoint."""


class Saving:
    """What is saved together, on one connection."""

    def __init__(self, connection: Any, serde: Any, holds: Holds, rows: ThreadRows) -> None:
        """Nothing is saved yet."""
        self._connection, self._serde, self._holds, self._rows = connection, serde, holds, rows
        self._steps: dict[Place, Step] = {}
        self._written: dict[Place, list[Any]] = {}
        self._stay: set[Place] = set()
        self._shown: dict[str, int] = {}
        self.moves: dict[str, Move] = {}

    def put(self, place: Place, step: Step) -> None:
        """Save a checkpoint, with what was written onto the one it came of."""
        thread, space, name = place
        # What came of a checkpoint is looked for among those that are newer.
        if step.parent is not None and step.parent < name:
            parent = (thread, space, step.parent)
            step = replace(step, written=self._written.pop(parent, []))
            before = self._steps.get(parent)
            if before is not None and parent not in self._stay and before.gives_way(step):
                del self._steps[parent]
                step = step.after(before)
        self._steps[place] = step
        move = self._move(thread, space)
        move.graph = str(step.metadata.get(GRAPH_KEY) or move.graph)
        move.then(self._rows.standings.put(thread, space, step.checkpoint, move.token))

    def put_writes(
        self, place: Place, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> None:
        """Save what a task wrote: folded, if the checkpoint that comes of it comes in time."""
        move = self._move(*place[:2])
        move.then(self._rows.standings.put_writes(place, writes, path, move.token))
        if folds(writes, task):
            pairs = [[channel, value] for channel, value in writes]
            self._written.setdefault(place, []).append([task, path, pairs])
            return
        self._stay.add(place)
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        self._each(place, writes, task, path, _REPLACE if special else _KEEP)
        if any(channel == keys.RETURN for channel, _ in writes):
            self._over(task)

    def _over(self, task: str) -> None:
        """What a task gave is saved: nobody asks for the steps that led to it."""
        gone = [at for at in self._steps if inside(at[1], task) and self._steps[at].passes]
        for place in {*gone} - self._stay:
            del self._steps[place]
            self._written.pop(place, None)

    def finish(self) -> None:
        """Save what is left, and what is told of the threads; in order of names, see `schema`."""
        for place, step in self._steps.items():
            folded: tuple[str | None, bytes | None] = (None, None)
            if step.written:
                folded = self._serde.dumps_typed(step.written)
            about = json.dumps(step.metadata, ensure_ascii=False)
            value = self._serde.dumps_typed(step.checkpoint)
            self._execute(_PUT, place, [step.parent, *value, about, *folded])
        for place, tasks in self._written.items():
            for task, path, pairs in tasks:
                self._each(place, packed([(c, v) for c, v in pairs], task), task, path, _KEEP)
        for name in sorted({*self._shown, *self.moves}):
            if name in self._shown:
                self._connection.execute(_HOLDS, [name, self._shown[name]] * 2)
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


def folds(writes: Sequence[tuple[str, Any]], task: str) -> bool:
    """Whether it is what a task brought, from which the next checkpoint comes."""
    special = any(channel in WRITES_IDX_MAP or channel == keys.RETURN for channel, _ in writes)
    return bool(writes) and task != keys.NULL_TASK and not special
