"""Which graph takes a request, by rules where they suffice, and what follows one that failed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from .contracts import Contract, Text, read_word
from .loop import LoopState, LoopUpdate
from .outcome import Outcome, OutcomeStatus, Reason

Way = Literal["direct", "react", "prompt_flow", "task_agent", "plan_execute_verify"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)

STRONGER: Final[Mapping[Way, Way]] = {
    "direct": "react",
    "react": "task_agent",
    "prompt_flow": "plan_execute_verify",
    "task_agent": "plan_execute_verify",
}
"""What takes a request over that one could not do."""

_HOPELESS: Final[frozenset[Reason]] = frozenset(
    {"DENIED", "MISSING_INFORMATION", "NOT_INTERACTIVE", "ABORTED", "TIMEOUT", "BUDGET"}
)
"""Ends that a stronger graph would come to as well."""
_GREETING: Final = re.compile(
    r"\W*(?:hi|hello|hey|good (?:morning|afternoon|evening)|thanks|thank you|bye|goodbye|你好|您好"
    r"|谢谢|再见)\W*",
    re.IGNORECASE,
)


class RouteChoice(Contract):
    """Which graph takes the request."""

    graph: Annotated[Way, BeforeValidator(lambda value: read_word(value, WAYS))]
    why: Text = Field(default="", description="One short sentence.")


class Tried(TypedDict):
    """A graph that had the request, and how it ended."""

    graph: Way
    why: str
    status: OutcomeStatus | None
    reason: Reason | None


@dataclass(kw_only=True)
class RouterState(LoopState):
    """State of the router: what was chosen, what was tried, and what came of it."""

    way: Way | Literal[""] = ""
    """The graph that has the request; choose writes it, and judge."""
    why: str = ""
    """Why it has it, in words."""
    tried: list[Tried] = field(default_factory=list)
    """The graphs that had the request, in their order."""
    inner: Outcome | None = None
    """How the newest of them ended; its node writes it."""

    per_turn = LoopState.per_turn | {"way", "why", "tried", "inner"}


class RouterUpdate(LoopUpdate, total=False):
    """What a node of the graph may change."""

    way: Way
    why: str
    tried: list[Tried]
    inner: Outcome | None


def by_rule(request: str) -> Way | None:
    """The graph of a request that needs no judgement; None where somebody must judge."""
    return "direct" if _GREETING.fullmatch(request) else None


def stronger_than(way: Way, outcome: Outcome) -> Way | None:
    """What takes the request over from a graph that ended so; None where nothing would help."""
    done = outcome["status"] in ("complete", "blocked", "cancelled")
    return None if done or outcome["reason"] in _HOPELESS else STRONGER.get(way)
