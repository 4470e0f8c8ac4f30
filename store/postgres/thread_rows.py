"""Where a thread stands, in one word, told by what is saved of it as it is saved: in its row.

A resume goes on with a turn that is unfinished; one that asks needs an answer; one that has ended
rests. Only steps of the thread's own graph end a turn or begin one. A question counts when its
node has asked it: until then nobody could answer, and whatever else the step does goes on. The row
is told when that changes, or has grown old.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from ..checkpoints.thread_head import ThreadHead

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
"""Seconds after which a row is told anew although nothing but its age would change."""

_KNOWN: Final = 20_000
"""Threads that are remembered; of others a row is told once more than need be."""

_OF_A_NODE: Final = 1


class StateChange(NamedTuple):
    """What is known of a thread since something was saved of it.

    Attributes:
        state: "goes on": it asks no more, if it did; whether it has ended stays as it was.
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
        """A task's writes are saved; `path` is LangGraph's `task_path`.

        Args:
            onto: Thread, namespace and id of the checkpoint.
            writes: By channel.
            path: Of the task.
            token: Of the lease.
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
    """What becomes of one thread by what is saved together.

    Attributes:
        token: Of the lease under which it is saved.
        moved: Where it stands now, as far as that is new.
        graph: What it belongs to, if that is said.
        told: Whether its row is told.
    """

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
    """What the row says after it; None where that depends on what it said before."""
    if moved is not None and moved.state != "goes on":
        return moved.state
    if known is None:
        return None
    return "unfinished" if known.state == "asks" else known.state
