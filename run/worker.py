"""A worker: takes turns from the queue and runs them, until it is told to leave.

It keeps nothing that another worker would need. What it holds is free again when it dies, and
whoever takes a turn then finds in the thread how far it came.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from ..state.errors import (
    AnswerRejected,
    DatabaseError,
    LoopwrightError,
    ModelUnavailable,
    SettingsError,
    ThreadBusy,
    ThreadError,
    ToolServerError,
)
from ..store.base.worker_threads import run_in_worker
from ..store.threads.thread_list import GRAPH_KEY
from ..store.threads.turns import Turn, TurnQueue
from ..stream.meters import AGENT, TAKEN, measure
from .graph import LoopGraph
from .queued_input import NothingToRun, QueuedInput, awaits_only_desk

log = logging.getLogger(__name__)

Report = Callable[[str, Turn | None, str], None]
"""Takes what happened, to which turn, and why."""

_RESERVED: Final = 5.0
"""Seconds from the moment a turn is taken within which its thread is held."""

_IDLE: Final = 1.0
"""Seconds between two looks into an empty queue."""

_BUSY: Final = 1.0
"""Seconds until a turn is looked at again whose thread another run holds."""

_ASKS: Final = 10.0
"""Seconds until a thread that asks is looked at again, where no row tells that it has gone on."""

_PAUSES: Final = (1.0, 300.0)
"""Seconds until a turn that failed is tried again: at first, doubled each time, and at most."""

_DEADLY: Final = 20
"""Attempts in a row, the last of which ended its worker, after which a turn is set aside."""

_ADOPTS: Final = 5.0
"""Seconds between two looks for threads whose run has vanished, and that nobody enqueued."""

_KEPT: Final = 7 * 86_400.0
"""Seconds for which a turn that has ended is known by its id."""

_SWEEPS: Final = 3_600.0

_NEVER: Final = (SettingsError, AnswerRejected, ThreadError)
_AWAY: Final = (DatabaseError, ModelUnavailable, ToolServerError)
"""What fails because of something that comes back; it is among the settings' errors."""


