"""MCP servers as the toolbox sees them: opened lazily, reopened once when dead, closed for certain.

Everything here runs on the background loop, but for `Servers.held`.
"""

import asyncio
import contextlib
import contextvars
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .call import Lost, ServerCall, ServerUnavailable, ToolGone
from .config import ServerConfig

if TYPE_CHECKING:
    from .session import Connection
    from .talk import Parked

log = logging.getLogger(__name__)

RETRY_AFTER: Final = 30.0
"""Seconds after which a server that failed is tried again behind the scenes."""

_KEPT: Final = 256
_MAYBE: Final = "the call may or may not have taken effect"
_AWAY: Final = (
    "MCP server {name!r} has gone away: {why}. Calls of its tools fail until it is back; start it "
    "again, or switch it off with enabled: false."
)
_LEFT_OUT: Final = (
    "MCP server {name!r} is left out: {why}. Its tools are missing; mend its entry in the MCP "
    "configuration or start the server, or switch it off with enabled: false."
)


@dataclass(frozen=True)
class Listing:
    """What one server offers: its tools as it describes them, or why there are none."""

    config: ServerConfig
    tools: tuple[dict[str, Any], ...] = ()
    warning: str = ""


class _Place:
    """One server, for everybody or, where headers are callable, for one user.

    Attributes:
        listing: What it offered last; None before it was asked.
        stale: Whether it may offer something else by now.
        failed: When it failed last, by the monotonic clock; None if the last listing is good.
    """

    def __init__(
        self, config: ServerConfig, user_id: str | None, moved: Callable[[], None], parked: "Parked"
    ) -> None:
        """Start nothing yet; `moved` is called when the listing is or may be another one."""
        self.config = config
        self.listing: Listing | None = None
        self.stale = False
        self.failed: float | None = None
        self._user_id = user_id
        self._moved = moved
        self._parked = parked
        self._connection: Connection | None = None
        self._opened_before = False
        self._lock = asyncio.Lock()
        self._retry: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """List the tools; a server that was there keeps its tools: it may be back by the call."""
        self.stale = False
        try:
            found, self.failed = Listing(self.config, await self._tools()), None
        except ServerUnavailable as error:
            found = self._without(str(error))
        except Exception as error:
            log.debug("MCP server %s", self.config.name, exc_info=error)
            found = self._without(f"{type(error).__name__}: {error}"[:300])
        if found != self.listing:  # an equal one stays, and with it the catalog
            self.listing = found
            self._moved()

    def _without(self, why: str) -> Listing:
        self.failed = time.monotonic()
        known = self.listing.tools if self.listing is not None else ()
        words = (_AWAY if known else _LEFT_OUT).format(
            name=self.config.name, why=self.config.masked(why)
        )
        return Listing(self.config, known, words)

    def retry_at(self, wait: float) -> float:
        """When a failed server is worth another try; never where its entry is wrong."""
        if self.failed is None or self.config.problem:
            return math.inf
        return self.failed + wait

    def retry(self) -> None:
        """Try a failed server again behind the scenes."""
        if self._retry is None or self._retry.done():
            self._retry = asyncio.create_task(self.load(), context=contextvars.Context())

    async def _tools(self) -> tuple[dict[str, Any], ...]:
        if self.config.problem:
            raise ServerUnavailable(self.config.problem)
        async with self._in_time():
            return await (await self._usable()).tools()

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Leave a server that is silent for longer than it may take to start."""
        try:
            async with asyncio.timeout(self.config.startup_timeout):
                yield
        except TimeoutError:
            self.discard()
            why = f"it did not answer within {self.config.startup_timeout:g} s"
            raise ServerUnavailable(why) from None

    async def call(self, call: ServerCall) -> Any:
        """Call a tool; a dead session is reopened once.

        A call that the server may have seen is sent again only where it is resendable.

        Returns:
            The answer as a `ToolMessage`.

        Raises:
            ServerUnavailable: The connection ended, or could not be opened again.
            ToolGone: The server has restarted or changed.
        """
        try:
            return await self._try(call)
        except Lost as lost:
            first = lost
        if first.sent and not call.resendable:
            msg = f"{first}; {_MAYBE}"
            raise ServerUnavailable(msg, sent=True) from first
        try:
            return await self._try(call)
        except ServerUnavailable as error:
            msg = f"{error}; {_MAYBE}" if error.sent and not call.resendable else str(error)
            raise ServerUnavailable(msg, sent=first.sent or error.sent) from error

    async def _try(self, call: ServerCall) -> Any:
        async with self._in_time():
            connection = await self._usable()
        if self.stale or self.listing is None:
            await self.load()
        known = self.listing
        if known and not known.warning and call.name not in (t.get("name") for t in known.tools):
            raise ToolGone(call.name)
        return await connection.call(call)

    async def _usable(self) -> "Connection":
        """The session if the next call has a chance on it, else a new one."""
        async with self._lock:
            held = self._connection
            if held is not None and await held.usable():
                return held
            self.discard()
            connection = await self._open()
            if self._opened_before:  # another process, perhaps of another version
                self._change()
            self._opened_before = True
            return connection

    async def _open(self) -> "Connection":
        kind = await asyncio.to_thread(_connection_class)
        connection = self._connection = kind(
            self.config, self._user_id, changed=self._change, parked=self._parked
        )
        try:
            await connection.opened()
        except BaseException:
            self.discard()
            raise
        return connection

    def _change(self) -> None:
        """Have the tools listed again at the next request for them."""
        self.stale = True
        self._moved()

    @property
    def is_open(self) -> bool:
        """Whether a session is held, though it may be dead."""
        return self._connection is not None

    def discard(self, *, if_idle: bool = False) -> None:
        """End the session without waiting."""
        held = self._connection
        if held is None or (if_idle and not held.idle):
            return
        self._connection = None
        leaving = asyncio.create_task(held.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def give_up(self) -> None:
        """End everything without waiting, and forget what was listed."""
        if self._retry is not None:
            self._retry.cancel()
        self.discard()
        self.listing, self.stale, self.failed = None, False, None

    async def gone(self) -> None:
        """Wait until the processes of ended sessions are gone."""
        if self._leaving:
            await asyncio.wait(self._leaving)


def _connection_class() -> "type[Connection]":
    from .session import Connection  # noqa: PLC0415 - the client is slow to import, often unused

    return Connection


class Servers:
    """All configured servers, each loaded on its own: a dead one costs a warning, not the rest.

    Attributes:
        parked: The keys of the calls that wait for a human's answer to their server.
    """

    def __init__(self, configs: list[ServerConfig], *, retry_after: float = RETRY_AFTER) -> None:
        """Start nothing yet: servers are opened by the first request for their tools."""
        self.parked: Parked = {}
        self._retry_after = retry_after
        self._configs = {config.name: config for config in configs}
        self._places: dict[tuple[str, str | None], _Place] = {}
        self._held: dict[str | None, tuple[tuple[Listing, ...], float]] = {}

    def held(self, user_id: str | None) -> tuple[Listing, ...] | None:
        """What `listings` would answer at once, from any thread; None where it has work to do."""
        listings, until = self._held.get(user_id, ((), -math.inf))
        return listings if time.monotonic() < until else None

    async def listings(self, user_id: str | None) -> tuple[Listing, ...]:
        """What every server offers this user; none may take longer than its time to start.

        A server that failed is tried again behind the scenes, so that a later request finds it;
        one that has restarted or changed its tools is asked again at once.
        """
        places = [self._place(name, user_id) for name in self._configs]
        fresh = [place for place in places if place.listing is None or place.stale]
        await asyncio.gather(*(place.load() for place in fresh))
        for place in places:
            if time.monotonic() >= place.retry_at(self._retry_after):
                place.retry()
        found = tuple(place.listing or Listing(place.config) for place in places)
        if not any(place.stale for place in places):
            if len(self._held) > _KEPT:
                self._held.clear()
            until = min((p.retry_at(self._retry_after) for p in places), default=math.inf)
            self._held[user_id] = (found, until)
        return found

    async def call(self, server: str, call: ServerCall) -> Any:
        """Call a tool of one server, see `_Place.call`."""
        return await self._place(server, call.user_id).call(call)

    def _place(self, name: str, user_id: str | None) -> _Place:
        config = self._configs[name]
        key = (name, user_id if config.per_user else None)
        if key not in self._places:
            self._places[key] = _Place(config, key[1], self._held.clear, self.parked)
        if not self._places[key].is_open:  # one is about to be opened
            for place in self._places.values():
                place.discard(if_idle=True)
        return self._places[key]

    def give_up(self) -> None:
        """End everything without waiting."""
        for place in self._places.values():
            place.give_up()
        self._held.clear()

    async def close(self) -> None:
        """End everything and wait for it; the next request opens it again."""
        self.give_up()
        await asyncio.gather(*(place.gone() for place in self._places.values()))
