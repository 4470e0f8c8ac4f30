"""The processes of MCP servers: limits their number.

If the limit is reached, a server ends an idle process. If none is idle, the oldest takes no new
calls and ends after its running ones. A call never keeps one process while it waits for another, so
there is no deadlock.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...state.errors import SettingsError, read_variable

if TYPE_CHECKING:
    from .session import Connection

VARIABLE: Final = "LOOPWRIGHT_MCP_PROCESSES"
_EACH: Final = 80 * 1024**2
"""Bytes of a server's process; in Python or Node it takes 50 to 90 MB."""
_SHARE: Final = 4
"""Servers may take one part in so many of the memory."""
_FEWEST, _MOST = 4, 128


class ProcessLimit:
    """The server processes of this program; used only on the background loop.

    Attributes:
        most: How many there may be.
    """

    def __init__(self) -> None:
        """There is none yet."""
        self.most = _FEWEST
        self._running: dict[Connection, None] = {}
        self._queue: dict[Connection, asyncio.Event] = {}

    def read(self, environ: Mapping[str, str]) -> None:
        """Set the limit: the operator's, else by the memory of the machine.

        Raises:
            SettingsError: The operator's limit is no number above 0.
        """
        limit = read_variable(environ, "LOOPWRIGHT_MCP_PROCESSES")
        if limit is not None and not (limit.isdecimal() and int(limit)):
            msg = f"{VARIABLE} must be a whole number above 0, not {limit!r}."
            raise SettingsError(msg)
        self.most = int(limit) if limit else _count_fitting(_read_memory())

    @asynccontextmanager
    async def room_for(self, session: "Connection") -> AsyncIterator[None]:
        """Hold a place for a process during the block; first come, first served."""
        turn = self._queue[session] = asyncio.Event()
        try:
            while len(self._running) >= self.most or next(iter(self._queue)) is not session:
                self._make_room()
                turn.clear()
                await turn.wait()
            self._running[session] = None
        finally:
            del self._queue[session]
            self.look_again()
        try:
            yield
        finally:
            self._running.pop(session, None)
            self.look_again()

    def is_queued(self, session: "Connection") -> bool:
        """Whether there is no room for it yet."""
        return session in self._queue

    def look_again(self) -> None:
        """Let the first in the queue look again: a process may have ended or become idle."""
        for turn in self._queue.values():
            turn.set()
            return

    def clear(self) -> None:
        """In a forked child: the processes are its parent's."""
        self._running, self._queue = {}, {}

    def _make_room(self) -> None:
        if any(session.is_leaving and not session.is_busy for session in self._running):
            return  # session is about to be free
        there = [
            session
            for session in self._running
            if not (session.is_permanent or session.is_leaving or session.has_question)
        ]
        if resting := [session for session in there if not session.is_busy]:
            min(resting, key=lambda session: session.last_use).retire()
        elif there and not any(session.is_leaving for session in self._running):
            there[0].retire()


def _count_fitting(memory: int) -> int:
    return min(max(memory // _SHARE // _EACH, _FEWEST), _MOST)


def _read_memory() -> int:
    """Bytes of memory this process may use: those of its container, or of the machine."""
    sizes: list[int] = []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            sizes.append(int(Path(path).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    if hasattr(os, "sysconf"):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(sizes, default=0)


PROCESS_LIMIT: Final = ProcessLimit()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS_LIMIT.clear)
