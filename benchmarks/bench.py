"""A benchmark that runs: who is measured, how much, and what explains what missed its goal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from fleet import Fleet, Found, Rounds
from report import Goal

RAW, PEER, BARE = "raw", "create_agent", "bare StateGraph"
OURS = ("react(direct)", "react", "plan_execute_verify", "prompt_flow")
SHORTENING = ("create_agent, summing up", *(["deepagents"] if find_spec("deepagents") else []))
"""Others who shorten a history that does not fit."""
GROWING = ("task_agent", "react(direct)", "plan_execute_verify")
"""Those whose turns must not grow much faster with a thread than LangGraph's own."""
LOOPS = ("react(direct)", "react", "plan_execute_verify")
"""Those of ours that ask as often as others."""
EVERYBODY = ("raw HTTP", RAW, "lean StateGraph", PEER, "task_agent", *OURS)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    turns: tuple[int, int, int] = (10, 100, 400)
    rounds: tuple[int, int, int] = (3, 2, 1)
    stock_rounds: tuple[int, int, int] = (2, 1, 1)
    read: int = 200
    crowd: int = 1_000
    long: int = 400
    times: int = 2


ONCE = Size((10, 100, 400), (1, 1, 1), (1, 1, 0), 200, 300, 120, 1)
QUICK = Size((5, 20, 80), (2, 1, 1), (1, 1, 1), 20, 100, 12, 1)
SIZES = {"full": Size(), "once": ONCE, "quick": QUICK}


@dataclass
class Bench:
    """A benchmark that runs: its processes, its size, and the profiles of what missed its goal."""

    fleet: Fleet
    size: Size
    profiles: dict[str, list[str]] = field(default_factory=dict)

    def explain(self, goals: Sequence[Goal], name: str, order: Found) -> None:
        """Where a goal is missed, profile what missed it."""
        missed = [goal.name for goal in goals if not goal.met and goal.name.startswith(f"{name}:")]
        how = [", SQLite"] * order.get("saved", False) + [", get_state"] * order.get("read", False)
        title = "".join([f"{name}, {order['script']}", *how])
        if missed and title not in self.profiles:
            found = self.fleet.ask(name, {**order, "do": "profile"})
            self.profiles[title] = found["profile"]


def per_call(rounds: Rounds) -> Rounds:
    """CPU milliseconds a call, beside what was measured."""
    return {
        name: [{**one, "ms": one["cpu"] / one["calls"] * 1_000} for one in found]
        for name, found in rounds.items()
    }
