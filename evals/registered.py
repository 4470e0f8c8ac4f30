"""What Inspect finds here by its entry point: `loopwright/<name>`."""

from .agents import loop, loop_agent
from .scorers import effects_once, honest_outcome, spend
from .tasks import desk, goal, goals, measure

__all__ = [
    "desk", "effects_once", "goal", "goals", "honest_outcome", "loop", "loop_agent", "measure",
    "spend",
]  # fmt: skip
