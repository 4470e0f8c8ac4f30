"""State of the ReAct loop: thought → action → observation, over one shared history of messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from langgraph.graph.ui import AnyUIMessage
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from .calling import CallState
from .evidence import Evidence
from .loop import LoopState
from .messages import last_request
from .outcome import Outcome, Reason
from .spend import Spend

ENDS: Final = "ends"
"""Key in a message's `additional_kwargs`: a model ended the turn with it."""
PATH: Final = "react"
"""Begins the id of every call of this loop: `react.<iteration>.<index>`."""

Phase = Literal["idle", "thought", "action", "observation"]
Observe = Literal["model", "direct"]


@dataclass(kw_only=True)
class ReactState(CallState, LoopState):
    """State of thought → action → observation."""

    phase: Phase = "idle"
    """The phase that ran last; idle before and after a turn."""
    iteration: int = 0
    """Thoughts of this turn, the last one without tools left out; thought counts."""
    observe: Observe = "model"
    """Who sums up tool results: a model, or nobody; begin_react writes it."""
    demanded: bool = False
    """The last thought asks for a step; thought writes it."""
    unmet: list[str] = field(default_factory=list)
    """What the turn did not do although it was asked for; action and thought write it."""
    allowance: int = 0
    """How often this request was given its limits afresh; begin_react counts."""

    @property
    def path(self) -> str:
        """The loop has no tasks: its own name."""
        return PATH

    @property
    def request(self) -> str:
        """The user's words of this turn."""
        return last_request(self.messages)


class ReactUpdate(TypedDict, total=False):
    """What a node of the loop may change."""

    messages: Any
    outcome: Outcome | None
    ui: list[AnyUIMessage]
    schema_version: int
    turn: int
    turn_id: str
    request_id: str
    task_completed: bool
    should_continue: bool
    improvements: list[str]
    halt: Reason | None
    hook_context: list[str]
    stop_hook_active: bool
    spend: Spend | Overwrite
    warnings: list[str] | Overwrite
    calls: list[Any]
    decisions: dict[str, dict[str, Any]] | Overwrite
    objections: dict[str, str] | Overwrite
    evidence: Sequence[Evidence] | Overwrite
    denied: str
    strikes: int
    phase: Phase
    iteration: int
    observe: Observe
    demanded: bool
    unmet: list[str]
    allowance: int
