"""What a run may still use: one budget for all its nodes, tasks and branches.

A call is reserved before it is made, so that parallel branches cannot overrun a limit together;
tokens are only known afterwards, so they may overrun by one call for each running branch.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from langchain_core.messages import AIMessage, BaseMessage
from typing_extensions import TypedDict

from ..state.canonical import estimate_tokens
from ..state.context import Context
from ..state.outcome import Reason, Spend, add_spend

Limit = Literal["model_calls", "tool_calls", "tokens", "seconds"]

_WARN_AT: Final = 0.8


class BudgetWarning(TypedDict):
    """The event sent once for each limit, when 80 % of it are used."""

    type: Literal["budget"]
    limit: Limit
    used: float
    of: float


class Budget:
    """Counts what a user turn has used and refuses what would go over a limit.

    Shared by threads and event loops. A reservation counts at once; the spend added later takes
    the place of its reservation, so a call is never counted twice.

    Attributes:
        span: Branch to its seconds before a resume, into the seconds that passed; side by side
            unless whoever runs the branches knows better, and says so before one is recalled.
    """

    def __init__(
        self,
        context: Context,
        spent: Spend | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        begun: int = 0,
        count: Callable[[], None] | None = None,
    ) -> None:
        """Start counting.

        Args:
            context: Holds the limits.
            spent: What this user turn used before, read from the state on a resume.
            clock: Seconds of a clock that never goes back.
            begun: Model calls of this turn that were ever begun; more than `spent` tells of where
                a crash came between a call and the state.
            count: Told of every model call as it begins.
        """
        self._limits: dict[Limit, float] = {
            "model_calls": context.max_model_calls,
            "tool_calls": context.max_tool_calls,
            "tokens": context.max_tokens,
            "seconds": context.max_seconds,
        }
        self._lock = threading.RLock()
        self._clock = clock
        self._begun, self._count = begun, count
        self._spent = add_spend(None, spent)
        self._seconds_before = self._spent.pop("seconds", 0.0)
        self._started = clock()
        self._reserved: dict[Limit, int] = {"model_calls": 0, "tool_calls": 0}
        self._recalled: dict[str, float] = {}
        self._recalled_seconds: float | None = None  # the span of many branches takes its time
        self.span: Callable[[Mapping[str, float]], float] = _side_by_side
        self._last_turns: int | None = None
        self._warned: set[Limit] = set()
        self._warned = {warning["limit"] for warning in self.near()}

    def reserve_model_call(self) -> bool:
        """Take one model call out of the budget; False where a limit is reached.

        Used-up tool calls do not count here: the model may still say what it found.
        """
        with self._lock:
            # A task that was begun before a crash may still run what its last call asked for, so
            # calls that only the journal knows of keep from nothing but further calls.
            lost = self._begun >= self._limits["model_calls"]
            if lost or self._reached("model_calls", "tokens", "seconds"):
                if not self._last_turns:
                    return False
                self._last_turns -= 1
            self._reserved["model_calls"] += 1
            self._begun += 1
        if self._count is not None:
            self._count()
        return True

    def reserve_tool_calls(self, wanted: int) -> int:
        """Take tool calls out of the budget and say how many were granted, 0 to `wanted`."""
        with self._lock:
            if self._reached("tokens", "seconds"):
                return 0
            left = self._limits["tool_calls"] - self._used()["tool_calls"]
            granted = max(0, min(wanted, int(left)))
            self._reserved["tool_calls"] += granted
            return granted

    def add(self, spend: Spend) -> None:
        """Add what calls really used; their reservations end here."""
        with self._lock:
            for limit in self._reserved:
                calls = int(spend.get(limit, 0))  # type: ignore[call-overload]  # limits are keys of Spend
                self._reserved[limit] = max(0, self._reserved[limit] - calls)
            self._spent = add_spend(self._spent, _timeless(spend))

    def recall(self, branch: str, spend: Spend) -> None:
        """Count what a branch used before this budget began, as its saved state tells.

        Only what is told first of a branch counts: from then on its calls are added one by one.
        """
        with self._lock:
            if branch not in self._recalled:
                self._recalled[branch] = spend.get("seconds", 0.0)
                if self._recalled[branch]:
                    self._recalled_seconds = None
                self._spent = add_spend(self._spent, _timeless(spend))

    def last_turn(self) -> bool:
        """Grant one model call beyond the limits; False if that was granted before."""
        with self._lock:
            if self._last_turns is not None:
                return False
            self._last_turns = 1
            return True

    @property
    def seconds(self) -> float:
        """Active seconds of this user turn: those before a resume and those since."""
        return self._seconds_before + self.recalled_seconds + self._clock() - self._started

    @property
    def recalled_seconds(self) -> float:
        """Active seconds that the recalled branches had used before this budget began."""
        with self._lock:
            if self._recalled_seconds is None:
                self._recalled_seconds = self.span(self._recalled)
            return self._recalled_seconds

    @property
    def spent(self) -> Spend:
        """Everything used in this user turn, calls under way included; a copy."""
        with self._lock:
            return add_spend(self._spent, Spend(**self._reserved, seconds=self.seconds))  # type: ignore[typeddict-item]  # limits are keys of Spend

    @property
    def exhausted(self) -> Limit | None:
        """The first limit that is reached; None while there is room."""
        return self._reached(*self._limits)

    def near(self) -> list[BudgetWarning]:
        """The limits that passed 80 % since the last look; each is told once."""
        with self._lock:
            used = self._used()
            new: list[Limit] = [
                name
                for name, limit in self._limits.items()
                if name not in self._warned and used[name] >= _WARN_AT * limit
            ]
            self._warned.update(new)
        return [
            BudgetWarning(type="budget", limit=name, used=used[name], of=self._limits[name])
            for name in new
        ]

    def _reached(self, *limits: Limit) -> Limit | None:
        with self._lock:
            used = self._used()
        return next((name for name in limits if used[name] >= self._limits[name]), None)

    def _used(self) -> dict[Limit, float]:
        spent = self._spent
        return {
            "model_calls": spent.get("model_calls", 0) + self._reserved["model_calls"],
            "tool_calls": spent.get("tool_calls", 0) + self._reserved["tool_calls"],
            "tokens": spent.get("input_tokens", 0) + spent.get("output_tokens", 0),
            "seconds": self.seconds,
        }


def _timeless(spend: Spend) -> Spend:
    """Without seconds: the budget's clock counts them, side by side branches would count twice."""
    counted = spend.copy()
    counted.pop("seconds", None)
    return counted


def _side_by_side(seconds: Mapping[str, float]) -> float:
    return max(seconds.values(), default=0.0)


def tokens_of(asked: Sequence[BaseMessage], answer: AIMessage) -> tuple[int, int]:
    """Input and output tokens of one call: as the provider counted them, else estimated."""
    usage = answer.usage_metadata
    if usage and (usage["input_tokens"] or usage["output_tokens"]):
        return usage["input_tokens"], usage["output_tokens"]
    calls = "".join(f"{call['name']}{call['args']}" for call in answer.tool_calls)
    return estimate_tokens("".join(message.text for message in asked)), estimate_tokens(
        answer.text + calls
    )


def limit_reason(limit: str | None) -> Reason:
    """The outcome's reason for a spent limit, or for a hook that refused."""
    if limit == "hook":
        return "DENIED"
    return "TIMEOUT" if limit == "seconds" else "BUDGET"
