"""State of the ReAct loop: thought → action → observation, over one shared history of messages."""

from dataclasses import dataclass
from typing import Final, Literal

from .calls import CallState, CallsUpdate
from .loop import LoopState, LoopUpdate

PATH: Final = "react"
"""Begins the id of every call of this loop: `react.<iteration>.<index>`."""

Phase = Literal["idle", "thought", "action", "observation"]
Observe = Literal["model", "direct"]


@dataclass(kw_only=True)
class ReactState(CallState, LoopState):
    """State of thought → action → observation."""

    record = "turn_state"

    phase: Phase = "idle"
    """The phase that ran last; idle before and after a turn."""
    iteration: int = 0
    """Thoughts of this turn, the last one without tools left out; thought counts."""
    observe: Observe = "model"
    """Who sums up tool results: a model, or nobody; intake writes it."""
    demanded: bool = False
    """The last thought asks for a step; thought writes it."""

    # Call ids repeat in every turn: an old answer must not count for a new call.
    per_turn = LoopState.per_turn | {
        "calls", "decisions", "objections", "evidence", "denied", "strikes", "phase", "iteration",
        "demanded", "held",
    }  # fmt: skip

    by_tools = frozenset({"messages", "improvements", "task_completed", "should_continue"})

    @property
    def path(self) -> str:
        """The loop has no tasks: its own name."""
        return PATH


class ReactUpdate(LoopUpdate, CallsUpdate, total=False):
    """What a node of the loop may change."""

    phase: Phase
    iteration: int
    observe: Observe
    demanded: bool
