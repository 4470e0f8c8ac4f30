"""The run's ledger: one for all parallel branches, begun from what state says was spent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..models.spend import Ledger
from ..state.context import Context
from ..state.outcome import Reason
from ..state.spend import Spend, add_spend

_SHARED: ContextVar[Ledger | None] = ContextVar("loopwright_ledger", default=None)


def ledger_for(context: Context, spent: Spend, *, branch: str = "") -> Ledger:
    """The ledger of the surrounding run, or a new one for a node that runs on its own.

    Args:
        context: Holds the limits.
        spent: What state says was used; of a named branch its own part, which a resume
            continues and the surrounding run has not heard of.
        branch: The task whose state that is.
    """
    shared = _SHARED.get()
    if shared is None:
        return Ledger(context, spent)
    shared.recall(branch, spent)
    return shared


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
