"""Connections to OpenAI-style servers that are kept from call to call, by each event loop its own.

A connection works in the event loop that opened it and in no other, but a client is shared by all
that ask its model: by runs in several loops, and by one loop after another.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Final

import openai

_IDLE: Final = 16
"""Connections that wait for the next request: the pool asks each one's socket at every request."""


def _few_idle() -> Any:
    """The SDK's limits, but for how many connections may wait."""
    usual = openai.DEFAULT_CONNECTION_LIMITS
    return type(usual)(
        max_connections=usual.max_connections,
        max_keepalive_connections=_IDLE,
        keepalive_expiry=usual.keepalive_expiry,
    )


class PerLoop(openai.DefaultAsyncHttpxClient):
    """A client that any event loop may use. With a loop its connections end."""

    def __init__(self) -> None:
        """Read the certificates, once for all loops; nothing is connected yet."""
        # httpx or httpx2, as the installed SDK has it.
        package = openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
        self._certificates = sys.modules[package].create_ssl_context()
        super().__init__(verify=self._certificates)
        self._open: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncIterator[None]]] = {}

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request over a connection of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            self._forget_closed()
            own = openai.DefaultAsyncHttpxClient(verify=self._certificates, limits=_few_idle())
            until_the_end = self._close_with(loop, own)
            self._open[loop] = own, until_the_end
            await anext(until_the_end)
        return await self._open[loop][0].send(request, **options)

    async def _close_with(self, loop: asyncio.AbstractEventLoop, own: Any) -> AsyncIterator[None]:
        """Close a loop's connections when it ends, for it ends what was begun in it and waits."""
        try:
            yield
        finally:
            self._open.pop(loop, None)
            await own.aclose()

    def _forget_closed(self) -> None:
        """Let go of loops that were closed without an end."""
        for loop in [loop for loop in self._open.copy() if loop.is_closed()]:
            self._open.pop(loop, None)


@cache
def shared() -> PerLoop:
    """The client of all models of this process."""
    return PerLoop()
