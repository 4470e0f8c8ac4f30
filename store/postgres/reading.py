"""What is saved of a thread in PostgreSQL, read back as LangGraph expects it, a query a question.

What tasks wrote stands in rows of its own, or folded into the checkpoint that came of it: both
are looked for.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ...text.canonical import storable, storable_json
from ..checkpoints.packed_writes import PACKED, Walk, Written, apart
from ..checkpoints.shared_values import COUNTERS, END, ROOT

Place = tuple[str, str]
"""Thread and namespace."""

Run = Callable[[str, Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""Runs a query; its rows are read by column name."""

FOLDED: Final = "__loopwright_folded__"
"""The channel of a row of what several tasks wrote, left by a checkpoint that is gone."""

_BEFORE_ALL: Final = ""
"""Stands for the checkpoint before the first one that is saved."""

_AT_ONCE: Final = 64
"""Checkpoints of a line that are read together: about as many as lie between two values."""

_NAMED: Final = {name: f"%({name})s" for name in ("thread", "ns", "id")} | {
    "table": "loopwright_checkpoints", "join": "JOIN",
}  # fmt: skip
# Newer than the one they came of: that keeps the search to a part of the thread.
_CAME_OF_IT: Final = (
    " JOIN loopwright_checkpoints k ON k.thread_id = %(thread)s AND k.checkpoint_ns = {ns}"
    " AND k.checkpoint_id > {after} AND k.parent_checkpoint_id = of.checkpoint_id"
    " WHERE k.written IS NOT NULL"
)
_HEAD: Final = (
    "WITH of AS (SELECT * FROM loopwright_checkpoints WHERE thread_id = %(thread)s"
    " AND checkpoint_ns = %(ns)s{named} ORDER BY checkpoint_id DESC LIMIT 1)"
    " SELECT 'head' AS what, of.checkpoint_id, of.parent_checkpoint_id, of.type,"
    " of.checkpoint AS value, of.metadata, NULL AS task_path, NULL AS task_id, 0 AS idx,"
    f" NULL AS channel, ({ROOT.format(**_NAMED)}) AS root FROM of"
    " UNION ALL SELECT 'row', of.checkpoint_id, NULL, w.type, w.value, NULL, w.task_path,"
    " w.task_id, w.idx, w.channel, NULL FROM of JOIN loopwright_writes w"
    " USING (thread_id, checkpoint_ns, checkpoint_id)"
    " UNION ALL SELECT 'folded', of.checkpoint_id, k.checkpoint_id, k.written_type, k.written,"
    " NULL, NULL, NULL, 0, NULL, NULL FROM of"
    + _CAME_OF_IT.format(ns="%(ns)s", after="of.checkpoint_id")
)
_LIST: Final = (
    "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
    " checkpoint AS value, metadata FROM loopwright_checkpoints{where}"
    " ORDER BY checkpoint_id DESC LIMIT %(limit)s"
)
_OF_LIST: Final = (
    "WITH of AS (SELECT unnest(%(ids)s::text[]) AS checkpoint_id)"
    " SELECT 'row' AS what, w.checkpoint_id, NULL AS parent_checkpoint_id, w.type, w.value,"
    " w.task_path, w.task_id, w.idx, w.channel FROM of JOIN loopwright_writes w"
    " ON w.thread_id = %(thread)s AND w.checkpoint_ns = %(ns)s"
    " AND w.checkpoint_id = of.checkpoint_id"
    " UNION ALL SELECT 'folded', of.checkpoint_id, k.checkpoint_id, k.written_type, k.written,"
    " NULL, NULL, 0, NULL FROM of" + _CAME_OF_IT.format(ns="%(ns)s", after="%(oldest)s")
)
# What a step of a line was made of stands in itself.
_LINE: Final = (
    "WITH RECURSIVE line AS ("
    "SELECT checkpoint_id, parent_checkpoint_id AS parent, 0 AS depth, type, checkpoint, metadata,"
    " written_type, written FROM loopwright_checkpoints"
    " WHERE thread_id = %(thread)s AND checkpoint_ns = %(ns)s AND checkpoint_id = %(id)s"
    " UNION ALL SELECT c.checkpoint_id, c.parent_checkpoint_id, line.depth + 1, c.type,"
    " c.checkpoint, c.metadata, c.written_type, c.written"
    " FROM line JOIN loopwright_checkpoints c ON c.thread_id = %(thread)s"
    " AND c.checkpoint_ns = %(ns)s AND c.checkpoint_id = line.parent WHERE line.depth < %(most)s)"
    " SELECT 'step' AS what, checkpoint_id, parent AS parent_checkpoint_id, depth AS idx, type,"
    " CASE WHEN checkpoint_id = %(target)s"
    " OR coalesce(metadata -> 'counters_since_delta_snapshot' ?& %(open)s::text[], false)"
    " THEN NULL ELSE checkpoint END AS value, metadata, NULL AS task_path, NULL AS task_id,"
    " NULL AS channel, written_type, written FROM line"
    " UNION ALL SELECT 'row', w.checkpoint_id, NULL, w.idx, w.type, w.value, NULL, w.task_path,"
    " w.task_id, w.channel, NULL, NULL FROM line JOIN loopwright_writes w"
    " ON w.thread_id = %(thread)s AND w.checkpoint_ns = %(ns)s"
    " AND w.checkpoint_id = line.checkpoint_id AND w.channel = ANY(%(channels)s::text[])"
    " WHERE line.checkpoint_id <> %(target)s"
)


