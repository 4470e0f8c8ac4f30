"""MCP servers as the toolbox sees them: opened lazily, reopened once when dead, closed for certain.

Everything here runs on the background loop. A session is opened and closed by one owner task,
because the client's cancel scopes may not change tasks; calls come from any other task.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from .mcp_config import ServerConfig

log = logging.getLogger(__name__)

CONNECT_DEADLINE: Final = 15.0
"""Seconds a server may take to start, shake hands and list its tools."""

RETRY_AFTER: Final = 30.0
"""Seconds after which a server that failed is tried again behind the scenes."""

_PING_DEADLINE: Final = 5.0
_IDLE: Final = 900.0
_LAST_WORDS: Final = 0.5


class ServerUnavailable(Exception):
    """The server cannot be reached; the text says which and why."""


class _Lost(Exception):
    """The connection ended under a call. `sent` says whether the server may have seen it."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


@dataclass(frozen=True)
class Listing:
    """What one server offers: its tools as it describes them, or why there are none."""

    config: ServerConfig
    tools: tuple[dict[str, Any], ...] = ()
    warning: str = ""


class Connection:
    """One live session and the task that owns it."""

    def __init__(self, client: ModuleType, config: ServerConfig, user_id: str | None) -> None:
        """Start the owner task; `opened` waits for the handshake."""
        self._client = client
        self._config = config
        self._stderr = client.Stderr()
        self._session: Any = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._in_flight = 0
        self._doubted = False
        self._used = time.monotonic()
        self._why = "it closed the connection"
        self._owner = asyncio.create_task(self._own(user_id), name=f"mcp {config.name}")

    @property
    def alive(self) -> bool:
        """Whether neither the server nor we have ended the connection."""
        return not self._over.is_set()

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and calls may be sent."""
        return self.alive and self._session is not None

    @property
    def idle(self) -> bool:
        """Whether nobody has used it for a quarter of an hour."""
        return not self._in_flight and time.monotonic() - self._used > _IDLE

    async def _own(self, user_id: str | None) -> None:
        try:
            async with self._client.connect(
                self._config, user_id, self._stderr, self._over.set
            ) as session:
                await session.initialize()
                self._session = session
                self._ready.set_result(None)
                await self._over.wait()
        except (Exception, BaseExceptionGroup) as error:
            self._why = self._client.explain(error, self._config)
            log.debug("MCP server %s: %s", self._config.name, self._why, exc_info=error)
        finally:
            self._over.set()
            if not self._ready.done():
                self._ready.set_result(None)

    async def opened(self) -> None:
        """Wait for the handshake.

        Raises:
            ServerUnavailable: there was none.
        """
        await asyncio.shield(self._ready)
        if self._session is None:
            raise ServerUnavailable(self._reason())

    def _reason(self) -> str:
        said = self._stderr.last_line
        return self._config.masked(f"{self._why} (it said: {said})" if said else self._why)

    def give_up(self) -> None:
        """Stop without waiting: the owner task ends the process on its own."""
        self._over.set()
        if self._session is None:
            self._owner.cancel()

    async def close(self) -> None:
        """Stop, and wait until the process or connection is gone."""
        self.give_up()
        await asyncio.wait({self._owner})

    async def list_tools(self) -> list[dict[str, Any]]:
        """All tools as the server describes them."""
        return [*await self._request(self._client.list_tools(self._session))]

    async def call(self, name: str, args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; the answer as the server gave it.

        Raises:
            _Lost: the connection ended before the answer.
        """
        reply = await self._request(self._client.call(self._session, name, args, meta))
        answer: dict[str, Any] = reply.model_dump()
        for block in answer["content"] if answer.get("isError") else ():
            if "text" in block:  # servers name the key that was refused
                block["text"] = self._config.masked(block["text"])
        return answer

    async def usable(self) -> bool:
        """Whether the next call has a chance. After an unanswered one the server is asked first."""
        if not self.alive or not self._doubted or self._in_flight:
            return self.alive
        try:
            async with asyncio.timeout(_PING_DEADLINE):
                await self._request(self._session.send_ping())
        except (TimeoutError, _Lost):
            return False
        self._doubted = False
        return True

    async def _request(self, call: Coroutine[Any, Any, Any]) -> Any:
        request = asyncio.ensure_future(call)
        with self._counted():
            over = asyncio.ensure_future(self._over.wait())
            try:
                await asyncio.wait({request, over}, return_when=asyncio.FIRST_COMPLETED)
                if not request.done():  # an answer may have come just before the end
                    await asyncio.wait({request}, timeout=_LAST_WORDS)
            except asyncio.CancelledError:
                self._doubted = True
                raise
            finally:
                over.cancel()
                if not request.done():
                    request.cancel()
        return self._result(request)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._used = time.monotonic()

    def _result(self, request: asyncio.Future[Any]) -> Any:
        if not request.done() or request.cancelled():
            raise _Lost(self._reason(), sent=True)
        error = request.exception()
        if error is None:
            return request.result()
        if isinstance(error, self._client.LOST) or self._client.is_session_gone(error):
            self.give_up()
            raise _Lost(self._reason(), sent=False)
        if self._client.is_closed(error) and not self.alive:
            raise _Lost(self._reason(), sent=True)
        raise error


