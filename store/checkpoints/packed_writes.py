"""What a node has written as one row, where LangGraph's saver has a row for each channel.

What is read back is what LangGraph expects; what was saved row by row is read as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
)

from ..base import langgraph_keys as keys

_FEWEST, _PAIR = 2, 2

PACKED: Final = "__loopwright_packed__"
"""The channel of such a row; its value is a list of [channel, value]."""

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