class Reading(NamedTuple):
    """Reads by one function, and makes values of what it finds by one serializer."""

    run: Run
    serde: SerializerProtocol

    def tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See LangGraph's `get_tuple`."""
        given, about = config["configurable"], _about(config)
        name = get_checkpoint_id(config)
        named = " AND checkpoint_id = %(id)s" if name else ""
        rows = self.run(_HEAD.format(named=named), {**about, "id": name})
        head = next((row for row in rows if row["what"] == "head"), None)
        if head is None:
            return None
        place = {"thread_id": given["thread_id"], "checkpoint_ns": about["ns"]}
        whole = config if name else _config(place, head["checkpoint_id"])
        return self._tuple(head, place, self._written(rows), whole)

    def list(
        self, config: RunnableConfig | None, filter: dict[str, Any] | None,
        before: RunnableConfig | None, limit: int | None,
    ) -> Iterator[CheckpointTuple]:  # fmt: skip
        """See LangGraph's `list`."""
        where, values = _where(config, filter, before)
        rows = self.run(_LIST.format(where=where), {**values, "limit": limit})
        ids: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            ids.setdefault((row["thread_id"], row["checkpoint_ns"]), []).append(
                row["checkpoint_id"]
            )
        written = {place: self._of(place, names) for place, names in ids.items()}
        for row in rows:
            found = written[row["thread_id"], row["checkpoint_ns"]]
            place = {"thread_id": row["thread_id"], "checkpoint_ns": row["checkpoint_ns"]}
            yield self._tuple(row, place, found, _config(place, row["checkpoint_id"]))

    def history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        """See LangGraph's `get_delta_channel_history`."""
        walk, found = Walk(channels), list[Mapping[str, Any]]()
        about = {**_about(config), "channels": [*channels, PACKED, FOLDED], "most": _AT_ONCE}
        target = step = get_checkpoint_id(config)
        while step is not None and walk.open:
            asked = {**about, "id": step, "target": target, "open": [*walk.open]}
            rows = self.run(_LINE, asked)
            line = sorted((row for row in rows if row["what"] == "step"), key=lambda r: r["idx"])
            found += [row for row in rows if row["what"] == "row"]
            found += [_written_onto_parent(row) for row in line if row["written"] is not None]
            step = self._back(walk, line, target)
        written = self._written(found)
        if _BEFORE_ALL in written:
            walk.back(_BEFORE_ALL, dict.fromkeys(walk.open), dict)
        return walk.told(written)

    def cut_at(self, config: RunnableConfig) -> RunnableConfig | None:
        """The oldest checkpoint before this one, if the one that it followed is not there."""
        about, given = _about(config), config["configurable"]
        root = self.run(ROOT.format(**_NAMED), about)
        if not root or root[0]["parent"] is None:
            return None
        found = self.run(END.format(**_NAMED), {**about, "id": given["checkpoint_id"]})
        return _config(given, found[0]["id"]) if found else None

    def _back(
        self, walk: Walk, line: Sequence[Mapping[str, Any]], target: str | None
    ) -> str | None:
        """Go back along a part of a line; gives where it goes on, if it does."""
        for row in line:
            if not walk.goes_on(row["checkpoint_id"]):
                return None
            if row["checkpoint_id"] != target:
                counted = (row["metadata"] or {}).get(COUNTERS) or {}
                walk.back(row["checkpoint_id"], counted, partial(self._value, row))
        return line[-1]["parent_checkpoint_id"] if line else None

    def _of(self, place: Place, ids: Sequence[str]) -> Written:
        """What was written onto these checkpoints of one place."""
        about = {"thread": place[0], "ns": place[1], "ids": [*ids], "oldest": min(ids)}
        return self._written(self.run(_OF_LIST, about))

    def _written(self, rows: Sequence[Mapping[str, Any]]) -> Written:
        """Of each task what was there first counts, as where LangGraph saves it."""
        found: dict[str, dict[tuple[str, str, int], list[PendingWrite]]] = {}
        # Those in rows of their own first, then by the age of what came of them.
        for row in sorted(rows, key=_folded_by):
            writes = found.setdefault(row["checkpoint_id"], {})
            if _folded_by(row):
                for task, path, pairs in self._value(row):
                    told = [(task, channel, value) for channel, value in pairs]
                    writes.setdefault((path, task, 0), told)
            elif row["what"] == "row":
                key = (row["task_path"], row["task_id"], row["idx"])
                writes[key] = apart(row["task_id"], row["channel"], self._value(row))
        return {
            step: [one for key in sorted(writes) for one in writes[key]]
            for step, writes in found.items()
        }

    def _tuple(
        self, row: Mapping[str, Any], place: Mapping[str, Any], written: Written,
        config: RunnableConfig,
    ) -> CheckpointTuple:  # fmt: skip
        parent = row["parent_checkpoint_id"]
        return CheckpointTuple(
            config, self._value(row), cast("CheckpointMetadata", row["metadata"] or {}),
            _config(place, parent) if parent else None,
            written.get(row["checkpoint_id"], []),
        )  # fmt: skip

    def _value(self, row: Mapping[str, Any]) -> Any:
        return self.serde.loads_typed((row["type"], row["value"]))


