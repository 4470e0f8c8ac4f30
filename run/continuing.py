"""What must hold of a saved thread before a graph goes on with it, and what is refused."""

import logging
from collections.abc import Container
from datetime import timedelta
from typing import Final, Protocol

from langchain_core.runnables import RunnableConfig

from ..state.errors import ThreadIncompatible
from ..store.base import langgraph_keys as keys
from ..store.checkpoints.head import Head
from ..store.checkpoints.shared_values import incomplete, values_missing
from .run import Run

log = logging.getLogger(__name__)

_TOLD_FROM: Final = 60.0
"""Seconds; a smaller difference between two clocks is nothing to tell anybody."""


class Continues(Protocol):
    """What is asked of the graph."""

    @property
    def name(self) -> str:
        """Of the graph."""

    @property
    def whole(self) -> bool:
        """All its nodes are its own, so that a thread which has been elsewhere is another's."""

    @property
    def nodes(self) -> Container[str]:
        """Its nodes."""

    @property
    def channels(self) -> Container[str]:
        """What its state has."""


def check_nodes(run: Run, head: Head, graph: Continues) -> None:
    """Refuse a thread that another graph, or another version of this one, saved.

    Raises:
        ThreadIncompatible: It has been, or waits, at nodes that the graph lacks.
    """
    if graph.whole and (foreign := head.foreign(graph.nodes)):
        names = ", ".join(map(repr, foreign))
        msg = (
            f"Thread {run.thread!r} has been at {names}, which the graph {graph.name!r} does not"
            " have: continue it with the graph that it belongs to, or start a new thread."
        )
        raise ThreadIncompatible(msg)
    if missing := head.missing(graph.nodes, graph.channels):
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
    if run.saver is not None and (lost := await values_missing(run.saver, at, parent)):
        raise ThreadIncompatible(incomplete(run.thread, lost))


def keep_order(run: Run, newest: Head | None) -> None:
    """See that what is saved from now on is newer than what the thread has, whatever the clock.

    Another machine, or this one before its clock was set, may have saved the thread by a clock
    that was ahead: what is saved now would count as older, and the thread would stand still.
    """
    ahead = 0.0 if newest is None else keys.number_after(newest.saved.checkpoint["id"])
    if ahead > _TOLD_FROM:
        log.warning(
            "Thread %r was saved by a clock that is %s ahead of this one: its checkpoints are"
            " numbered from there on. Look which clock is wrong.",
            run.thread,
            timedelta(seconds=round(ahead)),
        )
