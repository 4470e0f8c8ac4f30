"""Delta channels: a checkpoint stores only the writes since the last snapshot of a channel.

A reader needs the snapshot and every write since. If the snapshot is gone, LangGraph reads the
channel as empty, without an error.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import StateGraph

from ...state.agent import TaskAgentState
from ...state.channels import schema_of
from ...state.flow import FlowState
from ...state.loop import PlanState
from ...state.react import ReactState
from ..base.worker_threads import run_in_worker
from .packing import SQLITE, PackingSaver, Row, find_cut_checkpoint

COUNTERS: Final = "counters_since_delta_snapshot"
"""In a checkpoint's metadata: channels whose values it does not hold itself."""

OURS: Final = frozenset({"turn_state", "schema_version"})
"""Channels that only threads of this package's graphs have; the second one those of schema 2."""


def find_lost_values(
    saver: BaseCheckpointSaver[Any], at: RunnableConfig, parent: RunnableConfig | None
) -> list[str]:
    """Channels of a checkpoint whose values were deleted with older ones; of a sync saver."""
    if (end := _find_cut(saver, at, parent)) is None or (saved := saver.get_tuple(at)) is None:
        return []
    if not (names := _find_shared_channels(saved, saver.get_tuple(end))):
        return []
    history = saver.get_delta_channel_history(config=saved.config, channels=names)
    return [name for name in names if "seed" not in history[name]]


def describe_incomplete(thread: str, lost: Collection[str]) -> str:
    """What is told of a thread that has lost values."""
    return (
        f"Thread {thread!r} is incomplete: older checkpoints were deleted, and with them"
        f" {', '.join(map(repr, lost))}. Bring them back from a copy, or start a new thread; to"
        " make threads smaller use `loopwright prune`, or durability.prune()."
    )


async def find_lost_async(
    saver: BaseCheckpointSaver[Any], at: RunnableConfig, parent: RunnableConfig | None
) -> list[str]:
    """The same of any saver."""
    inner = getattr(saver, "inner", saver)
    if isinstance(inner, PackingSaver | SqliteSaver):
        return await run_in_worker(inner, find_lost_values, saver, at, parent)
    if parent is None or await saver.aget_tuple(parent) is not None:
        return []
    saved = await saver.aget_tuple(at)
    if saved is None or not (names := _find_shared_channels(saved)):
        return []
    history = await saver.aget_delta_channel_history(config=at, channels=names)
    return [name for name in names if "seed" not in history[name]]


def fill_shared_values(saver: BaseCheckpointSaver[Any], saved: CheckpointTuple) -> list[str] | None:
    """Put into a checkpoint the values it shares with older ones; returns the channels.

    None if one of them is another package's: only its own graph knows how to read it.
    """
    names, known, values = (
        _find_shared_channels(saved),
        list_delta_channels(),
        saved.checkpoint["channel_values"],
    )
    if names and not (
        OURS & saved.checkpoint["channel_versions"].keys() and set(names) <= known.keys()
    ):
        return None
    values |= replay_values(saver, saved, names)
    return names


def replay_values(
    saver: BaseCheckpointSaver[Any], saved: CheckpointTuple, names: Collection[str]
) -> dict[str, Any]:
    """The values of channels of this package's graphs that a checkpoint does not hold itself."""
    if not names:
        return {}
    known, values = list_delta_channels(), dict[str, Any]()
    history = saver.get_delta_channel_history(config=saved.config, channels=[*names])
    for name in names:
        channel = known[name].from_checkpoint(history[name].get("seed", known[name].ValueType()))
        channel.replay_writes(history[name]["writes"])
        values[name] = channel.get()
    return values


@cache
def list_delta_channels() -> Mapping[str, DeltaChannel[Any]]:
    """The channels of this package's graphs that are saved as writes."""
    states: tuple[type, ...] = (PlanState, FlowState, ReactState, TaskAgentState)
    found = [pair for state in states for pair in StateGraph(schema_of(state)).channels.items()]
    return {name: channel for name, channel in found if isinstance(channel, DeltaChannel)}


def _find_shared_channels(
    saved: CheckpointTuple, oldest: CheckpointTuple | None = None
) -> list[str]:
    """Channels with a value that a checkpoint does not hold itself; had by `oldest` already."""
    checkpoint, counted = saved.checkpoint, dict(saved.metadata).get(COUNTERS)
    names: Collection[str] = counted if isinstance(counted, Mapping) else ()
    if OURS & checkpoint["channel_versions"].keys():
        names = {*names, *list_delta_channels()}
    written = (oldest or saved).checkpoint["channel_versions"]
    held = checkpoint["channel_values"]
    return sorted(name for name in names if name in written and name not in held)


def _find_cut(
    saver: BaseCheckpointSaver[Any], at: RunnableConfig, parent: RunnableConfig | None
) -> RunnableConfig | None:
    """The oldest checkpoint before this one, if the one that it followed is not there any more."""
    inner = getattr(saver, "inner", saver)
    if isinstance(inner, PackingSaver):
        return find_cut_checkpoint(inner.select, inner.dialect, at)
    if isinstance(inner, SqliteSaver):
        return find_cut_checkpoint(partial(select_rows, inner), SQLITE, at)
    return at if parent is not None and saver.get_tuple(parent) is None else None


def select_rows(saver: SqliteSaver, sql: str, values: Mapping[str, Any]) -> Sequence[Row]:
    """What a SQLite saver's database answers; see PackingSaver."""
    with saver.cursor(transaction=False) as cursor:
        cursor.row_factory = sqlite3.Row
        return cursor.execute(sql, values).fetchall()
