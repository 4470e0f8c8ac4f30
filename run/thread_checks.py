"""What must hold of a saved thread before a graph goes on with it: mended, or refused."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint
from langgraph.types import StateUpdate

from ..state.errors import ThreadBusy, ThreadIncompatible
from ..store.base import langgraph_keys as keys
from ..store.checkpoints.shared_values import describe_incomplete, find_lost_async
from ..store.checkpoints.thread_head import ThreadHead
from .compiled import Graph
from .run import Run, write_state

_LONGEST_WAIT: Final = 10.0
"""Seconds for which a clock that is behind is waited for."""

_COPY: Final = "__copy__"
"""What LangGraph calls the node of an update that saves an older checkpoint as the newest."""


def check_nodes(run: Run, head: ThreadHead, graph: Graph) -> None:
    """Refuse a thread that another graph, or another version of this one, saved.

    Raises:
        ThreadIncompatible: It has been, or waits, at nodes that the graph lacks.
    """
    if graph.own_builder.whole and (foreign := head.find_foreign_nodes(graph.nodes)):
        names = ", ".join(map(repr, foreign))
        msg = (
            f"Thread {run.thread!r} has been at {names}, which the graph {graph.name!r} does not"
            " have: continue it with the graph that it belongs to, or start a new thread."
        )
        raise ThreadIncompatible(msg)
    if missing := head.find_missing_nodes(graph.nodes, graph.channels):
        names = ", ".join(map(repr, missing))
        msg = (
            f"Thread {run.thread!r} waits at {names}, which the graph {graph.name!r} does not"
            " have: another version or another graph saved it. Continue it with that one, or"
            " start a new thread."
        )
        raise ThreadIncompatible(msg)


async def check_values(run: Run, at: RunnableConfig, parent: RunnableConfig | None) -> None:
    """Refuse a checkpoint that shares values with older ones that somebody has deleted.

    Args:
        run: A run of the thread, or a look at it.
        at: The checkpoint.
        parent: The one it followed, if any.

    Raises:
        ThreadIncompatible: They cannot be told any more.
    """
    if run.saver is not None and (lost := await find_lost_async(run.saver, at, parent)):
        raise ThreadIncompatible(describe_incomplete(run.thread, lost))


async def wait_for_clock(run: Run, newest: ThreadHead | None) -> None:
    """See that what is saved from now on is newer than what the thread has.

    LangGraph orders checkpoints by the clock of the machine that saved them. What is saved by a
    clock that is behind would count as older, and the thread would stand still.

    Raises:
        ThreadBusy: The thread was saved by a clock that is far ahead of this one.
    """
    ahead = 0.0 if newest is None else keys.measure_lead(newest.saved.checkpoint["id"])
    if ahead > _LONGEST_WAIT:
        msg = (
            f"Thread {run.thread!r} was saved by a clock that is"
            f" {timedelta(seconds=round(ahead))} ahead of this one, so nothing newer can be saved"
            " yet: set the clock that is wrong, and try again when this one is past that time."
        )
        raise ThreadBusy(msg)
    if ahead:
        await asyncio.sleep(ahead)


async def restore_thread(graph: Graph, run: Run, head: ThreadHead) -> bool:
    """Put a thread back to where it was before the run that saved its incomplete head.

    LangGraph's server deletes what a run has saved when a message rolls it back, and may do so
    before the run has ended. What that run saves afterwards stands at the head of the thread, and
    shares values with what was deleted: nobody could go on with it.

    Returns:
        False where nothing says that a run was taken back: somebody has deleted checkpoints, and
        what they held is to be brought back from a copy.
    """
    saver, gone = run.saver, head.saved.metadata.get("run_id")
    if saver is None or gone is None:
        return False
    place = RunnableConfig(configurable={"thread_id": run.thread, "checkpoint_ns": ""})
    async for saved in saver.alist(place):
        if saved.metadata.get("run_id") != gone:
            where = {**saved.config["configurable"], keys.SAVER: saver}
            await write_state(graph, {"configurable": where}, StateUpdate(None, _COPY))
            return True
    if not head.find_next_nodes() or head.values.get("turn", 0) > 1:
        return False
    await _reset_thread(saver, place)
    return True


async def _reset_thread(saver: BaseCheckpointSaver[Any], place: RunnableConfig) -> None:
    """Let a thread stand where it stood before its first run."""
    about = CheckpointMetadata(source="fork", step=-2, parents={})
    await saver.aput(place, empty_checkpoint(), about, {})
