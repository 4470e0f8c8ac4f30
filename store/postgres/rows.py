"""What the row of a thread says of what is saved of it: told when it changes, or has grown old."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..threads.standing import STATE_SQL, STATUS_SQL, Moved, Standings

_TOLD: Final = (
    "INSERT INTO loopwright_threads (name, graph, state, status, updated)"
    " VALUES (%(name)s, %(graph)s, CASE WHEN %(state)s = 'goes on' THEN 'unfinished'"
    " ELSE %(state)s END, %(status)s, clock_timestamp())"
    f" ON CONFLICT (name) DO UPDATE SET state = {STATE_SQL}, status = {STATUS_SQL},"
    " graph = CASE excluded.graph WHEN '' THEN loopwright_threads.graph ELSE excluded.graph END,"
    " updated = excluded.updated"
)
_OLD: Final = 10.0
"""Seconds after which a row is told anew although nothing but its age would change."""

_KNOWN: Final = 20_000
"""Threads that are remembered; of others a row is told once more than need be."""


@dataclass(slots=True)
class Move:
    """What becomes of one thread by what is saved together.

    Attributes:
        token: Of the lease under which it is saved.
        moved: Where it stands now, as far as that is new.
        graph: What it belongs to, if that is said.
        told: Whether its row is told.
    """

    token: int | None = None
    moved: Moved | None = None
    graph: str = ""
    told: bool = False

    def then(self, after: Moved | None) -> None:
        """What comes next."""
        self.moved = after if self.moved is None else self.moved.then(after)


class _Known(NamedTuple):
    token: int | None
    state: str
    status: str | None
    at: float


class ThreadRows:
    """The rows of the threads that one saver saves; safe to use from several threads."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.standings = Standings()
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def told(self, name: str, move: Move) -> tuple[str, Mapping[str, Any]] | None:
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

    def saved(self, name: str, move: Move) -> None:
        """All this has been saved."""
        if not move.told:
            return
        with self._lock:
            known = self._known.pop(name, None)
            if (state := _state(known, move.moved)) is not None:
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


def _differs(known: _Known, moved: Moved) -> bool:
    state = _state(known, moved)
    # While a turn is unfinished the last outcome is told with whatever comes next.
    same = state == "unfinished" or not moved.tells or moved.status == known.status
    return state != known.state or not same or time.monotonic() - known.at > _OLD


def _state(known: _Known | None, moved: Moved | None) -> str | None:
    """What the row says after it; None where that depends on what it said before."""
    if moved is not None and moved.state != "goes on":
        return moved.state
    if known is None:
        return None
    return "unfinished" if known.state == "asks" else known.state
