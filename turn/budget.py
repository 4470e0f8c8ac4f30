"""What a run may still use: one budget for all its nodes, tasks and branches.

A call is counted before it is made, and the most it can take is held back until it has ended, so
parallel branches cannot overrun a limit together.
"""

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, Literal, NamedTuple

from ..state.context import Context
from ..state.outcome import Reason, Spend
from ..store.journal.port import UsageRecord

Limit = Literal["model_calls", "tool_calls", "tokens", "seconds", "usd"]

_WARN_AT: Final = 0.8
_LEASES: Final = 250
"""Into so many parts a limit is put on record, at most one part ahead of what is taken."""
_PRECISE: Final = 1e-9
"""Dollars; sums of prices are no more exact."""


class CallMaximum(NamedTuple):
    """What a model call can take at most."""

    tokens: int = 0
    usd: float = 0.0


class Budget:
    """Counts what a user turn has used and refuses what would go over a limit.

    Shared by threads and event loops. `tab` is what the turn has ever taken. `span` turns the
    seconds that each branch used before a resume into the seconds that passed; by default the
    branches ran side by side.
    """

    def __init__(
        self,
        context: Context,
        spent: Spend | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        tab: UsageRecord | None = None,
        limits: Mapping[str, float] | None = None,
        parent: "Budget | None" = None,
    ) -> None:
        """Start counting from `spent`, the usage in the state.

        `tab` is higher than that if a crash came between a call and the state. `limits` are
        tighter ones of an agent; `parent` is the budget that all usage counts against as well.
        """
        self._limits: dict[Limit, float] = {
            "model_calls": context.max_model_calls,
            "tool_calls": context.max_tool_calls,
            "tokens": context.max_tokens,
            "seconds": context.max_seconds,
            "usd": inf if context.max_cost is None else context.max_cost,
        }
        for name in self._limits.keys() & (limits or {}).keys():
            self._limits[name] = min(self._limits[name], (limits or {})[name])
        self._parent = parent
        self.tab = tab or UsageRecord()
        self._lock = self.tab.lock
        self._clock, self._started = clock, clock()
        self._held = CallMaximum()
        self._short: Limit | None = None
        self._used: dict[Limit, float] = dict.fromkeys(self._limits, 0)
        self._recalled: dict[str, float] = {}
        self._recalled_seconds: float | None = None  # the span of many branches takes its time
        self.span: Callable[[Mapping[str, float]], float] = lambda recalled: max(
            recalled.values(), default=0.0
        )
        self._last_turns: int | None = None
        self._take_over(spent or Spend())
        self._used["seconds"] = (spent or Spend()).get("seconds", 0.0)
        self._warned: set[Limit] = set()
        self.warn_near_limits()  # of what was used before, the run before has warned

    def reserve_model_call(self, most: CallMaximum = CallMaximum()) -> bool:  # noqa: B008 - a constant
        """Take one model call out of the budget, and hold `most` until `settle`; False at a limit.

        Used-up tool calls do not count: the model may still say what it found.
        """
        with self._lock:
            # A call that only the tab knows was lost in a crash: it blocks further model calls,
            # but not the tool calls that the last answer asked for.
            begun = max(self.tab.model_calls, self._used["model_calls"])
            limit = self._limits["model_calls"]
            if begun > limit:
                return False
            if short := self._find_short_limit(most):
                self._short = None if self.has_calls_under_way else short
                return False
            over = begun >= limit or self._find_reached_limit(
                "model_calls", "tokens", "seconds", "usd"
            )
            if over and not self._last_turns:
                return False
            if self._parent is not None and not self._parent.reserve_model_call(most):
                return False
            if over and self._last_turns:
                self._last_turns -= 1
            self._used["model_calls"] += 1
            self.tab.model_calls += 1
            self._hold(most, 1)
        return True

    def _find_short_limit(self, most: CallMaximum) -> Limit | None:
        """The limit that has less left than a call can take."""
        if most.tokens and most.tokens > self.compute_room("tokens"):
            return "tokens"
        return "usd" if most.usd and most.usd > self.compute_room("usd") + _PRECISE else None

    def compute_room(self, limit: Literal["tokens", "usd"]) -> float:
        """How much is left of a limit, less what calls under way hold."""
        with self._lock:
            known = self.tab.tokens if limit == "tokens" else self.tab.usd
            held = self._held.tokens if limit == "tokens" else self._held.usd
            left = self._limits[limit] - max(known, self._used[limit] + held)
        return left if self._parent is None else min(left, self._parent.compute_room(limit))

    def _hold(self, most: CallMaximum, sign: int) -> None:
        tokens, usd = sign * most.tokens, sign * most.usd
        self._held = CallMaximum(self._held.tokens + tokens, self._held.usd + usd)
        self.tab.tokens += tokens
        self.tab.usd += usd

    def mark_short(self, limit: Limit) -> None:
        """Count a limit as reached because less is left than a call takes."""
        self._short = self._short or limit

    @property
    def has_calls_under_way(self) -> bool:
        """Whether calls hold something that may come back."""
        above = self._parent is not None and self._parent.has_calls_under_way
        return self._held.tokens > 0 or above

    def settle(self, most: CallMaximum, spend: Spend) -> None:
        """Replace what a reserved model call holds by what it has taken."""
        with self._lock:
            self._hold(most, -1)
            self.add_tokens(spend)
            self.tab.tokens += _count_tokens(spend)
            self.tab.usd += spend.get("usd") or 0.0
        if self._parent is not None:
            self._parent.settle(most, spend)

    def reserve_tool_call(self) -> bool:
        """Take one tool call out of the budget; False where a limit is reached."""
        with self._lock:
            if self._find_reached_limit("tool_calls", "tokens", "seconds", "usd"):
                return False
            if self._parent is not None and not self._parent.reserve_tool_call():
                return False
            self._used["tool_calls"] += 1
            self.tab.tool_calls += 1
            return True

    async def pay_tool_call(self) -> bool:
        """Take one tool call, and wait until that is on record; False at a limit."""
        if not self.reserve_tool_call():
            return False
        await self.record_usage()
        return True

    async def record_usage(self) -> None:
        """Wait until the usage is on record, so that a crash does not refill the budget."""
        if self._parent is not None:
            await self._parent.record_usage()
            return
        parts: dict[str, float] = {
            n: limit // _LEASES for n, limit in self._limits.items() if limit < inf
        }
        await self.tab.record_ahead(parts | {"usd": self._limits["usd"] / _LEASES})

    @property
    def seconds_left(self) -> float:
        """Seconds until the time is used up."""
        mine = self._limits["seconds"] - self.usage["seconds"]
        return mine if self._parent is None else min(mine, self._parent.seconds_left)

    @property
    def calls_left(self) -> int:
        """How many tool calls there is room for."""
        mine = max(0, int(self._limits["tool_calls"] - self.usage["tool_calls"]))
        return mine if self._parent is None else min(mine, self._parent.calls_left)

    def add_tokens(self, spend: Spend) -> None:
        """Add what calls took; the calls themselves count since they were reserved."""
        with self._lock:
            self._used["tokens"] += _count_tokens(spend)
            self._used["usd"] += spend.get("usd") or 0.0

    def count_branch(self, branch: str, spend: Spend) -> None:
        """Count what a branch used before this budget began, by its saved state; once a branch."""
        with self._lock:
            if branch not in self._recalled:
                self._recalled[branch] = spend.get("seconds", 0.0)
                if self._recalled[branch]:
                    self._recalled_seconds = None
                self._take_over(spend)
        if self._parent is not None:
            self._parent.count_branch(branch, spend)

    def _take_over(self, spend: Spend) -> None:
        """Count all but the seconds: those of branches side by side would count twice."""
        self._used["model_calls"] += spend.get("model_calls", 0)
        self._used["tool_calls"] += spend.get("tool_calls", 0)
        self.add_tokens(spend)

    def grant_last_turn(self) -> None:
        """Grant one model call beyond the limits, once; a parent's limits hold."""
        with self._lock:
            if self._last_turns is None:
                self._last_turns = 1

    @property
    def usage(self) -> dict[Limit, float]:
        """What this user turn has used, with calls under way and the time before a resume."""
        with self._lock:
            passed = self.recalled_seconds + self._clock() - self._started
            return {**self._used, "seconds": self._used["seconds"] + passed}

    @property
    def recalled_seconds(self) -> float:
        """Active seconds of the branches before this budget began."""
        with self._lock:
            if self._recalled_seconds is None:
                self._recalled_seconds = self.span(self._recalled)
            return self._recalled_seconds

    @property
    def reached_limit(self) -> Limit | None:
        """The first limit that is reached; of tokens and dollars one more call must fit."""
        above = None if self._parent is None else self._parent.reached_limit
        return self._short or self._find_reached_limit(*self._limits) or above

    def warn_near_limits(self) -> list[dict[str, Any]]:
        """The events for limits that passed 80 % since the last look; not for an agent's own."""
        if self._parent is not None:
            return self._parent.warn_near_limits()
        with self._lock:
            used, limits = self.usage, self._limits
            new = [n for n in limits if n not in self._warned and used[n] >= _WARN_AT * limits[n]]
            self._warned.update(new)
        return [{"type": "budget", "limit": n, "used": used[n], "of": limits[n]} for n in new]

    def _find_reached_limit(self, *limits: Limit) -> Limit | None:
        used = self.usage
        calls = max(1, used["model_calls"])
        last = {name: used[name] / calls for name in ("tokens", "usd")}
        reached = {n: used[n] + last.get(n, 0) + _PRECISE for n in limits}
        return next((n for n in limits if reached[n] >= self._limits[n]), None)


