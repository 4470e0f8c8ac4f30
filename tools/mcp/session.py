"""One live session with an MCP server; it imports the client, so import it late.

One task opens and closes it: the client's cancel scopes may not change tasks. Any task may call.
"""

import asyncio
import contextlib
import contextvars
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import anyio
from mcp import ClientSession, types
from mcp.shared.exceptions import McpError
from pydantic import BaseModel, ConfigDict

from ...stream.meters import ERROR, SERVER, SESSION, WIRE, measure
from ...text.sentences import say
from .active_calls import ActiveCalls, Parked
from .call import (
    ConnectionLost,
    ElicitationPending,
    Loss,
    Reply,
    ServerCall,
    ServerUnavailable,
    Unanswered,
    Why,
)
from .config import ServerConfig
from .http_client import explain, http_session
from .offers import list_pages
from .processes import PROCESS_LIMIT
from .stdio import explain_start, last_line, stdio_session

log = logging.getLogger(__name__)

_PING_DEADLINE: Final = 5.0
_LAST_WORDS: Final = 0.5
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
"""Raised when a request cannot be handed to a connection that has ended."""


class _Answer(BaseModel):
    """Whatever a server answered. One odd field must not cost the whole answer."""

    model_config = ConfigDict(extra="allow")


class Connection:
    """One live session and the task that owns it.

    Its users hold it. Without a holder it ends after the idle time of its entry, or when another
    server needs its place among the processes.

    Attributes:
        owner: The task that opens and closes it.
        last_use: The time of its last use, by the monotonic clock.
        is_leaving: It takes no new calls.
        is_permanent: It never ends to make room for another one.
        is_silent: It was given up because it did not answer.
    """

    def __init__(
        self,
        config: ServerConfig,
        user_id: str | None,
        *,
        on_change: Callable[[], None],
        on_rest: Callable[[], None],
        parked: Parked,
    ) -> None:
        """Start the owner task; `wait_open` waits for the handshake.

        `on_change` is called when the server's tools may have changed, `on_rest` after the idle
        time. Calls that wait for a human are kept in `parked`.
        """
        self._config = config
        self._on_change, self._on_rest, self._holders = on_change, on_rest, 0
        self.is_leaving = self.is_silent = False
        self.is_permanent = config.idle == math.inf
        self._stderr = bytearray()
        self._session: ClientSession | None = None
        self._is_settled = asyncio.Event()
        self._over: asyncio.Future[None] = asyncio.Future()
        self._doubted = False
        self._losses: dict[str, Loss | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls = ActiveCalls(config, parked)
        self.last_use = time.monotonic()
        self._why: Why = partial(say, "server_closed")
        # In an empty context: the one of the first run, and what it holds, would live as long.
        self.owner = asyncio.create_task(
            self._run_session(user_id), name=f"mcp {config.name}", context=contextvars.Context()
        )

    @property
    def is_open(self) -> bool:
        """Whether the handshake was made."""
        return self._session is not None

    @property
    def is_busy(self) -> bool:
        """Whether it has a holder, or an open question of its server."""
        return bool(self._holders or self._calls.now or self.has_question)

    @property
    def has_question(self) -> bool:
        """Whether a call on it waits for a human."""
        return bool(self._calls.waiting_keys)

    @property
    def takes_calls(self) -> bool:
        """Whether a new call may be made on it."""
        return not (self.is_leaving or self._over.done())

    def hold(self) -> None:
        """Keep it from ending while it is used."""
        self._holders += 1

    def let_go(self) -> None:
        """Stop using it."""
        self._holders -= 1
        self.last_use = time.monotonic()
        if self.is_leaving and self.has_question and self._config.transport == "stdio":
            self.is_leaving = False  # another one must: the human's answer goes to this one
        elif self.is_leaving and not self.is_busy:
            self.stop()
        PROCESS_LIMIT.look_again()

    def retire(self) -> None:
        """Take no new calls, and end after the running ones."""
        self.is_leaving = True
        if not self.is_busy:
            self.stop()

    def stop(self) -> None:
        """End it at once, even if it is held."""
        self.is_leaving = True
        self._end()
        if self._session is None:
            self.owner.cancel()

    async def _run_session(self, user_id: str | None) -> None:
        start, failure = time.monotonic(), ""
        is_process = self._config.transport == "stdio"
        try:
            async with (
                PROCESS_LIMIT.room_for(self) if is_process else contextlib.nullcontext(),
                self._connect(user_id) as session,
            ):
                await session.initialize()
                self._session = session
                self._on_change()  # another process is perhaps of another version
                self._is_settled.set()
                await self._wait_until_idle()
        except (Exception, BaseExceptionGroup) as error:
            failure = type(error).__name__
            self._why = _explain(error, self._config)
            log.debug("MCP server %s: %s", self._config.name, self._why(), exc_info=error)
        finally:
            about = {
                SERVER: self._config.name,
                ERROR: failure,
                WIRE: "pipe" if is_process else "tcp",
            }
            measure(SESSION, time.monotonic() - start, about)
            self.cut_off()
            self._calls.close()
            for task in self._tasks:
                task.cancel()
            self._is_settled.set()

    async def _wait_until_idle(self) -> None:
        """Wait until the end, or until the idle time has passed."""
        while not self._over.done():
            left = self._config.idle
            if not self.is_busy:
                left += self.last_use - time.monotonic()
            if left <= 0:
                if not self.is_leaving:
                    self._on_rest()
                self.stop()
                return
            await asyncio.wait({self._over}, timeout=None if left == math.inf else left)

    def _connect(self, user_id: str | None) -> AbstractAsyncContextManager[ClientSession]:
        """Open a session that has not been initialised yet."""
        callbacks: dict[str, Any] = {
            "elicitation_callback": _decline,
            **({"sampling_callback": _decline} if self._config.sampling else {}),
            "logging_callback": self._calls.log,
            "message_handler": self._handle_message,
        }
        if self._config.transport == "stdio":
            return stdio_session(self._config, self._stderr, self, callbacks)
        return http_session(self._config, user_id, self, callbacks)

    async def _handle_message(self, message: object) -> None:
        root = message.root if isinstance(message, types.ServerNotification) else None
        if isinstance(root, types.ToolListChangedNotification):
            self._on_change()

    def lose(self, number: object, loss: Loss) -> None:
        """See `Listener.lose`; some servers answer 7 with "7"."""
        if str(number) in self._losses:
            self._losses[str(number)] = loss

    def ask(self, method: str, params: Any, request: Mapping[str, Any], reply: Reply) -> None:
        """See `Listener.ask`."""

        async def answer() -> None:
            found = await self._calls.answer(method, params, request)
            with contextlib.suppress(Exception):  # a server that has ended hears no answer
                await reply(found)

        self._start(answer())

    def doubt(self) -> None:
        """See `Listener.doubt`: its tools may have changed, and it may have gone."""
        self._doubted = True
        self._on_change()

    def cut_off(self, why: Why | None = None) -> None:
        """See `Listener.cut_off`."""
        self._why = why or self._why
        if self.is_open and not self._over.done():
            self._on_change()
        self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task in the background, until the session ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_open(self) -> None:
        """Wait for the handshake.

        Raises:
            ServerUnavailable: there was none.
        """
        await self._is_settled.wait()
        if self._session is None:
            raise ServerUnavailable(self._find_reason())

    def _find_reason(self) -> str:
        words = last_line(self._stderr)
        why = self._why()
        return self._config.mask(say("server_said", why=why, said=words) if words else why)

    async def list_all(self, kind: str) -> tuple[dict[str, Any], ...]:
        """Ask for all of a kind; a ServerUnavailable where it refuses or is gone."""
        known = self._session.get_server_capabilities() if self._session else None
        if kind != "tools" and not getattr(known, kind, None):
            return ()
        return await list_pages(kind, self._fetch, self._config)

    async def _fetch(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        request = types.ClientRequest.model_validate({"method": method, "params": params}).root
        try:
            answer: dict[str, Any] = await self._request(self._send(request))
        except McpError as error:
            raise ServerUnavailable(self._config.mask(error.error.message)) from error
        return answer

    async def call(self, call: ServerCall) -> Any:
        """Call a tool; the answer is a `ToolMessage`.

        Raises:
            ElicitationPending: The server asks a human first.
            ConnectionLost: The connection ended before the answer.
        """
        return await self._calls.make(call, self._session, self._send, self._request)

    async def is_usable(self) -> bool:
        """Whether the next call may work. After an unanswered call, a ping is sent first."""
        others = len(self._losses) > len(self._calls.waiting_keys)  # a server may do one at a time
        if self._over.done() or not self._doubted or others:
            return not self._over.done()
        try:
            async with asyncio.timeout(_PING_DEADLINE):
                await self._request(self._send(types.PingRequest()))
        except (TimeoutError, ConnectionLost):
            return False
        except McpError:
            pass  # a server that does not know the question is alive
        self._doubted = False
        return True

    async def _send(self, request: Any, progress: Any = None) -> dict[str, Any]:
        """Send a request and wait for its answer; if cancelled, the server is told so."""
        if (session := self._session) is None:
            raise ConnectionLost(self._find_reason(), sent=False)
        number = session._request_id  # nothing else tells which id the next one has
        self._losses[str(number)] = None
        try:
            answer = await session.send_request(
                types.ClientRequest(request), _Answer, progress_callback=progress
            )
        except asyncio.CancelledError:
            self._start(_withdraw(session, number))
            raise
        except McpError as error:
            if loss := self._losses[str(number)]:
                raise Unanswered(loss) from error
            raise
        finally:
            del self._losses[str(number)]
        return answer.model_dump()

    async def _request(
        self, answer: Awaitable[Any], form: asyncio.Future[Any] | None = None
    ) -> Any:
        """Wait for an answer of the server."""
        request = asyncio.ensure_future(answer)
        try:
            events = {request, self._over, *([form] if form is not None else [])}
            await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
            if form is not None and form.done() and not request.done():
                raise ElicitationPending(form.result())
            if not request.done():  # an answer may have come just before the end
                await asyncio.wait({request}, timeout=_LAST_WORDS)
        except asyncio.CancelledError:
            self._doubted = True
            raise
        finally:
            if form is None or not form.done():
                request.cancel()
        if not request.done() or request.cancelled():
            raise ConnectionLost(self._find_reason(), sent=True)
        error = request.exception()
        if error is not None:
            raise self._classify_error(error) or error
        return request.result()

    def _classify_error(self, error: BaseException) -> ConnectionLost | None:
        """The loss of the connection that an error means; None if the server has answered."""
        if isinstance(error, Unanswered):
            self._doubted = True
            if error.loss.forgotten:  # each call under way is about to hear so for itself
                self.is_leaving = True
                self._on_change()
            return ConnectionLost(self._config.mask(error.loss.why()), sent=error.loss.sent)
        if _is_closed(error) or isinstance(error, _GONE):
            self.cut_off()
            return ConnectionLost(self._find_reason(), sent=_is_closed(error))
        return None


async def _decline(*_: object) -> types.ElicitResult:
    """Tells servers that questions are possible; the transports pass them on."""
    return types.ElicitResult(action="decline")


async def _withdraw(session: ClientSession, request: int) -> None:
    reason = "the caller no longer waits for the answer"
    params = types.CancelledNotificationParams(requestId=request, reason=reason)
    notice = types.ClientNotification(types.CancelledNotification(params=params))
    with contextlib.suppress(*_GONE):
        await session.send_notification(notice)


def _is_closed(error: BaseException) -> bool:
    """Whether an error is the client's own, for the end of a connection."""
    if not isinstance(error, McpError):
        return False
    return (error.error.code, error.error.message) == (types.CONNECTION_CLOSED, "Connection closed")


def _explain(error: BaseException, config: ServerConfig) -> Why:
    """Why a server cannot be reached; never a header or a query."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError | PermissionError):
        return explain_start(error, config)
    if _is_closed(error):
        return partial(say, "server_closed")
    said = error.error.message if isinstance(error, McpError) else ""
    return partial(str, said) if said else explain(error, config)