class Server:
    """One configured server: a session for everybody, or one a user where headers are callable."""

    def __init__(self, config: ServerConfig) -> None:
        """Start nothing yet: a session is opened by the first request."""
        self.config = config
        self._connections: dict[str | None, Connection] = {}
        self._locks: dict[str | None, asyncio.Lock] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def tools(self, user_id: str | None) -> list[dict[str, Any]]:
        """Open the server and list its tools.

        Raises:
            ServerUnavailable: within 15 seconds, whatever the server does.
        """
        if self.config.problem:
            raise ServerUnavailable(self.config.problem)
        try:
            async with asyncio.timeout(CONNECT_DEADLINE):
                connection = await self._connection(user_id)
                return await connection.list_tools()
        except TimeoutError:
            self._discard(self.key(user_id))
            msg = f"it did not answer within {CONNECT_DEADLINE:g} s"
            raise ServerUnavailable(msg) from None
        except _Lost as lost:
            raise ServerUnavailable(str(lost)) from lost

    async def call(
        self,
        name: str,
        args: dict[str, Any],
        *,
        repeatable: bool,
        user_id: str | None,
        meta: dict[str, Any],
    ) -> dict[str, Any]:
        """Call a tool; a dead session is reopened once.

        A call that the server may have seen is sent again only where `repeatable` says so.

        Raises:
            ServerUnavailable: the connection ended, or could not be opened again.
        """
        try:
            connection = await self._connection(user_id)
            return await connection.call(name, args, meta)
        except _Lost as lost:
            if lost.sent and not repeatable:
                msg = f"{lost}; the call may or may not have taken effect"
                raise ServerUnavailable(msg) from lost
        try:
            connection = await self._connection(user_id)
            return await connection.call(name, args, meta)
        except _Lost as lost:
            raise ServerUnavailable(str(lost)) from lost

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

    async def _connection(self, user_id: str | None) -> Connection:
        key = self.key(user_id)
        async with self._locks.setdefault(key, asyncio.Lock()):
            held = self._connections.get(key)
            if held is not None and await held.usable():
                return held
            self._discard(key)
            self._discard_idle()
            return await self._open(key, user_id)

    async def _open(self, key: str | None, user_id: str | None) -> Connection:
        client = await asyncio.to_thread(_client)
        connection = self._connections[key] = Connection(client, self.config, user_id)
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
        held.give_up()
        leaving = asyncio.create_task(held.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _discard_idle(self) -> None:
        for key in [key for key, held in self._connections.items() if held.idle]:
            self._discard(key)


def _client() -> ModuleType:
    from . import mcp_connect  # noqa: PLC0415 - the MCP client is slow to import and often unused

    return mcp_connect


class Servers:
    """All configured servers, each loaded on its own: a dead one costs a warning, not the rest."""

    def __init__(self, configs: list[ServerConfig], *, retry_after: float = RETRY_AFTER) -> None:
        """Start nothing yet: servers are opened by the first request for their tools."""
        self._retry_after = retry_after
        self._servers = {config.name: Server(config) for config in configs}
        self._listings: dict[tuple[str, str | None], Listing] = {}
        self._failed: dict[tuple[str, str | None], float] = {}
        self._retries: dict[tuple[str, str | None], asyncio.Task[None]] = {}

    async def listings(self, user_id: str | None) -> tuple[Listing, ...]:
        """What every server offers this user, at most some 15 seconds after the first request.

        A server that failed is tried again behind the scenes, so that a later request finds it.
        """
        keys = [(name, server.key(user_id)) for name, server in self._servers.items()]
        fresh = [key for key in keys if key not in self._listings]
        await asyncio.gather(*(self._load(key, user_id) for key in fresh))
        for key in keys:
            self._retry(key, user_id)
        return tuple(self._listings[key] for key in keys)

    async def call(
        self, server: str, name: str, args: dict[str, Any], **how: Any
    ) -> dict[str, Any]:
        """Call a tool of one server, see `Server.call`."""
        return await self._servers[server].call(name, args, **how)

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
        self._failed.clear()
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def _load(self, key: tuple[str, str | None], user_id: str | None) -> None:
        server = self._servers[key[0]]
        config = server.config
        try:
            self._listings[key] = Listing(config, tuple(await server.tools(user_id)))
            self._failed.pop(key, None)
        except ServerUnavailable as error:
            self._failed[key] = time.monotonic()
            self._listings[key] = Listing(config, warning=_warning(config, str(error)))
        except Exception as error:
            self._failed[key] = time.monotonic()
            self._listings[key] = Listing(config, warning=_warning(config, _told(error)))
            log.debug("MCP server %s", config.name, exc_info=error)

    def _retry(self, key: tuple[str, str | None], user_id: str | None) -> None:
        failed = self._failed.get(key)
        busy = key in self._retries and not self._retries[key].done()
        if failed is None or busy or self._servers[key[0]].config.problem:
            return
        if time.monotonic() - failed >= self._retry_after:
            self._retries[key] = asyncio.create_task(self._load(key, user_id))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _warning(config: ServerConfig, why: str) -> str:
    return (
        f"MCP server {config.name!r} is left out: {config.masked(why)}. Its tools are missing; "
        "mend its entry in the MCP configuration or start the server, or switch it off with "
        "enabled: false."
    )
