"""What a node has written as one row, where LangGraph's saver has a row for each channel.

What is read back is what LangGraph expects; what was saved row by row is read as well.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from . import langgraph_keys as keys
from .shared_values import COUNTERS

_FEWEST, _PAIR = 2, 2

PACKED: Final = "__loopwright_packed__"
"""The channel of such a row; its value is a list of [channel, value]."""

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


Written = dict[str, list[PendingWrite]]
"""By checkpoint, what was written onto it, oldest first."""


class Walk:
    """From a checkpoint back to where each channel's value stands, past what was written since.

    Attributes:
        found: By channel, what it is made of.
        open: The channels whose value was not met yet.
    """

    def __init__(self, channels: Sequence[str]) -> None:
        """Nothing is found yet."""
        self.found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        self.open = set(self.found)
        self._seen = set[str]()
        self._lines: dict[str, dict[str, None]] = {name: {} for name in channels}

    @property
    def steps(self) -> list[str]:
        """The checkpoints whose writes are needed, oldest first."""
        lines = [[*line] for line in self._lines.values()]
        return max(lines, key=len, default=[])[::-1]

    def goes_on(self, step: str) -> bool:
        """Whether this checkpoint is to be looked at: something is missing, and it is new."""
        new = step not in self._seen
        self._seen.add(step)
        return new and bool(self.open)

    def back(
        self, step: str, counted: Mapping[str, Any], load: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Look at a checkpoint.

        It is loaded only where one is missing that is not among `counted`: the channels whose
        values it does not hold itself.
        """
        for name in self.open:
            self._lines[name][step] = None
        if self.open <= counted.keys():
            return
        values = load().get("channel_values") or {}
        for name in self.open & values.keys():
            self.found[name]["seed"] = values[name]
        self.open -= values.keys()

    def told(self, written: Written) -> dict[str, DeltaChannelHistory]:
        """With what was written onto the steps."""
        for step in self.steps:
            for task, channel, value in written.get(step, ()):
                if step in self._lines.get(channel, ()):
                    self.found[channel]["writes"].append((task, channel, value))
        return self.found


def packed(writes: Sequence[tuple[str, Any]], task_id: str) -> Sequence[tuple[str, Any]]:
    """What a task wrote, as one write.

    What is written onto a checkpoint itself is saved again, and longer, with each addition: that
    stays a row each, and so does what LangGraph replaces by its channel.
    """
    plain = task_id == keys.NULL_TASK or len(writes) < _FEWEST
    if plain or any(channel in WRITES_IDX_MAP for channel, _ in writes):
        return writes
    return [(PACKED, [[channel, value] for channel, value in writes])]


def unpacked(saved: CheckpointTuple) -> CheckpointTuple:
    """A checkpoint with its writes as LangGraph expects them."""
    writes = saved.pending_writes
    if not writes or all(channel != PACKED for _, channel, _ in writes):
        return saved
    return saved._replace(pending_writes=[one for write in writes for one in apart(*write)])


def apart(task: str, channel: str, value: Any) -> list[PendingWrite]:
    """The writes of a row; whatever somebody has put into a file instead of them stays one."""
    pairs = value if channel == PACKED and isinstance(value, list) else []
    if not pairs or any(not isinstance(pair, list) or len(pair) != _PAIR for pair in pairs):
        return [(task, channel, value)]
    return [(task, name, one) for name, one in pairs]
