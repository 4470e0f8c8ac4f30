"""Requests to a running thread: a pause by its caller, and stop or steer from elsewhere.

A pause (LangGraph's drain) leaves the turn open for a resume. A stop or a steer ends or changes the
turn itself. It is saved before the run hears of it, so it survives a crash.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any, Final, Literal

from langchain_core.messages import BaseMessage
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl, get_runtime

from ...state.errors import DatabaseError, LeaseLost
from ...state.outcome import Spend, add_spend

Kind = Literal["stop", "steer"]
Look = Callable[[], Awaitable[Kind | None]]

_EVERY: Final = 0.4
"""Seconds between two looks for wishes of other processes; those of this one ring."""

_LOOKS: Final = 0.05
"""Seconds between two looks whether a run goes on while a model is waited for."""


class Control(RunControl):
    """The control of one run; safe to use from any thread."""

    __slots__ = ("_caller", "_look", "_next", "_wish", "lost", "said", "spent")

    def __init__(self, caller: RunControl | None = None, look: Look | None = None) -> None:
        """Heed the caller's control, and whatever `look` finds."""
        super().__init__()
        self._caller, self._look = caller, look
        self._wish: Kind | None = None
        self._next = time.monotonic() + _EVERY
        self.lost: LeaseLost | None = None
        """Why the run may write nothing more, once its thread is another's."""
        self.said, self.spent = list[BaseMessage](), Spend()
        """What came of model calls that the end of the run has cut."""

    @property
    def is_paused(self) -> bool:
        """Whether the run is to rest, so that it can be resumed where it was."""
        caller = self._caller
        return self._drain_reason is not None or (caller is not None and caller.drain_requested)

    @property
    def wish(self) -> Kind | None:
        """What is wished of the run, as far as it knows."""
        return self._wish

    async def poll(self) -> None:
        """Look for wishes of other processes, unless that was done just now."""
        if self._wish is None and self._look is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            with suppress(DatabaseError):  # told by the next statement
                if found := await self._look():
                    self.notify(found)

    def notify(self, kind: Kind) -> None:
        """Say that something is wished; a stop is the stronger wish."""
        if self._wish != "stop":
            self._wish = kind

    @property
    def drain_requested(self) -> bool:
        """Whether no further node may start: a pause, a stop, or another holds the thread."""
        return self.wish == "stop" or self.is_paused or self.lost is not None

    @property
    def drain_reason(self) -> str | None:
        """Why."""
        if self._caller is not None and self._caller.drain_requested:
            return self._caller.drain_reason
        return self._drain_reason or self._wish or ("lost" if self.lost else None)


class InnerControl(RunControl):
    """For a graph inside a run that ends itself where the turn is stopped, and rests in a pause."""

    __slots__ = ("around",)

    def __init__(self, around: RunControl) -> None:
        """Heed the control of the run around it."""
        super().__init__()
        self.around = around

    @property
    def drain_requested(self) -> bool:
        """Whether it rests: by itself, or as the run around it."""
        around = self.around
        pauses = around.is_paused if isinstance(around, Control) else around.drain_requested
        return self._drain_reason is not None or pauses

    @property
    def drain_reason(self) -> str | None:
        """Why."""
        return self._drain_reason or self.around.drain_reason


def get_wish(control: RunControl | None) -> Kind | None:
    """What is wished of the run that this controls, as far as it knows."""
    control = _find_outermost(control)
    return control.wish if isinstance(control, Control) else None


async def poll_wish(control: RunControl | None) -> Kind | None:
    """What is wished of the run that this controls, at a border of it."""
    control = _find_outermost(control)
    if isinstance(control, Control):
        await control.poll()
    return get_wish(control)


def is_ending(control: RunControl | None) -> bool:
    """Whether the run that this controls is stopped or paused, or has lost its thread."""
    control = _find_outermost(control)
    return control is not None and control.drain_requested


def keep_cut(control: RunControl | None, spent: Spend, said: Sequence[BaseMessage] = ()) -> None:
    """Leave what came of a model call that is cut to whoever ends the run."""
    control = _find_outermost(control)
    if isinstance(control, Control):
        control.said += said
        control.spent = add_spend(control.spent, spent)


@asynccontextmanager
async def cut_with_run(control: RunControl | None, until: float) -> AsyncIterator[asyncio.Timeout]:
    """A block that is cut, by TimeoutError, once its run is to end or at a time of its loop."""

    async def watch() -> None:
        while not is_ending(control):
            await asyncio.sleep(_LOOKS)
            await poll_wish(control)
        if not timeout.expired():
            timeout.reschedule(0)

    async with asyncio.timeout_at(until) as timeout:
        watching = asyncio.ensure_future(watch())
        try:
            yield timeout
        finally:
            watching.cancel()


def _find_outermost(control: RunControl | None) -> RunControl | None:
    while isinstance(control, InnerControl):
        control = control.around
    return control


def stop_at_wish(action: Callable[..., Any]) -> Callable[..., Any]:
    """A node at a border of the turn: it does not begin where that is to be stopped or steered."""

    @wraps(action)
    async def run_unless_wished(*args: Any, **kwargs: Any) -> Any:
        if wish := await poll_wish(get_runtime().control):
            raise GraphDrained(wish)
        return await action(*args, **kwargs)

    return run_unless_wished
