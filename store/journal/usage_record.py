"""What a user turn has taken in all its runs, crashed ones included; kept ahead of every call."""

import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

COUNTED: Final = ("model_calls", "tool_calls", "tokens", "usd")


@dataclass(kw_only=True)
class UsageRecord:
    """What was taken, with the most that calls under way can take.

    What is on record is never less: `leased` is, and it runs ahead by a part of each limit, so that
    not every call waits for a database. A crash may cost that part, it gives nothing back.
    """

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    leased: dict[str, float] = field(default_factory=dict)
    sure: bool = False
    """Nobody else can have taken anything since this was read."""
    lock: Any = field(default_factory=threading.RLock)
    """Held by whoever takes: branches may run in several threads."""
    write: Callable[[Mapping[str, float]], Awaitable[None]] | None = None
    """Puts counts on record; None where nothing outlives the process."""

    @property
    def totals(self) -> dict[str, float]:
        """By name, what was taken."""
        return {name: getattr(self, name) for name in COUNTED}

    async def record_ahead(self, parts: Mapping[str, float]) -> None:
        """Have on record what is taken; `parts` says how far ahead."""
        if self.write is None:
            return
        taken = self.totals
        ahead = {n: count + parts[n] for n, count in taken.items() if parts[n] < inf}
        if any(taken[n] > self.leased.get(n, 0) for n in ahead):
            await self._record(ahead)

    async def settle(self) -> None:
        """Have on record what was taken and no more: nothing is under way."""
        taken = self.totals
        await self._record({n: taken[n] for n in self.leased if self.leased[n] != taken[n]})

    async def _record(self, counts: Mapping[str, float]) -> None:
        if self.write is not None and counts:
            await self.write(counts)
            self.leased |= counts  # not before: another branch must not begin on its strength
