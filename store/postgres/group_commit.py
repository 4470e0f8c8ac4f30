"""What a task wrote is saved with the checkpoint that comes of it, in one transaction.

Apart they take twice the round trips and looks at the lease: the server's CPU is 2.1 instead of 1.5
times `create_agent`'s in a turn of react (`benchmarks/postgres.py`; the goal is 1.7).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import WRITES_IDX_MAP

from ...state.errors import LoopwrightError
from ..base import langgraph_keys as keys

_PATIENCE: Final = 0.02
"""Seconds until they are saved alone: another task of the step may take minutes."""

_AGAIN: Final = 1.0
"""Seconds until what could not be saved is tried again."""

_IDLE: Final = 5.0
"""Seconds after which the thread that looks for them ends."""

Place = tuple[str, str, str]
"""Thread, namespace and id of a checkpoint."""


class TaskWrites(NamedTuple):
    """What a task wrote onto a checkpoint."""

    writes: Sequence[tuple[str, Any]]
    task: str
    path: str

    @property
    def can_wait(self) -> bool:
        """Not a question, an error, what a durable task returned, or an update beside a step."""
        names = {channel for channel, _ in self.writes}
        return self.task != keys.NULL_TASK and names.isdisjoint({*WRITES_IDX_MAP, keys.RETURN})


class _WaitingWrites:
    def __init__(self) -> None:
        self.due, self.lock = 0.0, threading.Lock()
        self.writes: list[TaskWrites] = []


class GroupCommit:
    """Writes that wait for the checkpoint that comes of them; safe to use from several threads."""

    def __init__(self, save: Callable[[Place, Sequence[TaskWrites]], object]) -> None:
        """Those for which none comes in time are saved by this."""
        self._save, self._steps = save, dict[Place, _WaitingWrites]()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, onto: Place, writes: TaskWrites) -> None:
        """Have them saved soon."""
        with self._changed:
            step = self._steps.setdefault(onto, _WaitingWrites())
            step.writes.append(writes)
            step.due = time.monotonic() + _PATIENCE
            if self._thread is None or not self._thread.is_alive():  # as after a fork
                self._thread = threading.Thread(
                    target=self._run_flusher, name="loopwright saver", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    @contextmanager
    def take_waiting(self, onto: Place) -> Iterator[Sequence[TaskWrites]]:
        """What waits, for a transaction that saves it; it waits on where that fails."""
        step = self._steps.get(onto)
        if step is None:
            yield ()
            return
        with step.lock:
            writes = [*step.writes]
            yield writes
            with self._changed:
                del step.writes[: len(writes)]
                if not step.writes:
                    self._steps.pop(onto, None)

    def flush(self, thread: str | None = None) -> None:
        """Save what waits of a thread, or of all."""
        for onto in tuple(self._steps):
            if thread in (onto[0], None):
                self._flush_step(onto)

    def drop(self, thread: str) -> None:
        """Save what waits of a thread, or have it wait no more."""
        with suppress(LoopwrightError):
            self.flush(thread)
        with self._changed:
            for onto in [onto for onto in self._steps if onto[0] == thread]:
                del self._steps[onto]

    def _flush_step(self, onto: Place) -> None:
        with self.take_waiting(onto) as writes:
            if writes:
                self._save(onto, writes)

    def _run_flusher(self) -> None:
        while True:
            with self._changed:
                if not self._steps and not self._changed.wait(_IDLE):
                    self._thread = None
                    return
                now = time.monotonic()
                late = [onto for onto, step in self._steps.items() if step.due <= now]
                if not late:
                    first = min((step.due for step in self._steps.values()), default=now)
                    self._changed.wait(first - now)
                for onto in late:
                    self._steps[onto].due = now + _AGAIN
            for onto in late:
                with suppress(LoopwrightError):  # told to whoever saves the checkpoint
                    self._flush_step(onto)
