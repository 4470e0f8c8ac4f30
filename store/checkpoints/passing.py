"""Steps that need no row of their own: what they did may be done again after a crash.

A graph inside a task says before which of its nodes. Such a step waits until something is saved
that must not be lost, and gives way to the one that came of it: that has all the writes since the
last one that is saved, in their order.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.graph import START

from .head import Head
from .shared_values import COUNTERS

PASSING_KEY: Final = "__loopwright_passing"
"""Where a saver finds which steps pass; kept out of metadata as FENCE_KEY."""

Wrote = list[Any]
"""The id of a task, its path, and what it wrote."""


class Passing(NamedTuple):
    """Of the graph with this namespace steps pass before these nodes, and before nothing."""

    space: str
    nodes: Collection[str]

    def covers(self, space: str, checkpoint: Checkpoint, metadata: Mapping[str, Any]) -> bool:
        """Whether a step passes; nothing was done before the first node."""
        if space != self.space:
            return False
        head = Head(CheckpointTuple(RunnableConfig(), checkpoint, {}))
        return metadata.get("step", 1) <= 0 or head.waiting() <= {START, *self.nodes}


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint that is about to be saved.

    Attributes:
        parent: The one it came of.
        checkpoint: Itself.
        metadata: As JSON.
        written: What was written onto its parent.
        passes: Whether it may give way.
    """

    parent: str | None
    checkpoint: Checkpoint
    metadata: Mapping[str, Any]
    written: list[Wrote] = field(default_factory=list)
    passes: bool = False

    def after(self, before: "Step") -> "Step":
        """This one in place of the one it came of; LangGraph sorts a step's writes by path."""
        late = f"~~{before.metadata.get('step', 0) + 1:010d}"
        own = [[task, f"{late}{path}", pairs] for task, path, pairs in self.written]
        return replace(self, parent=before.parent, written=[*before.written, *own])

    def gives_way(self, to: "Step") -> bool:
        """Whether nothing is lost by it; a value may stand in it that later ones only add to."""
        counted = to.metadata.get(COUNTERS) or {}
        return self.passes and counted.keys().isdisjoint(self.checkpoint["channel_values"])


def inside(space: str, task: str) -> bool:
    """Whether a namespace belongs to what a task ran."""
    return f"|task:{task}|" in f"|{space}|"
