"""What the row of a thread says of what is saved of it: told when it changes, or has grown old."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..threads.standing import STATE_SQL, STATUS_SQL, Moved, Standings

_TOLD: Final = (
    "INSERT INTO loopwright_threads (name, graph, state, status, updated, bytes)"
    " VALUES (%(name)s, %(graph)s, CASE WHEN %(state)s = 'goes on' THEN 'unfinished'"
    " ELSE %(state)s END, %(status)s, clock_timestamp(), %(bytes)s)"
    f" ON CONFLICT (name) DO UPDATE SET state = {STATE_SQL}, status = {STATUS_SQL},"
    " graph = CASE excluded.graph WHEN '' THEN loopwright_threads.graph ELSE excluded.graph END,"
    " updated = excluded.updated, bytes = loopwright_threads.bytes + excluded.bytes"
)
_OLD: Final = 10.0
"""Seconds after which a row is told anew although nothing but its age and size would change."""

_KNOWN: Final = 20_000
"""Threads that are remembered; of others a row is told once more than need be."""


@dataclass(slots=True)
class Move:
    """What becomes of one thread by what is saved together.

    Attributes:
        moved: Where it stands now, as far as that is new.
        token: Of the lease under which it is saved.
        graph: What it belongs to, if that is said.
        size: Bytes that are saved.
        told: Whether its row is told.
    """

    moved: Moved | None = None
    token: int | None = None
    graph: str = ""
    size: int = 0
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
        self._untold: dict[str, int] = {}
        self._lock = threading.Lock()

    def told(self, name: str, move: Move) -> tuple[str, Mapping[str, Any]] | None:
        """How its row is brought up to date; None where that can wait."""
        with self._lock:
            known, size = self._known.get(name), move.size + self._untold.get(name, 0)
        # Without a lease, or under another one, somebody else may have told the row meanwhile.
        if known is not None and (move.token is None or known.token != move.token):
            known = None
        if move.moved is None or (known is not None and not _differs(known, move.moved)):
            return None
        move.told = True
        return _TOLD, {"name": name, "graph": move.graph, "bytes": size, **move.moved._asdict()}

    def saved(self, moves: Mapping[str, Move]) -> None:
        """All this has been saved."""
        with self._lock:
            for name, move in moves.items():
                if not move.told:
                    self._untold[name] = self._untold.get(name, 0) + move.size
                    continue
                self._untold.pop(name, None)
                known = self._known.pop(name, None)
                if (state := _state(known, move.moved)) is not None:
                    status = known.status if known else None
                    if move.moved is not None and move.moved.tells:
                        status = move.moved.status
                    self._known[name] = _Known(move.token, state, status, time.monotonic())
            for kept in (self._known, self._untold):
                while len(kept) > _KNOWN:
                    del kept[next(iter(kept))]

    def forget(self, name: str) -> None:
        """Nothing is saved of it any more."""
        with self._lock:
            self._known.pop(name, None)
            self._untold.pop(name, None)


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
