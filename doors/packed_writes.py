"""What a node has written as one row, where LangGraph's saver has a row for each channel.

What is read back is what LangGraph expects; what was saved row by row is read as well.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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
        plain = task_id == keys.NULL_TASK or len(writes) < _FEWEST
        if not (plain or any(channel in WRITES_IDX_MAP for channel, _ in writes)):
            writes = [(PACKED, [[channel, value] for channel, value in writes])]
        super().put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint with its writes; see LangGraph."""
        saved = super().get_tuple(config)
        return saved if saved is None else _unpacked(saved)

    def list(self, *args: Any, **options: Any) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; see LangGraph."""
        yield from map(_unpacked, super().list(*args, **options))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The values and writes that channels are made of; see LangGraph.

        A checkpoint is read only where its metadata do not say that it holds none of them.
        """
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        if not get_checkpoint_id(config):
            target = self.get_tuple(config)
            if target is None:
                return found
            config = target.config
        lines = _lines(self, config, found)
        for step, writes in _writes(self, config, lines).items():
            for task, channel, value in writes:
                if step in lines.get(channel, ()):
                    found[channel]["writes"].append((task, channel, value))
        return found


def _lines(
    saver: SqliteSaver, config: RunnableConfig, found: dict[str, DeltaChannelHistory]
) -> dict[str, dict[str, None]]:
    """The checkpoints whose writes a channel needs, newest first; seeds go into `found`."""
    lines: dict[str, dict[str, None]] = {name: {} for name in found}
    open_, target, seen = set(found), get_checkpoint_id(config), set[str]()
    place = config["configurable"]
    about = {"thread": str(place["thread_id"]), "ns": place.get("checkpoint_ns", "")}
    with saver.cursor(transaction=False) as cursor:
        for step, kind, blob, metadata in cursor.execute(_LINE, {**about, "id": target}):
            if step in seen or not open_:
                break
            seen.add(step)
            if step == target:
                continue
            for name in open_:
                lines[name][step] = None
            if open_ <= json.loads(metadata or "{}").get(COUNTERS, {}).keys():
                continue
            values = saver.serde.loads_typed((kind, blob)).get("channel_values") or {}
            for name in open_ & values.keys():
                found[name]["seed"] = values[name]
            open_ -= values.keys()
    return lines


def _writes(
    saver: SqliteSaver, config: RunnableConfig, lines: Mapping[str, Mapping[str, None]]
) -> dict[str, list[PendingWrite]]:
    """What was written onto the checkpoints of these lines, oldest first."""
    steps = max(lines.values(), key=len, default={})
    written: dict[str, list[PendingWrite]] = {step: [] for step in reversed([*steps])}
    place, names = config["configurable"], [*lines, PACKED]
    sql = _WRITES.format(steps=", ".join("?" * len(written)), channels=", ".join("?" * len(names)))
    about = (str(place["thread_id"]), place.get("checkpoint_ns", ""), *written, *names)
    with saver.cursor(transaction=False) as cursor:
        for step, task, channel, kind, blob in cursor.execute(sql, about):
            value = saver.serde.loads_typed((kind, blob))
            written[step] += _apart(task, channel, value)
    return written


def _unpacked(saved: CheckpointTuple) -> CheckpointTuple:
    writes = saved.pending_writes
    if not writes or all(channel != PACKED for _, channel, _ in writes):
        return saved
    return saved._replace(pending_writes=[one for write in writes for one in _apart(*write)])


def _apart(task: str, channel: str, value: Any) -> list[PendingWrite]:
    """The writes of a row; whatever somebody has put into a file instead of them stays one."""
    pairs = value if channel == PACKED and isinstance(value, list) else []
    if not pairs or any(not isinstance(pair, list) or len(pair) != _PAIR for pair in pairs):
        return [(task, channel, value)]
    return [(task, name, one) for name, one in pairs]
