"""The MCP servers of a toolbox: opened lazily, reopened once when dead.

Everything here runs on the background loop, but for `Servers.find_known_listings`.
"""

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...state.context import STARTUP
from ...text.sentences import say
from .call import ConnectionLost, ServerCall, ServerUnavailable, ToolGone
from .config import LOGIN, ServerConfig
from .processes import PROCESS_LIMIT, VARIABLE

if TYPE_CHECKING:
    from .active_calls import Parked
    from .session import Connection

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_AFTER: Final = 30.0
"""Seconds after which a server that failed is tried again behind the scenes."""

_AWAY: Final = (
    "MCP server {name!r} has gone away: {why}. Calls of its tools fail until it is back; start it "
    "again, or switch it off with enabled: false."
)
_LEFT_OUT: Final = (
    "MCP server {name!r} is left out: {why}. Its tools are missing; fix its entry in the MCP "
    "configuration or start the server, or switch it off with enabled: false."
)
_SLOW: Final = (
    "MCP server {name!r} is left out: {why}. Its tools are missing. It is started once more behind "
    "the scenes; if it needs longer (a first npx or uvx downloads it), raise startupTimeout in its "
    "entry or startup_timeout of the run, or switch it off with enabled: false."
)
_CROWDED: Final = (
    "MCP server {name!r} is left out: {why}. Its tools are missing. It is started again soon."
)
_NO_LOGIN: Final = "MCP server {name!r} is left out: {why}. Its tools are missing."


class _StartTimeout(ServerUnavailable):
    """It has not answered within its time to start."""


class _NoProcessSlot(ServerUnavailable):
    """It could not be started: all processes that are allowed were running calls."""


_WARNINGS: Final[dict[type[Exception], str]] = {_StartTimeout: _SLOW, _NoProcessSlot: _CROWDED}
_QUEUED: Final = "there was no room for its process yet"


@dataclass(frozen=True)
class Listing:
    """The tools of one server as it describes them, or why there are none."""

    config: ServerConfig
    tools: tuple[dict[str, Any], ...] = ()
    warning: str = ""