def _folded_by(row: Mapping[str, Any]) -> str:
    """The checkpoint that came of what several tasks wrote; '' for whatever else a row is."""
    if row["what"] == "folded":
        return str(row["parent_checkpoint_id"])
    return str(row["task_id"]) if row["channel"] == FOLDED else ""


def _written_onto_parent(row: Mapping[str, Any]) -> dict[str, Any]:
    """What was written onto the parent of a step, as a row of its own."""
    return {
        "what": "folded", "checkpoint_id": row["parent_checkpoint_id"] or _BEFORE_ALL,
        "parent_checkpoint_id": row["checkpoint_id"], "channel": None,
        "type": row["written_type"], "value": row["written"],
    }  # fmt: skip


def _about(config: RunnableConfig) -> dict[str, Any]:
    given = config["configurable"]
    return {"thread": storable(str(given["thread_id"])), "ns": given.get("checkpoint_ns", "")}


def _config(place: Mapping[str, Any], checkpoint: str) -> RunnableConfig:
    return {"configurable": {**place, "checkpoint_id": checkpoint}}


def _where(
    config: RunnableConfig | None, filter: dict[str, Any] | None, before: RunnableConfig | None
) -> tuple[str, dict[str, Any]]:
    """What a list is asked for, in SQL."""
    values: dict[str, Any] = {}
    parts: list[str] = []
    for column, key, value in _asked(config, filter, before):
        values[key] = value
        parts.append(f"{column} %({key})s{'::jsonb' if key == 'filter' else ''}")
    return f" WHERE {' AND '.join(parts)}" if parts else "", values


def _asked(
    config: RunnableConfig | None, filter: dict[str, Any] | None, before: RunnableConfig | None
) -> Iterator[tuple[str, str, Any]]:
    if config is not None:
        yield "thread_id =", "thread", _about(config)["thread"]
        if (place := config["configurable"].get("checkpoint_ns")) is not None:
            yield "checkpoint_ns =", "ns", place
        if name := get_checkpoint_id(config):
            yield "checkpoint_id =", "id", name
    if filter:
        yield "metadata @>", "filter", json.dumps(storable_json(filter))
    if before is not None:
        yield "checkpoint_id <", "before", get_checkpoint_id(before)
