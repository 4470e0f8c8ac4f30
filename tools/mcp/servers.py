"""MCP servers as the toolbox sees them: opened lazily, reopened once when dead, closed for certain.

Everything here runs on the background loop, but for `Servers.held`.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .call import Lost, ServerCall, ServerUnavailable, ToolGone
from .config import ServerConfig

if TYPE_CHECKING:
    from .session import Connection

log = logging.getLogger(__name__)

CONNECT_DEADLINE: Final = 15.0
"""Seconds a server may take to start, shake hands and list its tools."""

RETRY_AFTER: Final = 30.0
"""Seconds after which a server that failed is tried again behind the scenes."""

_KEPT: Final = 256

_MAYBE: Final = "the call may or may not have taken effect"


@dataclass(frozen=True)
class Listing:
    """What one server offers: its tools as it describes them, or why there are none."""

    config: ServerConfig
    tools: tuple[dict[str, Any], ...] = ()
    warning: str = ""


class Server:
    """One configured server: a session for everybody, or one a user where headers are callable."""

    def __init__(
        self, config: ServerConfig, changed: Callable[[str | None], None], parked: set[str]
    ) -> None:
        """Start nothing yet: a session is opened by the first request.

        Args:
            config: How it is reached.
            changed: Called with the session's key when its tools may no longer be those listed.
            parked: Takes the keys of calls that wait for a human.
        """
        self.config = config
        self._changed = changed
        self._parked = parked
        self._connections: dict[str | None, Connection] = {}
        self._locks: dict[str | None, asyncio.Lock] = {}
        self._known: set[str | None] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def tools(self, user_id: str | None) -> tuple[dict[str, Any], ...]:
        """Open the server and list its tools.

        Raises:
            ServerUnavailable: within 15 seconds, whatever the server does.
        """
        if self.config.problem:
            raise ServerUnavailable(self.config.problem)
        try:
            async with asyncio.timeout(CONNECT_DEADLINE):
                return await (await self._connection(user_id)).tools()
        except TimeoutError:
            self._discard(self.key(user_id))
            msg = f"it did not answer within {CONNECT_DEADLINE:g} s"
            raise ServerUnavailable(msg) from None

    async def call(self, call: ServerCall) -> Any:
        """Call a tool; a dead session is reopened once.

        A call that the server may have seen is sent again only where it is resendable.

        Returns:
            The answer as a `ToolMessage`.

        Raises:
            ServerUnavailable: the connection ended, or could not be opened again; `sent` says
                whether one of the attempts may have reached the server.
            ToolGone: the server has restarted or changed, and no longer has this tool.
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
        connection = await self._connection(call.user_id)
        if not any(tool.get("name") == call.name for tool in await connection.tools()):
            raise ToolGone(call.name)
        return await connection.call(call)

    def give_up(self) -> None:
        """End all sessions without waiting."""
        for key in list(self._connections):
            self._discard(key)

    async def close(self) -> None:
        """End all sessions and wait until their processes are gone."""
        self.give_up()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def key(self, user_id: str | None) -> str | None:
        """Under which name the user's session is kept."""
        return user_id if self.config.per_user else None

    async def _connection(self, user_id: str | None) -> "Connection":
        key = self.key(user_id)
        async with self._locks.setdefault(key, asyncio.Lock()):
            held = self._connections.get(key)
            if held is not None and await held.usable():
                return held
            self._discard(key)
            self._discard_idle()
            connection = await self._open(key, user_id)
            if key in self._known:  # another process, perhaps of another version
                self._changed(key)
            self._known.add(key)
            return connection

    async def _open(self, key: str | None, user_id: str | None) -> "Connection":
        kind = await asyncio.to_thread(_connection_class)
        connection = self._connections[key] = kind(
            self.config, user_id, changed=partial(self._changed, key), parked=self._parked
        )
        try:
            async with asyncio.timeout(CONNECT_DEADLINE):
                await connection.opened()
        except TimeoutError:
            msg = f"it did not answer within {CONNECT_DEADLINE:g} s"
            raise ServerUnavailable(msg) from None
        finally:
            if not connection.is_open:
                self._discard(key)
        return connection

    def _discard(self, key: str | None) -> None:
        held = self._connections.pop(key, None)
        if held is None:
            return
        leaving = asyncio.create_task(held.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _discard_idle(self) -> None:
        for key in [key for key, held in self._connections.items() if held.idle]:
            self._discard(key)


def _connection_class() -> "type[Connection]":
    from .session import Connection  # noqa: PLC0415 - the client is slow to import, often unused

    return Connection


_Key = tuple[str, str | None]
"""A server's name, and the user where each has a session of their own."""


class Servers:
    """All configured servers, each loaded on its own: a dead one costs a warning, not the rest."""

    def __init__(self, configs: list[ServerConfig], *, retry_after: float = RETRY_AFTER) -> None:
        """Start nothing yet: servers are opened by the first request for their tools.

        Attributes:
            parked: The keys of the calls that wait for a human's answer to their server.
        """
        self.parked: set[str] = set()
        self._retry_after = retry_after
        self._servers = {
            config.name: Server(config, partial(self._doubt, config.name), self.parked)
            for config in configs
        }
        self._listings: dict[_Key, Listing] = {}
        self._stale: set[_Key] = set()
        self._failed: dict[_Key, float] = {}
        self._retries: dict[_Key, asyncio.Task[None]] = {}
        self._held: dict[str | None, tuple[tuple[Listing, ...], float]] = {}

    def held(self, user_id: str | None) -> tuple[Listing, ...] | None:
        """What `listings` would answer at once, from any thread; None where it has work to do."""
        listings, until = self._held.get(user_id, ((), -math.inf))
        return listings if time.monotonic() < until else None

    async def listings(self, user_id: str | None) -> tuple[Listing, ...]:
        """What every server offers this user, at most some 15 seconds after the first request.

        A server that failed is tried again behind the scenes, so that a later request finds it;
        one that has restarted or changed its tools is asked again at once.
        """
        keys = [(name, server.key(user_id)) for name, server in self._servers.items()]
        fresh = [key for key in keys if key not in self._listings or key in self._stale]
        await asyncio.gather(*(self._load(key, user_id) for key in fresh))
        for key in keys:
            self._retry(key, user_id)
        found = tuple(self._listings[key] for key in keys)
        self._hold(user_id, keys, found)
        return found

    def _hold(self, user_id: str | None, keys: list[_Key], found: tuple[Listing, ...]) -> None:
        if self._stale.intersection(keys):
            return
        if len(self._held) > _KEPT:
            self._held.clear()
        tries = (self._failed[key] + self._retry_after for key in keys if self._is_retried(key))
        self._held[user_id] = (found, min(tries, default=math.inf))

    def _doubt(self, name: str, session: str | None) -> None:
        """Ask a server for its tools again at the next request for them."""
        self._stale.add((name, session))
        self._held.clear()

    async def call(self, server: str, call: ServerCall) -> Any:
        """Call a tool of one server, see `Server.call`."""
        return await self._servers[server].call(call)

    def give_up(self) -> None:
        """End everything without waiting."""
        for retry in self._retries.values():
            retry.cancel()
        for server in self._servers.values():
            server.give_up()

    async def close(self) -> None:
        """End everything; the next request opens it again."""
        self.give_up()
        self._listings.clear()
        self._stale.clear()
        self._failed.clear()
        self._held.clear()
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def _load(self, key: _Key, user_id: str | None) -> None:
        server = self._servers[key[0]]
        config = server.config
        self._stale.discard(key)
        try:
            found = Listing(config, await server.tools(user_id))
            self._failed.pop(key, None)
        except ServerUnavailable as error:
            found = self._fail(key, config, str(error))
        except Exception as error:
            log.debug("MCP server %s", config.name, exc_info=error)
            found = self._fail(key, config, _told(error))
        if found != self._listings.get(key):  # an equal one stays, and with it the catalog
            self._listings[key] = found
            self._held.clear()

    def _fail(self, key: _Key, config: ServerConfig, why: str) -> Listing:
        """A server that was there keeps its tools: it may be back at the next call."""
        self._failed[key] = time.monotonic()
        known = self._listings.get(key)
        tools = known.tools if known is not None else ()
        return Listing(config, tools, _away(config, why) if tools else _warning(config, why))

    def _is_retried(self, key: _Key) -> bool:
        return key in self._failed and not self._servers[key[0]].config.problem

    def _retry(self, key: _Key, user_id: str | None) -> None:
        busy = key in self._retries and not self._retries[key].done()
        if busy or not self._is_retried(key):
            return
        if time.monotonic() - self._failed[key] >= self._retry_after:
            self._retries[key] = asyncio.create_task(self._load(key, user_id))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _away(config: ServerConfig, why: str) -> str:
    return (
        f"MCP server {config.name!r} has gone away: {config.masked(why)}. Calls of its tools fail "
        "until it is back; start it again, or switch it off with enabled: false."
    )


def _warning(config: ServerConfig, why: str) -> str:
    return (
        f"MCP server {config.name!r} is left out: {config.masked(why)}. Its tools are missing; "
        "mend its entry in the MCP configuration or start the server, or switch it off with "
        "enabled: false."
    )