def make_share(context: Context, spent: Spend, part: float, whole: Budget) -> Budget:
    """A part of what a turn has left, at least one call; it counts against the whole as well."""
    calls = context.max_model_calls - spent.get("model_calls", 0)
    limits: dict[str, float] = {
        "model_calls": max(1, int(part * calls)),
        "tool_calls": max(1, int(part * (context.max_tool_calls - spent.get("tool_calls", 0)))),
        "tokens": part * (context.max_tokens - _count_tokens(spent)),
        "seconds": part * (context.max_seconds - spent.get("seconds", 0.0)),
    }
    if context.max_cost is not None:
        limits["usd"] = part * (context.max_cost - (spent.get("usd") or 0.0))
    return Budget(context, limits=limits, parent=whole)


def _count_tokens(spend: Spend) -> int:
    return spend.get("input_tokens", 0) + spend.get("output_tokens", 0)


def get_limit_reason(limit: str | None) -> Reason:
    """The outcome's reason for a spent limit, a stop, or for a hook or a model that refused."""
    if limit in ("length", "stop"):
        return "ERROR" if limit == "length" else "ABORTED"
    if limit in ("hook", "model"):
        return "DENIED" if limit == "hook" else "MISSING_INFORMATION"
    return "TIMEOUT" if limit == "seconds" else "BUDGET"


def describe_missing_prices(spend: Spend, prices: object) -> str:
    """The models whose calls the turn's dollars leave out; "" if there are none."""
    answered = {k: one for k, one in spend.get("by_model", {}).items() if one.get("input_tokens")}
    unknown = sorted(name for name, one in answered.items() if "usd" not in one)
    if not (unknown and ("usd" in spend or prices)):
        return ""
    return (
        f"The price of {', '.join(unknown)} is not known, so spend.usd lacks those calls: give"
        " it by Context(prices=…)."
    )
