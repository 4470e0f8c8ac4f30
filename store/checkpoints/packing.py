"""What LangGraph's SQL savers leave out: one row for all that a task has written, compressed.

Its savers have a row for each channel. With one a task, a turn of react with five model calls
writes 31 rows in Postgres; 35 are allowed (`benchmarks/postgres.py`). What is read back is what
LangGraph expects.
"""

import secrets
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ...state.errors import DatabaseError
from ...state.limits import check_record, unpack
from ..base import langgraph_keys as keys

_FEWEST, _PAIR = 2, 2

PACKED: Final = "__loopwright_packed__"
"""The channel of such a row; its value is a list of [channel, value]."""

_AT_ONCE: Final = 64
"""Checkpoints of a line that are read together: about as many as lie between two values."""

Row = Mapping[str, Any]


class Step(NamedTuple):
    """A checkpoint on the way back: its id, the one before it, what it may hold itself."""

    id: str
    parent: str | None
    holds: Collection[str]


_ROOT: Final = (
    "SELECT parent_checkpoint_id AS parent FROM checkpoints"
    " WHERE thread_id = {thread} AND checkpoint_ns = {ns} ORDER BY checkpoint_id LIMIT 1"
)
"""What the oldest checkpoint followed: nothing, unless some before it were deleted."""

_END: Final = (
    "WITH RECURSIVE line(id, parent) AS (SELECT checkpoint_id, parent_checkpoint_id"
    " FROM checkpoints WHERE thread_id = {thread} AND checkpoint_ns = {ns} AND checkpoint_id = {id}"
    " UNION SELECT c.checkpoint_id, c.parent_checkpoint_id FROM line {join} checkpoints c"
    " ON c.checkpoint_id = line.parent AND c.thread_id = {thread} AND c.checkpoint_ns = {ns}"
    ") SELECT id FROM line WHERE parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM checkpoints p"
    " WHERE p.thread_id = {thread} AND p.checkpoint_ns = {ns} AND p.checkpoint_id = line.parent)"
)
"""The oldest checkpoint before one, if the one that it followed is not there any more."""


SQLITE: Final = {"join": "CROSS JOIN", "thread": ":thread", "ns": ":ns", "id": ":id"}
"""How SQLite spells the values of a statement, and a join from left to right."""


