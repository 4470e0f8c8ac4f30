"""The run's ledger: one for all parallel branches, begun from what state says was spent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Protocol

from ..doors.journal import Journal
from ..state.context import Context
from ..state.outcome import Reason
from ..state.spend import Spend, add_spend
from .budget import Ledger
from .scope import thread_id

_SHARED: ContextVar[Ledger | None] = ContextVar("loopwright_ledger", default=None)


class _Spender(Protocol):
    """A state that says what its turn has used."""

    @property
    def spend(self) -> Spend: ...
    @property
    def turn_id(self) -> str: ...


async def ledger_for(
    context: Context, state: _Spender, journal: Journal, *, branch: str = ""
) -> Ledger:
    """The ledger of the surrounding run, or a new one for a node that runs on its own.

    Args:
        context: Holds the limits.
        state: Says what was used; of a named branch its own part, which a resume continues and
            the surrounding run has not heard of.
        journal: Where it outlives the process, knows calls that a crash kept from the state.
        branch: The task whose state that is.
    """
    shared = _SHARED.get()
    if shared is not None:
        shared.recall(branch, state.spend)
        return shared
    thread, turn = thread_id(), state.turn_id
    if not (journal.durable and thread and turn):
        return Ledger(context, state.spend)
    counted = state.spend.get("model_calls", 0)
    begun = await journal.model_calls(thread, turn, at_least=counted)
    count = partial(journal.count_model_call, thread, turn)
    return Ledger(context, state.spend, begun=begun, count=count)


@contextmanager
def sharing(ledger: Ledger) -> Iterator[None]:
    """Let every branch called inside draw on this ledger."""
    token = _SHARED.set(ledger)
    try:
        yield
    finally:
        _SHARED.reset(token)


def spent_since(began: float, spend: Spend) -> Spend:
    """A node's spend with its active seconds; `began` is a reading of `time.monotonic`."""
    return add_spend(spend, Spend(seconds=round(time.monotonic() - began, 3)))


def limit_reason(limit: str | None) -> Reason:
    """The outcome's reason for a spent limit, or for a hook that refused."""
    if limit == "hook":
        return "DENIED"
    return "TIMEOUT" if limit == "seconds" else "BUDGET"
