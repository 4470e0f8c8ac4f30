"""How many processes of MCP servers a worker runs at once, and who is next where all have a call.

A process takes a seat. Who finds none has one that rests end; where none rests, the one that has
sat longest takes no new calls and ends after those it has. A call never holds one seat while it
waits for another, so whoever waits is waited for by nobody.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from ...state.environment import variable
from ...state.errors import SettingsError

VARIABLE: Final = "LOOPWRIGHT_MCP_PROCESSES"
_EACH: Final = 80 * 1024**2
"""Bytes of a server's process; those written in Python or for Node take 50 to 90 MB."""
_SHARE: Final = 4
"""The part of the memory that servers may take: one of so many."""
_FEWEST, _MOST = 4, 128


class Sitter(Protocol):
    """A session whose server is a process."""

    @property
    def busy(self) -> bool:
        """Whether a call is under way on it, or a question of its server open."""

    @property
    def asks(self) -> bool:
        """Whether a question of its server is open."""

    @property
    def leaving(self) -> bool:
        """Whether it takes no new calls."""

    @property
    def rested(self) -> float:
        """When it was used last."""

    @property
    def stays(self) -> bool:
        """Whether its server is never to be ended."""

    def retire(self) -> None:
        """Take no new calls, and end after those under way."""


class Seats:
    """The seats of this process; used on the background loop alone.

    Attributes:
        most: How many there are.
    """

    def __init__(self) -> None:
        """All are free."""
        self.most = _FEWEST
        self._seated: dict[Sitter, None] = {}
        self._line: dict[Sitter, asyncio.Event] = {}

    def read(self, environ: Mapping[str, str]) -> None:
        """Have as many as the operator says, else as the machine bears.

        Raises:
            SettingsError: What the operator says is no number above 0.
        """
        given = variable(environ, "LOOPWRIGHT_MCP_PROCESSES")
        if given is not None and not (given.isdecimal() and int(given)):
            msg = f"{VARIABLE} must be a whole number above 0, not {given!r}."
            raise SettingsError(msg)
        self.most = int(given) if given else _borne(_memory())

    @asynccontextmanager
    async def seat(self, who: Sitter) -> AsyncIterator[None]:
        """Have a seat for the length of the block; who came first is first."""
        turn = self._line[who] = asyncio.Event()
        try:
            while len(self._seated) >= self.most or next(iter(self._line)) is not who:
                self._make_room()
                turn.clear()
                await turn.wait()
            self._seated[who] = None
        finally:
            del self._line[who]
            self.moved()
        try:
            yield
        finally:
            self._seated.pop(who, None)
            self.moved()

    def waits(self, who: Sitter) -> bool:
        """Whether it has no seat yet."""
        return who in self._line

    def moved(self) -> None:
        """Let the first in the line look again: a seat or one who has it may be free."""
        for turn in self._line.values():
            turn.set()
            return

    def clear(self) -> None:
        """In a forked child: the processes are its parent's."""
        self._seated, self._line = {}, {}

    def _make_room(self) -> None:
        if any(one.leaving and not one.busy for one in self._seated):
            return  # one is about to be free
        there = [one for one in self._seated if not (one.stays or one.leaving or one.asks)]
        if resting := [one for one in there if not one.busy]:
            min(resting, key=lambda one: one.rested).retire()
        elif there and not any(one.leaving for one in self._seated):
            there[0].retire()


def _borne(memory: int) -> int:
    return min(max(memory // _SHARE // _EACH, _FEWEST), _MOST)


def _memory() -> int:
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


SEATS: Final = Seats()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SEATS.clear)