class Server:
    """One server, for all users or, with logins or callable headers, for one.

    Attributes:
        failed: When it failed last, by the monotonic clock; None if the last listing is good.
    """

    def __init__(
        self,
        config: ServerConfig,
        user_id: str | None,
        parked: "Parked",
        others: dict[str, Listing],
        forget: Callable[[], object],
    ) -> None:
        """Start nothing yet; `forget` is called after a long time without use.

        `others` has the last listings of any user, as most users get the same.
        """
        self._forget, self._others = forget, others
        self.config = config
        self.failed: float | None = None
        self._offered = 0, Listing(config)
        self._user_id = user_id
        self._parked = parked
        self._changes = 1
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._retry: asyncio.Task[None] | None = None
        self._ending: dict[asyncio.Task[None], Connection] = {}

    @property
    def listing(self) -> Listing:
        """The last listing; an equal one is the same object, so the catalog can be kept."""
        return self._offered[1]

    @property
    def fresh_listing(self) -> Listing | None:
        """The listing, if it cannot have changed; other threads read it, so it is one value."""
        seen, listing = self._offered
        return listing if seen == self._changes else None

    def _expire_listing(self) -> None:
        """List the tools again at the next request."""
        self._changes += 1

    async def load(
        self, seconds: float | None = None, connection: "Connection | None" = None
    ) -> None:
        """List the tools; a server that was there keeps its tools: it may be back by the call.

        Args:
            seconds: How long it may take to start; without them as the run says.
            connection: The session to ask, if the caller holds one.
        """
        seen = self._changes
        try:
            if self.config.problem:
                raise ServerUnavailable(self.config.problem)  # noqa: TRY301 - told like the others
            async with self._limit_start_time(seconds):
                try:
                    seen, now = await self._list_tools(connection)
                except ConnectionLost:
                    if self._connection is None:  # it was given up meanwhile
                        raise
                    seen, now = await self._list_tools()
            self.failed = None
        except Exception as error:
            log.debug("MCP server %s", self.config.name, exc_info=error)
            now = self._warn(error)
        same = (self.listing, self._others.get(self.config.name))
        self._offered = seen, next((one for one in same if one == now), now)
        self._others[self.config.name] = self.listing

    async def _list_tools(self, connection: "Connection | None" = None) -> tuple[int, Listing]:
        if connection is not None:
            seen = self._changes
            return seen, Listing(self.config, await connection.list_all("tools"))
        return await self.ask(self._list_tools)

    async def ask(self, act: "Callable[[Connection], Awaitable[T]]") -> T:
        """Ask something on the session."""
        connection = await self._open_connection()
        try:
            return await act(connection)
        finally:
            connection.let_go()

    def _warn(self, error: Exception) -> Listing:
        crowded = isinstance(error, _NoProcessSlot)  # only that: tried again with the next request
        self.failed = -inf if crowded else time.monotonic()
        known = isinstance(error, ServerUnavailable)
        why = str(error) if known else f"{type(error).__name__}: {error}"[:300]
        words = _AWAY if self.listing.tools else _WARNINGS.get(type(error), _LEFT_OUT)
        words = _NO_LOGIN if self.config.auth and LOGIN in why else words
        warning = words.format(name=self.config.name, why=self.config.mask(why))
        if warning != self.listing.warning:  # a program without a log of its own sees it on stderr
            log.warning("%s", warning)
        tools = () if words is _NO_LOGIN else self.listing.tools
        return Listing(self.config, tools, warning)

    def is_retry_due(self, wait: float) -> bool:
        """Whether a failed server is tried again; never if its entry is wrong."""
        failed = self.failed
        is_due = failed is not None and time.monotonic() >= failed + wait
        return is_due and not self.config.problem

    def retry(self) -> None:
        """Try it again behind the scenes."""
        if self._retry is None or self._retry.done():
            again = self.load(self._find_start_timeout())
            self._retry = asyncio.create_task(again, context=contextvars.Context())

    def _find_start_timeout(self) -> float:
        """Seconds to start: as its entry says, else as the run that asks does."""
        return self.config.startup_timeout or STARTUP.get()

    @contextlib.asynccontextmanager
    async def _limit_start_time(self, seconds: float | None = None) -> AsyncIterator[None]:
        """Give up a server that is silent for longer than its start may take."""
        patience = seconds or self._find_start_timeout()
        try:
            async with asyncio.timeout(None) as limit:
                # In an empty context: asyncio keeps cancelled timers, and the context that they
                # captured, until they would have fired.
                until = asyncio.get_running_loop().time() + patience
                contextvars.Context().run(limit.reschedule, until)
                yield
        except TimeoutError as error:
            connection, waited = self._connection, f"{patience:g}"
            if _QUEUED in getattr(error.__cause__, "__notes__", ()):
                why = say("no_seat", most=PROCESS_LIMIT.most, seconds=waited, variable=VARIABLE)
                raise _NoProcessSlot(why) from None
            if connection is not None:
                connection.is_silent = True
            self.discard()
            raise _StartTimeout(say("server_silent", seconds=waited)) from None

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
            return await self._try_call(call)
        except ConnectionLost as lost:
            first = lost
        if first.sent and not call.resendable:
            raise first
        try:
            return await self._try_call(call)
        except ServerUnavailable as error:
            raise ServerUnavailable(str(error), sent=first.sent or error.sent) from error

    async def _try_call(self, call: ServerCall) -> Any:
        async with self._limit_start_time():
            connection = await self._open_connection()
        try:
            if self.fresh_listing is None:
                await self.load(connection=connection)
            offered = (tool.get("name") for tool in self.listing.tools)
            if not self.listing.warning and call.name not in offered:
                raise ToolGone(call.name)
            return await connection.call(call)
        finally:
            connection.let_go()

    async def _open_connection(self) -> "Connection":
        """The session, or a new one if the next call could not work; the caller holds it.

        Callers that come while it opens hold it too, so it serves all before it makes room.
        """
        while True:
            connection = self._connection
            if connection is None or not connection.takes_calls:
                connection = self._current_connection(await asyncio.to_thread(_connection_class))
            if await self._hold(connection):
                return connection

    async def _hold(self, connection: "Connection") -> bool:
        """Hold a session once it is open; False if another one is needed."""
        connection.hold()
        try:
            await connection.wait_open()
            async with self._lock:
                if await connection.is_usable():
                    return True
        except BaseException as error:
            if PROCESS_LIMIT.is_queued(connection):
                error.add_note(_QUEUED)
            self._let_go(connection)
            if isinstance(error, ServerUnavailable) and connection.is_silent:
                return False  # another caller's patience has ended, not this one's
            raise
        self._let_go(connection)
        if connection is self._connection:
            self.discard()
        return False

    def _current_connection(self, kind: "type[Connection]") -> "Connection":
        """The session for new calls."""
        connection = self._connection
        if connection is None or not connection.takes_calls:
            self.discard()
            connection = self._connection = kind(
                self.config,
                self._user_id,
                on_change=self._expire_listing,
                on_rest=self._release_idle,
                parked=self._parked,
            )
        return connection

    def _let_go(self, connection: "Connection") -> None:
        """Let go of a session that failed; end it if nobody else waits for it."""
        connection.let_go()
        if connection is self._connection and not (connection.is_open or connection.is_busy):
            self.discard()

    def _release_idle(self) -> None:
        """Forget a user's server; list one over HTTP again at its next use."""
        if self._user_id is not None:
            self._forget()
        elif self.config.transport != "stdio":
            self._expire_listing()

    def discard(self) -> None:
        """End the session without waiting; one that is leaving first ends its calls."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if not connection.is_leaving:
                connection.stop()
            self._ending[connection.owner] = connection
            connection.owner.add_done_callback(lambda done: self._ending.pop(done, None))

    def give_up(self) -> None:
        """End everything without waiting, and forget what was listed."""
        if self._retry is not None:
            self._retry.cancel()
        self.discard()
        for connection in self._ending.values():
            connection.stop()
        self._offered, self.failed = (0, Listing(self.config)), None
        self._expire_listing()

    async def wait_closed(self) -> None:
        """Wait until the processes of ended sessions are gone."""
        if self._ending:
            await asyncio.wait(self._ending)


class Servers:
    """All configured servers; a dead one costs a warning, not the others.

    Attributes:
        parked: The keys of the calls that wait for a human's answer to their server.
    """

    def __init__(self, configs: list[ServerConfig], *, retry_after: float = RETRY_AFTER) -> None:
        """Start nothing yet: servers are opened by the first request for their tools."""
        self.parked: Parked = {}
        self._listed: dict[str, Listing] = {}
        self._retry_after = retry_after
        self._configs = {config.name: config for config in configs}
        self._servers: dict[tuple[str, str | None], Server] = {}

    def find_known_listings(
        self, user_id: str | None, names: Sequence[str]
    ) -> tuple[Listing, ...] | None:
        """The listings of these servers, if they are known and fresh; from any thread."""
        keys = (self._key(self._configs[name], user_id) for name in names)
        servers = [self._servers.get(key) for key in keys]
        due = self._retry_after
        known = [now for p in servers if p and (now := p.fresh_listing) and not p.is_retry_due(due)]
        return tuple(known) if len(known) == len(servers) else None

    async def load_listings(self, user_id: str | None, names: Sequence[str]) -> tuple[Listing, ...]:
        """The listing of each of these servers; none may take longer than its time to start.

        A failed server is tried again in the background, a changed one is asked at once.
        """
        servers = [self.server(name, user_id) for name in names]
        await asyncio.gather(*(server.load() for server in servers if server.fresh_listing is None))
        for server in servers:
            if server.is_retry_due(self._retry_after):
                server.retry()
        return tuple(server.listing for server in servers)

    async def call(self, name: str, call: ServerCall) -> Any:
        """Call a tool of one server, see `Server.call`."""
        return await self.server(name, call.user_id).call(call)

    def _key(self, config: ServerConfig, user_id: str | None) -> tuple[str, str | None]:
        by_user = (config.user_headers or config.auth) and config.transport != "stdio"
        return config.name, user_id if by_user else None

    def server(self, name: str, user_id: str | None) -> Server:
        """One server, as this user has it."""
        config = self._configs[name]
        key = self._key(config, user_id)
        if key not in self._servers:
            forget = partial(self._servers.pop, key, None)
            self._servers[key] = Server(config, key[1], self.parked, self._listed, forget)
        return self._servers[key]

    def give_up(self) -> None:
        """End everything without waiting."""
        for server in self._servers.values():
            server.give_up()

    async def close(self) -> None:
        """End everything and wait for it; the next request opens it again."""
        self.give_up()
        await asyncio.gather(*(server.wait_closed() for server in self._servers.values()))


def _connection_class() -> "type[Connection]":
    from .session import Connection  # noqa: PLC0415 - the client is slow to import, often unused

    return Connection
