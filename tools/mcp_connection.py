"""One live session with an MCP server, and the task that owns it.

A session is opened and closed by one owner task, because the client's cancel scopes may not change
tasks; calls come from any other task of the same loop.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from types import ModuleType
from typing import Any, Final

from .mcp_config import ServerConfig

log = logging.getLogger(__name__)

_PING_DEADLINE: Final = 5.0
_IDLE: Final = 900.0
_LAST_WORDS: Final = 0.5
_LAST_ANSWERS: Final = 10
"""How often, within the time for last words, a session that the server has forgotten is looked at
for calls that have no answer yet."""


class ServerUnavailable(Exception):
    """The server cannot be reached; the text says why.

    Attributes:
        sent: Whether the server may have seen the call. If so, a write may have taken effect and
            its outcome is not known; if not, the call has certainly not run.
    """

    def __init__(self, why: str, *, sent: bool = False) -> None:
        """Take the reason in words; `sent` where the call had left for the server."""
        super().__init__(why)
        self.sent = sent


class Lost(Exception):
    """The connection ended under a request. `sent` says whether the server may have seen it."""

    def __init__(self, why: str, *, sent: bool) -> None:
        """Take the reason in words."""
        super().__init__(why)
        self.sent = sent


class Connection:
    """One live session and the task that owns it."""

    def __init__(
        self,
        client: ModuleType,
        config: ServerConfig,
        user_id: str | None,
        *,
        changed: Callable[[], None],
    ) -> None:
        """Start the owner task; `opened` waits for the handshake and the first list of tools.

        Args:
            client: The module that opens sessions.
            config: The server.
            user_id: Whose headers a server with callable headers gets.
            changed: Called when the server's tools are perhaps no longer those it has listed: it
                has said so, or it has gone away.
        """
        self._client = client
        self._config = config
        self._changed = changed
        self._stderr = client.Stderr()
        self._link: Any = None
        self._tools: tuple[dict[str, Any], ...] = ()
        self._changes = 0
        self._listed = 0
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._left = False
        self._forgotten = False
        self._in_flight = 0
        self._doubted = False
        self._used = time.monotonic()
        self._why = "it closed the connection"
        self._withdrawals: set[asyncio.Task[None]] = set()
        self._owner = asyncio.create_task(self._own(user_id), name=f"mcp {config.name}")

    @property
    def alive(self) -> bool:
        """Whether neither the server nor we have ended the session."""
        return not self._over.is_set() and not self._forgotten

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and calls may be sent."""
        return self.alive and self._ready.done() and self._link is not None

    @property
    def idle(self) -> bool:
        """Whether nobody has used it for a quarter of an hour."""
        return not self._in_flight and time.monotonic() - self._used > _IDLE

    async def _own(self, user_id: str | None) -> None:
        try:
            async with self._client.connect(
                self._config,
                user_id,
                self._stderr,
                ended=self._over.set,
                changed=self._relist,
                doubt=self._doubt,
            ) as link:
                await link.initialize()
                self._tools = tuple(await link.list_tools(self._client.Ticket()))
                self._link = link
                self._ready.set_result(None)
                await self._over.wait()
        except (Exception, BaseExceptionGroup) as error:
            self._why = self._client.explain(error, self._config)
            log.debug("MCP server %s: %s", self._config.name, self._why, exc_info=error)
        finally:
            self._end()

    def _end(self) -> None:
        self._over.set()
        for withdrawal in self._withdrawals:
            withdrawal.cancel()
        if not self._ready.done():
            self._ready.set_result(None)
        elif not self._left:
            self._changed()

    def _relist(self) -> None:
        self._changes += 1
        self._changed()

    def _doubt(self) -> None:
        self._doubted = True
        self._changed()

    async def opened(self) -> None:
        """Wait for the handshake and the first list of tools.

        Raises:
            ServerUnavailable: there was none.
        """
        await asyncio.shield(self._ready)
        if self._link is None:
            raise ServerUnavailable(self._reason())

    def _reason(self) -> str:
        said = self._stderr.last_line
        return self._config.masked(f"{self._why} (it said: {said})" if said else self._why)

    def give_up(self) -> None:
        """Stop without waiting: the owner task ends the process on its own."""
        if self._left:
            return
        self._left = True
        self._over.set()
        if self._link is None:
            self._owner.cancel()

    async def close(self) -> None:
        """Stop, and wait until the process or connection is gone."""
        for _ in range(_LAST_ANSWERS if self._forgotten and not self._left else 0):
            if not self._in_flight:
                break
            await asyncio.sleep(_LAST_WORDS / _LAST_ANSWERS)
        self.give_up()
        await asyncio.wait({self._owner})

    async def tools(self) -> tuple[dict[str, Any], ...]:
        """All tools as the server describes them, asked for anew when it has changed them.

        Raises:
            Lost: the connection ended before the answer.
        """
        if self._listed != self._changes:
            seen, ticket = self._changes, self._client.Ticket()
            self._tools = tuple(await self._request(self._link.list_tools(ticket), ticket))
            self._listed = seen
        return self._tools

    async def call(self, name: str, args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; the answer as the server gave it.

        Raises:
            Lost: the connection ended before the answer.
        """
        ticket = self._client.Ticket()
        answer: dict[str, Any] = await self._request(
            self._link.call(name, args, meta, ticket), ticket
        )
        content = answer.get("content") if answer.get("isError") else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                # Servers name the key that was refused.
                block["text"] = self._config.masked(block["text"])
        return answer

    async def usable(self) -> bool:
        """Whether the next call has a chance. After an unanswered one the server is asked first."""
        if not self.alive or not self._doubted or self._in_flight:
            return self.alive
        ticket = self._client.Ticket()
        try:
            async with asyncio.timeout(_PING_DEADLINE):
                await self._request(self._link.ping(ticket), ticket)
        except (TimeoutError, Lost):
            return False
        self._doubted = False
        return True

    async def _request(self, call: Coroutine[Any, Any, Any], ticket: Any) -> Any:
        request = asyncio.ensure_future(call)
        with self._counted():
            over = asyncio.ensure_future(self._over.wait())
            try:
                await asyncio.wait({request, over}, return_when=asyncio.FIRST_COMPLETED)
                if not request.done():  # an answer may have come just before the end
                    await asyncio.wait({request}, timeout=_LAST_WORDS)
            except asyncio.CancelledError:
                self._doubted = True
                self._withdraw(ticket)
                raise
            finally:
                over.cancel()
                if not request.done():
                    request.cancel()
        return self._result(request, ticket)

    def _withdraw(self, ticket: Any) -> None:
        withdrawal = asyncio.create_task(self._link.withdraw(ticket))
        self._withdrawals.add(withdrawal)
        withdrawal.add_done_callback(self._withdrawals.discard)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._used = time.monotonic()

    def _result(self, request: asyncio.Future[Any], ticket: Any) -> Any:
        if not request.done() or request.cancelled():
            raise Lost(self._reason(), sent=ticket.sent)
        error = request.exception()
        if error is None:
            return request.result()
        raise self._loss(error, ticket) or error

    def _loss(self, error: BaseException, ticket: Any) -> Lost | None:
        """What an error says of the connection; None where the server has answered."""
        told = self._client.broken(error)
        if told is not None:
            self._doubted = True
            if told.forgotten:
                self._forget()
            why = self._client.explain(error, self._config)
            return Lost(self._config.masked(why), sent=told.sent)
        if self._client.is_session_gone(error):
            self._forget()
            return Lost(self._reason(), sent=False)
        if isinstance(error, self._client.LOST):
            self._over.set()
            return Lost(self._reason(), sent=False)
        if self._client.is_closed(error) and not self.alive:
            return Lost(self._reason(), sent=ticket.sent)
        return None

    def _forget(self) -> None:
        """Take no new calls. Those under way are about to hear the same, each for itself."""
        self._forgotten = True
        self._changed()
