"""The hooks at the two ends of a run: SessionStart and SessionEnd."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from ..state.session import OpenSession, Session
from .registry import Hooks


def sessions(hooks: Hooks) -> OpenSession | None:
    """What is put around every run of a graph; None where no hook wants to know of it."""
    if hooks.listens("SessionStart") or hooks.listens("SessionEnd"):
        return partial(_session, hooks)
    return None


@asynccontextmanager
async def _session(hooks: Hooks, thread: str, source: str) -> AsyncIterator[Session]:
    """Tell of the start, and of the end however it comes: `exit`, or `other` after an error."""
    started = await hooks.fire("SessionStart", thread=thread, source=source)
    reason = "other"
    try:
        yield Session(started.context, started.warnings)
        reason = "exit"
    finally:
        await hooks.fire("SessionEnd", thread=thread, reason=reason)
