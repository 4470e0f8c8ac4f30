"""Many runs in one event loop let others in: each waits for its turn before a piece of work.

Pieces are short, but a thousand of them in one pass of the loop would keep everything else in it
waiting: timers, streams, the answers of a server's other clients.
"""

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

_LONG: Final = 0.025
"""Seconds: while a pass of the loop takes longer, only one piece begins in each."""

_MOST: Final = 4
"""Pieces that begin in a pass else: each goes on over many passes."""


class FairScheduler:
    """Of one event loop: who waits, and how many pieces may begin in a pass."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._room, self._begun, self._since = _MOST, 0, 0.0
        self._told = False

    async def acquire(self) -> None:
        """Wait for a turn; where few want one, it is there at once."""
        if not self._told:
            self._schedule_pass()
        if not self._waiting and self._begun < self._room:
            self._begun += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _schedule_pass(self) -> None:
        loop = asyncio.get_running_loop()
        self._told, self._since = True, loop.time()
        loop.call_soon(self._run_pass)

    def _run_pass(self) -> None:
        self._room = _MOST if asyncio.get_running_loop().time() - self._since < _LONG else 1
        self._begun, self._told = 0, False
        while self._waiting and self._begun < self._room:
            turn = self._waiting.popleft()
            if not turn.done():  # else nobody waits any more
                turn.set_result(None)
                self._begun += 1
        if self._waiting or self._begun:
            self._schedule_pass()


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, FairScheduler] = WeakKeyDictionary()


async def yield_to_others() -> None:
    """Let others of this loop in before a piece of work."""
    loop = asyncio.get_running_loop()
    pace = _paces.get(loop)
    if pace is None:
        pace = _paces[loop] = FairScheduler()
    await pace.acquire()
