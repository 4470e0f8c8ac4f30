"""A worker: runs the turns of the queue until it is stopped.

It keeps nothing that another worker would need. If it dies, its threads become free, and the next
worker finds in the thread how far a turn came.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl

from ..state.errors import (
    AnswerRejected,
    DatabaseError,
    LoopwrightError,
    ModelUnavailable,
    SettingsError,
    ThreadError,
    ToolServerError,
)
from ..store.base.worker_threads import run_in_worker
from ..store.work.delivery import Delivery
from ..store.work.turns import Turn
from ..stream.meters import AGENT, TAKEN, measure
from .graph import LoopGraph
from .take import Taken

log = logging.getLogger(__name__)

Report = Callable[[str, Turn | None, str], None]
"""Takes what happened, to which turn, and why."""

_IDLE: Final = 1.0
"""Seconds between two looks into an empty queue: turns become due of which nobody tells."""

_PAUSES: Final = (1.0, 300.0)
"""Seconds until a turn that failed is tried again: at first, doubled each time, and at most."""

_NEVER: Final = (SettingsError, AnswerRejected, ThreadError)
_AWAY: Final = (DatabaseError, ModelUnavailable, ToolServerError)
"""What fails because of something that comes back; it is among the settings' errors."""


@dataclass
class Worker:
    """One worker, for graphs of one database; `report` is told what happens."""

    graphs: Mapping[str, LoopGraph[Any, Any, Any, Any]]
    delivery: Delivery
    concurrency: int = 8
    report: Report = lambda *_: None
    _running: dict["asyncio.Task[None]", RunControl] = field(default_factory=dict)
    _leaving: asyncio.Event = field(default_factory=asyncio.Event)
    _mended: float = 0.0

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to leave."""
        return self._leaving.is_set()

    def leave(self) -> None:
        """Take nothing more; what runs rests at its next border. For the worker's own loop."""
        self._leaving.set()
        self.delivery.arrived.set()
        for control in self._running.values():
            control.request_drain("the worker leaves")

    async def work(self) -> None:
        """Run turns until it leaves and what it runs has come to rest."""
        listening = asyncio.create_task(
            self.delivery.listen(lambda told: self.report("polls", None, told))
        )
        try:
            await self._take_turns()
            while self._running:
                await asyncio.wait(self._running)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            await self.delivery.leave()

    async def _take_turns(self) -> None:
        while not self._leaving.is_set():
            self.delivery.arrived.clear()
            turn, pause = None, _IDLE
            try:
                await self._mend_in_time()
                if len(self._running) < self.concurrency:
                    turn = await self.delivery.fetch()
            except DatabaseError as error:
                pause = self.delivery.repairs_every
                self.report("away", None, str(error))
            if turn is not None:
                self._start(turn)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.delivery.arrived.wait(), pause)

    async def _mend_in_time(self) -> None:
        if (now := time.monotonic()) >= self._mended + self.delivery.repairs_every:
            self._mended = now
            await self.delivery.repair()

    def _start(self, turn: Turn) -> None:
        control = RunControl()
        task = asyncio.create_task(self._attempt(turn, control))
        self._running[task] = control
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        self.delivery.arrived.set()  # the next one of its thread may run

    async def _attempt(self, turn: Turn, control: RunControl) -> None:
        try:
            if turn.at is not None:
                await self.delivery.release(turn)
            else:
                await self._run(turn, control)
        except DatabaseError as error:  # nothing can be told: it is given out again by itself
            self.report("failed", turn, str(error))
        except Exception:
            log.exception("The worker could not end the turn %r of %r", turn.id, turn.thread)
            self.report("failed", turn, "see the log")
        finally:
            self.delivery.held.discard(turn.job or 0)

    async def _run(self, turn: Turn, control: RunControl) -> None:
        """Take it, and tell the queue what came of it."""
        measure(TAKEN, 1, {AGENT: turn.graph})
        self.report("taken again" if turn.tries else "taken", turn, "")
        told = {key: turn.body.get(key) for key in ("context", "answered_by")}
        options = {**told, "control": control}
        config = RunnableConfig(
            **{"configurable": {"thread_id": turn.thread}, **turn.body.get("config", {})}  # type: ignore[typeddict-item]
        )
        try:
            taken = await self.graphs[turn.graph].take_turn(config, turn, options)
        except Exception as error:  # noqa: BLE001 - whatever it is, the turn must not be lost
            await self._tell_failure(turn, error)
        else:
            await self._tell(turn, taken)

    async def _tell(self, turn: Turn, taken: Taken) -> None:
        if taken.state == "ended":
            await self.delivery.finish(turn)
            if turn.kind == "answer":
                await run_in_worker(self.delivery.queue, self.delivery.queue.wake, turn.thread)
            self.report("ended", turn, str((taken.outcome or {}).get("status", "")))
        elif taken.state == "asks":
            await self.delivery.put_back(turn, None)
            self.report("asks", turn, "")
        else:
            await self.delivery.put_back(turn, taken.after)
            self.report("busy" if taken.after else "paused", turn, taken.why if taken.after else "")

    async def _tell_failure(self, turn: Turn, error: Exception) -> None:
        told = isinstance(error, LoopwrightError)
        why = str(error) if told else f"{type(error).__name__}: {error}"
        if isinstance(error, _NEVER) and not isinstance(error, _AWAY):
            await self.delivery.set_aside(turn, why)
            self.report("set aside", turn, why)
            return
        if not told:
            log.error("The turn %r of %r failed", turn.id, turn.thread, exc_info=error)
        await self.delivery.put_back(turn, _retry_delay(turn.tries + 1))
        self.report("failed", turn, why)


def _retry_delay(tries: int) -> float:
    first, most = _PAUSES
    return min(first * 2.0 ** min(tries - 1, 30), most)