@dataclass
class Worker:
    """One worker, for graphs of one database; `report` is told what happens."""

    graphs: Mapping[str, LoopGraph[Any, Any, Any, Any]]
    turns: TurnQueue
    concurrency: int = 8
    report: Report = lambda *_: None
    _running: dict["asyncio.Task[None]", RunControl] = field(default_factory=dict)
    _leaving: asyncio.Event = field(default_factory=asyncio.Event)
    _next: dict[str, float] = field(default_factory=dict)

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to leave."""
        return self._leaving.is_set()

    def leave(self) -> None:
        """Take nothing more; what runs rests at its next border. For the worker's own loop."""
        self._leaving.set()
        for control in self._running.values():
            control.request_drain("the worker leaves")

    async def work(self) -> None:
        """Run turns until it leaves and what it runs has come to rest."""
        away = 0
        while not self._leaving.is_set():
            try:
                taken = await self._take_turns()
                away = 0
            except DatabaseError as error:
                taken, away = [], away + 1
                self.report("away", None, str(error))
            for turn in taken:
                self._start(turn)
            if not taken or len(self._running) >= self.concurrency:
                await self._wait(_retry_delay(away) if away else _IDLE)
        while self._running:
            await asyncio.wait(self._running)

    async def _take_turns(self) -> list[Turn]:
        room = self.concurrency - len(self._running)
        if room <= 0:
            return []
        names = [*self.graphs]
        if self._is_time("adopts", _ADOPTS):
            await run_in_worker(self.turns, self.turns.adopt, names)
        if self._is_time("sweeps", _SWEEPS):
            await run_in_worker(self.turns, self.turns.sweep, _KEPT)
        return await run_in_worker(self.turns, self.turns.take, names, room, _RESERVED)

    def _is_time(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._next.get(what, 0.0):
            return False
        self._next[what] = now + every
        return True

    async def _wait(self, seconds: float) -> None:
        """Until a turn has ended, the worker is to leave, or, where there is room, so long."""
        full = len(self._running) >= self.concurrency
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait(
                [leaving, *self._running],
                timeout=None if full else seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            leaving.cancel()

    def _start(self, turn: Turn) -> None:
        control = RunControl()
        task = asyncio.create_task(self._attempt(turn, control))
        self._running[task] = control
        task.add_done_callback(lambda done: self._running.pop(done, None))

    async def _attempt(self, turn: Turn, control: RunControl) -> None:
        due = QueuedInput(turn, self.turns)
        try:
            await self._run(due, control)
        except DatabaseError as error:  # nothing can be recorded: it is taken again by itself
            self.report("failed", due.turn, str(error))
        except Exception:
            log.exception("The worker could not end the turn %r of %r", turn.id, turn.thread)
            self.report("failed", due.turn, "see the log")

    async def _run(self, due: QueuedInput, control: RunControl) -> None:
        """Run it once, and record what came of it."""
        turn = due.turn
        if turn.tries >= _DEADLY and not turn.why:
            why = f"It was begun {turn.tries} times, and ended its worker each time."
            await self._set_aside(turn, why)
            return
        measure(TAKEN, 1, {AGENT: turn.graph})
        anew = "tried again" if turn.why else "taken over"
        self.report(anew if turn.was_dropped else "taken", turn, "")
        try:
            values = await self.graphs[turn.graph].ainvoke(
                due, _make_config(turn), context=turn.body.get("context"), control=control
            )
        except NothingToRun as over:
            await self._record_over(due, over)
        except GraphDrained:
            await self._postpone(due, "paused", 0.0)
        except ThreadBusy as error:
            await self._postpone(due, "busy", _BUSY, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the turn must not be lost
            await self._record_failure(due, error)
        else:
            await self._record_end(due, control, values)

    async def _record_end(self, due: QueuedInput, control: RunControl, values: Any) -> None:
        told = values if isinstance(values, Mapping) else {}
        asked = [*told.get(INTERRUPT, ())]
        if control.drain_requested or not due.ours:  # the thread itself tells how far it is
            await self._postpone(due, "paused" if due.ours else "went on", 0.0)
        elif asked and not awaits_only_desk(asked) and due.turn.kind == "message":
            await self._postpone(due, "asks", _ASKS)
        else:
            await self._end_turn(due.turn, None if asked else told.get("outcome"))

    async def _record_over(self, due: QueuedInput, over: NothingToRun) -> None:
        if over.asks and due.turn.kind == "message":
            await self._postpone(due, "asks", _ASKS)
        elif not over.gone:
            await self._end_turn(due.turn, over.outcome)

    async def _record_failure(self, due: QueuedInput, error: Exception) -> None:
        told = isinstance(error, LoopwrightError)
        why = str(error) if told else f"{type(error).__name__}: {error}"
        if isinstance(error, _NEVER) and not isinstance(error, _AWAY):
            await self._set_aside(due.turn, why)
            return
        if not told:
            log.error("The turn %r of %r failed", due.turn.id, due.turn.thread, exc_info=error)
        await self._postpone(due, "failed", _retry_delay(due.turn.tries), why)

    async def _postpone(self, due: QueuedInput, what: str, seconds: float, why: str = "") -> None:
        asks, failed = what == "asks", what == "failed"
        told = why if failed else ""
        await run_in_worker(
            self.turns, self.turns.postpone, due.turn, seconds, told, asks=asks, failed=failed
        )
        self.report(what, due.turn, why)

    async def _end_turn(self, turn: Turn, outcome: Mapping[str, Any] | None) -> None:
        await run_in_worker(self.turns, self.turns.end, turn, "ended", outcome=outcome)
        self.report("ended", turn, str((outcome or {}).get("status", "")))

    async def _set_aside(self, turn: Turn, why: str) -> None:
        await run_in_worker(self.turns, self.turns.end, turn, "aside", why)
        self.report("set aside", turn, why)


def _retry_delay(tries: int) -> float:
    first, most = _PAUSES
    return min(first * 2.0 ** min(tries - 1, 30), most)


def _make_config(turn: Turn) -> RunnableConfig:
    """The config it was enqueued with; what is saved tells of which graph it is."""
    given = dict(turn.body.get("config") or {})
    given.setdefault("configurable", {"thread_id": turn.thread})
    told = {**given.get("metadata", {}), GRAPH_KEY: turn.graph}
    return RunnableConfig(**{**given, "metadata": told})  # type: ignore[typeddict-item]
