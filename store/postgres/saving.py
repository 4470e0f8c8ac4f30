"""The memory of a saver for PostgreSQL: writes that wait for their checkpoint, and thread rows.

A task's writes are saved with the checkpoint that follows them, in one transaction. Apart they take
twice the round trips and lease checks: the server's CPU is 2.1 instead of 1.5 times
`create_agent`'s in a turn of react (`benchmarks/postgres.py`; the goal is 1.7).

A thread's row has its status: an unfinished one can be resumed; one that asks needs an answer; an
ended one rests. Only steps of the thread's own graph end or begin a turn. A question counts when
its node has asked it. The row is written when the status changes, or when it is old.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from ...state.errors import LoopwrightError
from ..base import langgraph_keys as keys
from ..checkpoints.thread_head import ThreadHead

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


State = Literal["unfinished", "asks", "ended", "goes on"]

_TOLD: Final = (
    "INSERT INTO loopwright_threads (name, graph, state, status, updated)"
    " VALUES (%(name)s, %(graph)s, CASE WHEN %(state)s = 'goes on' THEN 'unfinished'"
    " ELSE %(state)s END, %(status)s, clock_timestamp())"
    " ON CONFLICT (name) DO UPDATE SET state = CASE WHEN %(state)s <> 'goes on' THEN %(state)s"
    " WHEN loopwright_threads.state IN ('', 'asks') THEN 'unfinished'"
    " ELSE loopwright_threads.state END,"
    " status = CASE WHEN %(tells)s THEN %(status)s ELSE loopwright_threads.status END,"
    " graph = CASE excluded.graph WHEN '' THEN loopwright_threads.graph ELSE excluded.graph END,"
    " updated = excluded.updated"
)
_OLD: Final = 10.0
"""Seconds until a row is written again although only its age would change."""

_KNOWN: Final = 20_000
"""Threads that are remembered; of others a row is told once more than need be."""

_OF_A_NODE: Final = 1


class StateChange(NamedTuple):
    """What this process knows of a thread since its last save.

    Attributes:
        state: "goes on": a pending question was answered; nothing else changed.
        status: Of its last outcome.
        tells: Whether `status` is known.
    """

    state: State
    status: str | None = None
    tells: bool = False

    def merge(self, after: "StateChange | None") -> "StateChange":
        """Both, one after the other."""
        if after is None or (after.state == "goes on" and self.state != "asks"):
            return self
        state: State = "unfinished" if after.state == "goes on" else after.state
        return after._replace(state=state) if after.tells else self._replace(state=state)


class StateTracker:
    """Follows the threads that one saver saves."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._asked: dict[str, tuple[int | None, str]] = {}

    def put(
        self, thread: str, place: str, checkpoint: Checkpoint, token: int | None
    ) -> StateChange | None:
        """A checkpoint is saved, under the lease with this token."""
        if place:
            return self._note_progress(thread, token)
        head = ThreadHead(CheckpointTuple(RunnableConfig(), checkpoint, {}))
        asker, step = self._asked.get(thread, (None, ""))
        if asker == token and str(checkpoint["id"]) <= step:
            # Checkpoints wait for those before them to be saved, what is written onto them not.
            return StateChange("asks", head.status, tells=True)
        self._asked.pop(thread, None)
        return StateChange(
            "unfinished" if head.find_next_nodes() else "ended", head.status, tells=True
        )

    def put_writes(
        self, onto: tuple[str, str, str], writes: Sequence[tuple[str, Any]], path: str,
        token: int | None,
    ) -> StateChange | None:  # fmt: skip
        """A task's writes are saved onto a checkpoint (thread, namespace, id), under this lease.

        `path` is LangGraph's `task_path`.
        """
        thread, place, step = onto
        channels = {channel for channel, _ in writes}
        if INTERRUPT in channels and not place and path.count("~") == _OF_A_NODE:
            self._asked[thread] = (token, step)
            return StateChange("asks")
        onto_itself = not path and RESUME not in channels
        if onto_itself or ERROR in channels:
            return None
        return self._note_progress(thread, token)

    def _note_progress(self, thread: str, token: int | None) -> StateChange | None:
        """What the run that asks had begun beside comes to rest; another run has an answer."""
        rests = thread in self._asked and self._asked[thread][0] == token
        return None if rests else StateChange("goes on")


@dataclass(slots=True)
class RowUpdate:
    """What becomes of one thread by what is saved together; `told`: its row is written."""

    token: int | None = None
    moved: StateChange | None = None
    graph: str = ""
    told: bool = False

    def add_change(self, after: StateChange | None) -> None:
        """What comes next."""
        self.moved = after if self.moved is None else self.moved.merge(after)


class _Known(NamedTuple):
    token: int | None
    state: str
    status: str | None
    at: float


class ThreadRows:
    """The rows of the threads that one saver saves; safe to use from several threads."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.standings = StateTracker()
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def build_statement(self, name: str, move: RowUpdate) -> tuple[str, Mapping[str, Any]] | None:
        """How its row is brought up to date; None where that can wait."""
        with self._lock:
            known = self._known.get(name)
        # Without a lease, or under another one, somebody else may have told the row meanwhile.
        if known is not None and (move.token is None or known.token != move.token):
            known = None
        if move.moved is None or (known is not None and not _differs(known, move.moved)):
            return None
        move.told = True
        return _TOLD, {"name": name, "graph": move.graph, **move.moved._asdict()}

    def mark_saved(self, name: str, move: RowUpdate) -> None:
        """All this has been saved."""
        if not move.told:
            return
        with self._lock:
            known = self._known.pop(name, None)
            if (state := _compute_state(known, move.moved)) is not None:
                status = known.status if known else None
                if move.moved is not None and move.moved.tells:
                    status = move.moved.status
                self._known[name] = _Known(move.token, state, status, time.monotonic())
            while len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]

    def forget(self, name: str) -> None:
        """Nothing is saved of it any more."""
        with self._lock:
            self._known.pop(name, None)


def _differs(known: _Known, moved: StateChange) -> bool:
    state = _compute_state(known, moved)
    # While a turn is unfinished the last outcome is told with whatever comes next.
    same = state == "unfinished" or not moved.tells or moved.status == known.status
    return state != known.state or not same or time.monotonic() - known.at > _OLD


def _compute_state(known: _Known | None, moved: StateChange | None) -> str | None:
    """The row's next status; None if it depends on the saved one."""
    if moved is not None and moved.state != "goes on":
        return moved.state
    if known is None:
        return None
    return "unfinished" if known.state == "asks" else known.state
