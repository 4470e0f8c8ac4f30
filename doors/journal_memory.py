"""The journal of a graph that was given none: it lasts as long as the process."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from ..state.errors import ThreadBusy
from ..state.journal import Change, Fence, Row

T = TypeVar("T")

_KEPT: Final = 10_000
"""Closed rows of a thread; a process that lives long must not grow with every call it makes."""

OVERTAKEN: Final = (
    "Another run has locked the thread {name!r} since this one began: it stops before it changes"
    " anything more. Resume the thread when that run has ended."
)


class MemoryJournal:
    """See `state.journal.Journal`."""

    durable = False

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, Row]] = defaultdict(dict)
        self._grants: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._calls: dict[str, dict[str, int]] = defaultdict(dict)
        self._fences: dict[str, int] = defaultdict(int)

    def rows(self, thread: str, names: Collection[str] = ()) -> list[Row]:
        """See Journal."""
        with self._lock:
            return self._open(thread, names)

    def transact(
        self,
        thread: str,
        work: Callable[[Sequence[Row]], tuple[T, Change]],
        *,
        names: Collection[str] = (),
        fence: Fence | None = None,
    ) -> T:
        """See Journal."""
        with self._lock:
            if fence and self._fences[fence.name] != fence.token:
                raise ThreadBusy(OVERTAKEN.format(name=fence.name))
            result, change = work(self._open(thread, names))
            held = self._rows[thread]
            held.update({row.name: row for row in change.save})
            for name in change.drop:
                held.pop(name, None)
            if len(held) > _KEPT:
                closed = [row.name for row in held.values() if row.state == "closed"]
                for name in closed[: len(held) - _KEPT]:
                    del held[name]
            return result

    def _open(self, thread: str, names: Collection[str]) -> list[Row]:
        held = self._rows.get(thread, {}).values()
        return [row for row in held if row.state != "closed" or row.name in names]

    def raise_fence(self, name: str) -> Fence:
        """See Journal."""
        with self._lock:
            self._fences[name] += 1
            return Fence(name, self._fences[name])

    def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """See Journal."""
        with self._lock:
            if dict(grant) not in self._grants[thread]:
                self._grants[thread].append(dict(grant))

    def grants(self, thread: str) -> list[dict[str, Any]]:
        """See Journal."""
        with self._lock:
            return list(self._grants.get(thread, ()))

    def model_calls(self, thread: str, turn: str, *, add: int = 0, at_least: int = 0) -> int:
        """See Journal."""
        with self._lock:
            calls = self._calls[thread]
            calls[turn] = calls.get(turn, at_least) + add
            return calls[turn]

    def forget(self, thread: str) -> None:
        """See Journal."""
        with self._lock:
            for kept in (self._rows, self._grants, self._calls):
                kept.pop(thread, None)

    def close(self) -> None:
        """There is nothing to close."""
