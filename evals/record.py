"""What an eval keeps of a graph's runs in the store of its sample, and so in the log."""

from typing import Any

from inspect_ai.util import StoreModel
from pydantic import Field


class LoopRecord(StoreModel):
    """The runs of a graph in one sample; scorers read it by `state.store_as(LoopRecord)`."""

    graph: str = ""
    outcomes: list[dict[str, Any]] = Field(default_factory=list)
    """Of each turn, as the graph gave it."""
    evidence: list[dict[str, Any]] = Field(default_factory=list)
    """Of all turns."""
    made: list[dict[str, Any]] = Field(default_factory=list)
    """The calls that reached the task's tools."""
    questions: list[dict[str, Any]] = Field(default_factory=list)
    """What the person was asked, and what they said."""
    handed_over: bool = False
    """A desk gave its customer to a human."""