class PackingSaver(BaseCheckpointSaver[str]):
    """Mixed into one of LangGraph's SQL savers.

    `dialect`: how its database spells the values of a statement, and a join from left to right.
    """

    dialect: ClassVar[Mapping[str, str]]

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's signature
        """A channel's next version, shorter than LangGraph's: a checkpoint names each often.

        With LangGraph's 50 characters its row exceeds the 2 kB above which Postgres compresses
        (CPU 2.9 instead of 2.1 times `create_agent`'s). The random part keeps forks apart.
        """
        return f"{int(str(current or 0).split('.')[0]) + 1:010}.{secrets.token_hex(3)}"

    def select(self, sql: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """The rows of a statement, to be read by column name."""
        raise NotImplementedError

    def read_ancestors(self, about: Mapping[str, Any], channels: Sequence[str]) -> Sequence[Step]:
        """A checkpoint and those before it, newest first, at most so many."""
        raise NotImplementedError

    def read_writes(
        self, about: Mapping[str, Any], steps: Sequence[str], names: Sequence[str]
    ) -> Sequence[Row]:
        """What was written into channels onto checkpoints, in its order."""
        raise NotImplementedError

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote; see LangGraph."""
        super().put_writes(config, pack_writes(writes, task_id), task_id, task_path)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The values and writes that channels are made of; see LangGraph."""
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        if not get_checkpoint_id(config):
            newest = self.get_tuple(config)
            if newest is None:
                return found
            config = newest.config
        lines = self._find_write_sources(config, found)
        steps = max(lines.values(), key=len, default=[])[::-1]
        order = {step: number for number, step in enumerate(steps)}
        rows = self.read_writes(self.build_values(config), steps, [*found, PACKED]) if steps else ()
        for row in sorted(rows, key=lambda row: order[row["checkpoint_id"]]):
            value = self.serde.loads_typed((row["type"], row["value"]))
            for task, channel, one in split_row(row["task_id"], row["channel"], value):
                if row["checkpoint_id"] in lines.get(channel, ()):
                    found[channel]["writes"].append((task, channel, one))
        return found

    def _find_write_sources(
        self, config: RunnableConfig, found: dict[str, DeltaChannelHistory]
    ) -> dict[str, list[str]]:
        """By channel the checkpoints whose writes it needs, newest first; values go to `found`."""
        lines: dict[str, list[str]] = {name: [] for name in found}
        missing, seen = set(found), set[str]()
        for step in self._walk_ancestors(config, [*found]):
            if not missing or step.id in seen:
                break
            seen.add(step.id)
            for name in missing:
                lines[name].append(step.id)
            if not missing.isdisjoint(step.holds):
                place = {**config["configurable"], "checkpoint_id": step.id}
                saved = self.get_tuple({"configurable": place})
                values = saved.checkpoint["channel_values"] if saved else {}
                for name in missing & values.keys():
                    found[name]["seed"] = values[name]
                missing -= values.keys()
        return lines

    def _walk_ancestors(self, config: RunnableConfig, channels: Sequence[str]) -> Iterator[Step]:
        about, target = self.build_values(config), get_checkpoint_id(config)
        step: str | None = target
        while step is not None:
            line = self.read_ancestors({**about, "id": step, "most": _AT_ONCE}, channels)
            yield from (one for one in line if one.id != target)
            step = line[-1].parent if line else None

    def build_values(self, config: RunnableConfig) -> dict[str, Any]:
        """The values of a statement that say which thread and namespace it is about."""
        given = config["configurable"]
        return {"thread": str(given["thread_id"]), "ns": given.get("checkpoint_ns", "")}


def find_cut_checkpoint(
    select: Callable[[str, Mapping[str, Any]], Sequence[Row]],
    dialect: Mapping[str, str],
    config: RunnableConfig,
) -> RunnableConfig | None:
    """The oldest checkpoint before this one, if the one that it followed was deleted."""
    given = config["configurable"]
    thread, space = str(given["thread_id"]), given.get("checkpoint_ns", "")
    about = {"thread": thread, "ns": space, "id": given.get("checkpoint_id")}
    root = select(_ROOT.format(**dialect), about)
    if not root or root[0]["parent"] is None:
        return None
    end = select(_END.format(**dialect), about)
    return {"configurable": {**given, "checkpoint_id": end[0]["id"]}} if end else None


def pack_writes(writes: Sequence[tuple[str, Any]], task_id: str) -> Sequence[tuple[str, Any]]:
    """What a task wrote, as one write.

    A row each stays what is written onto a checkpoint itself, because it is saved again with each
    addition, and what LangGraph replaces by its channel.
    """
    plain = task_id == keys.NULL_TASK or len(writes) < _FEWEST
    if plain or any(channel in WRITES_IDX_MAP for channel, _ in writes):
        return writes
    return [(PACKED, [[channel, value] for channel, value in writes])]


def unpack_writes(saved: CheckpointTuple) -> CheckpointTuple:
    """A checkpoint with its writes as LangGraph expects them."""
    writes = saved.pending_writes
    if not writes or all(channel != PACKED for _, channel, _ in writes):
        return saved
    return saved._replace(pending_writes=[one for write in writes for one in split_row(*write)])


def split_row(task: str, channel: str, value: Any) -> list[PendingWrite]:
    """The writes of a row; whatever somebody has put into a file instead of them stays one."""
    pairs = value if channel == PACKED and isinstance(value, list) else []
    if not pairs or any(not isinstance(pair, list) or len(pair) != _PAIR for pair in pairs):
        return [(task, channel, value)]
    return [(task, name, one) for name, one in pairs]


_ZLIB: Final = "zlib"
_PLAIN: Final = "plain"
# Below this size the header outweighs what compression saves.
_SMALLEST: Final = 128


class Deflate(CipherProtocol):
    """Compresses where LangGraph would encrypt: the one wrapper its type allowlist reaches into.

    A checkpoint in SQLite repeats every record: 400 turns of
    task_agent are 13.9 MB without it and 2.4 MB with it; 6 MB are allowed (`benchmarks/costs.py`).
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Compress; tiny values stay as they are."""
        check_record(plaintext)
        if len(plaintext) < _SMALLEST:
            return _PLAIN, plaintext
        return _ZLIB, zlib.compress(plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Give back what was compressed."""
        if ciphername not in (_ZLIB, _PLAIN):
            msg = f"This was saved by another version of loopwright, as {ciphername!r}: use that."
            raise DatabaseError(msg)
        return unpack(ciphertext) if ciphername == _ZLIB else ciphertext


def is_own(kind: str) -> bool:
    """Whether `make_serializer` has written a value of this type."""
    return kind.rpartition("+")[2] in (_ZLIB, _PLAIN)


def make_serializer() -> EncryptedSerializer:
    """A serializer that loads only types known to be harmless: a database may be anybody's."""
    return EncryptedSerializer(Deflate(), JsonPlusSerializer(allowed_msgpack_modules=None))
