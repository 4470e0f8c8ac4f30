"""What a process knows of a thread that it holds without asking: nobody else could save there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...text.canonical import storable
from ..journal.port import Fence


@dataclass
class _Newest:
    """The newest checkpoint of a thread's own graph, if this lease's holder has made it."""

    token: int
    step: str
    inside: set[str] = field(default_factory=set)
    """Namespaces in which something was saved since."""


class _Head(NamedTuple):
    token: int
    rows: Sequence[Any]


class News:
    """Of the threads that one saver saves. Safe to use from several threads."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._newest: dict[str, _Newest] = {}
        self._heads: dict[str, _Head] = {}
        self._saves: dict[str, int] = {}

    def saved(self, thread: str, space: str, fence: Fence | None, step: str = "") -> None:
        """Something is about to be saved; a checkpoint, where `step` names it."""
        known = self._newest.get(thread)
        self.changed(thread)
        if fence is None:
            self.forget(thread)
        elif step and not space and (known is None or known.step != step):
            self._newest[thread] = _Newest(fence.token, step)
        elif known is not None:
            known.inside.add(space)

    def nothing_at(
        self, given: Mapping[str, Any], holds: Callable[[str, str], Fence | None]
    ) -> bool:
        """Whether nothing can be saved where a graph begins: its task is of a step made here."""
        thread, space = storable(str(given.get("thread_id"))), str(given.get("checkpoint_ns"))
        known = self._newest.get(thread)
        of_a_task = ":" in space  # one without its id goes through all steps of the thread
        if known is None or not of_a_task or given.get("checkpoint_id"):
            return False
        fence = holds(thread, space)
        mine = fence is not None and fence.token == known.token
        around = (given.get("checkpoint_map") or {}).get("")
        return mine and around == known.step and space not in known.inside

    def changed(self, thread: str) -> None:
        """What was read of a thread holds no more."""
        if thread in self._saves:
            self._saves[thread] += 1
        self._heads.pop(thread, None)

    def once(
        self, thread: str, fence: Fence | None, read: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        """The rows of where a thread stands, read once as long as nothing is saved there."""
        if fence is None:
            return read()
        known, saves = self._heads.get(thread), self._saves.setdefault(thread, 0)
        if known is not None and known.token == fence.token:
            return known.rows
        rows = read()
        if rows and self._saves.get(thread) == saves:
            self._heads[thread] = _Head(fence.token, rows)
        return rows

    def is_whole(self, thread: str, fence: Fence | None) -> bool:
        """Whether it is known that a thread goes back to its first step."""
        known = self._heads.get(thread)
        if fence is None or known is None or known.token != fence.token:
            return False
        return all(row["root"] is None for row in known.rows)

    def forget(self, thread: str) -> None:
        """Others may save there from now on."""
        for known in (self._newest, self._heads, self._saves):
            known.pop(thread, None)
