"""Streamable HTTP under an MCP session: one failed request does not end the session of the others.

The MCP package's transport ends the whole session where one request meets a dead server or a
status such as 502, and lets a call wait for ever whose answer breaks off in the middle. Here such a
request is answered by ourselves, with a word on whether the server may have seen it.
"""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import anyio
import httpx
from mcp import types
from mcp.client.streamable_http import RequestContext, StreamableHTTPTransport
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from .config import ServerConfig
from .talk import failed

_TIMEOUT: Final = 30.0
_FAREWELL: Final = 2.0
"""Seconds a server gets to take a notification or the end of the session."""

_GRACE: Final = 1.0
"""Seconds a server gets to answer a withdrawn request before its connection is freed."""

_BROKE_OFF: Final = "its answer broke off or was no valid message"
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

_log = logging.getLogger("mcp.client.streamable_http")
if _log.level == logging.NOTSET:  # what goes wrong there is said by the call it befalls
    _log.setLevel(logging.CRITICAL)


class UserHeaders(httpx.Auth):
    """Asks the embedding program for the headers of a user, for every request anew."""

    def __init__(self, headers: Callable[[str | None], Any], user_id: str | None) -> None:
        """Take the program's callable and the user it is asked for."""
        self._headers = headers
        self._user_id = user_id

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send with fresh headers; on 401 ask for them once more."""
        request.headers.update(await self._ask())
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            request.headers.update(await self._ask())
            yield request

    async def _ask(self) -> Mapping[str, str]:
        # In a thread: a sync callable may read a file or a vault.
        found = await asyncio.to_thread(self._headers, self._user_id)
        given = await found if inspect.isawaitable(found) else found
        return {str(name): str(value) for name, value in (given or {}).items()}


def authentication(config: ServerConfig, user_id: str | None) -> dict[str, Any]:
    """The headers of a server as arguments of an HTTP client."""
    asked = config.user_headers
    return {"headers": config.headers, "auth": UserHeaders(asked, user_id) if asked else None}


class Transport(StreamableHTTPTransport):
    """Sends the messages of one session and answers those that get no other answer."""

    def __init__(self, config: ServerConfig, doubt: Callable[[], None]) -> None:
        """Send nothing yet; `doubt` is called when the server's own messages are heard no more."""
        super().__init__(config.url)
        self._config = config
        self._doubt = doubt
        self._listened = False
        self._work: dict[types.RequestId, anyio.CancelScope] = {}

    async def note(self, response: httpx.Response) -> None:
        """Take note that the server has a stream for messages of its own."""
        self._listened |= response.request.method == "GET" and response.is_success

    async def handle_get_stream(self, client: httpx.AsyncClient, read_stream_writer: Any) -> None:
        """Hear the server's own messages until that is no longer possible."""
        await super().handle_get_stream(client, read_stream_writer)
        if self._listened:
            self._doubt()

    async def terminate_session(self, client: httpx.AsyncClient) -> None:
        """Say that the session ends. A frozen server must not hold that up."""
        with anyio.move_on_after(_FAREWELL):
            await super().terminate_session(client)

    async def _handle_post_request(self, ctx: RequestContext) -> None:
        request = ctx.session_message.message.root
        if isinstance(request, types.JSONRPCRequest):
            await self._ask(request.id, ctx)
            return
        # It needs no answer, and a frozen server must not hold up what comes behind it.
        with contextlib.suppress(Exception), anyio.move_on_after(_FAREWELL):
            await super()._handle_post_request(ctx)
        if isinstance(request, types.JSONRPCNotification):
            self._free(request)

    def _free(self, notice: types.JSONRPCNotification) -> None:
        """Where a request was withdrawn, free its connection if the server does not end it."""
        withdrawn = self._work.get((notice.params or {}).get("requestId", ""))
        if notice.method == "notifications/cancelled" and withdrawn is not None:
            asyncio.get_running_loop().call_later(_GRACE, withdrawn.cancel)

    async def _ask(self, name: types.RequestId, ctx: RequestContext) -> None:
        heard = _Heard(name, ctx.read_stream_writer)
        instead = failed(name, _BROKE_OFF, sent=True)
        with anyio.CancelScope() as scope:
            self._work[name] = scope
            try:
                inner = replace(ctx, read_stream_writer=cast("Any", heard))
                await super()._handle_post_request(inner)
            except Exception as error:  # noqa: BLE001 - the program's header callable may raise anything
                instead = self._failed(name, error)
            finally:
                del self._work[name]
        if not heard.answer and not scope.cancelled_caught:
            await ctx.read_stream_writer.send(instead)

    async def _send_session_terminated_error(
        self, read_stream_writer: Any, request_id: types.RequestId
    ) -> None:
        """The answer to a 404: the server has forgotten the session."""
        why = f"{address(self._config)} answered {httpx.codes.NOT_FOUND}"
        await read_stream_writer.send(failed(request_id, why, sent=False, forgotten=True))

    def _failed(self, name: types.RequestId, error: Exception) -> SessionMessage:
        """A 4xx says that the request was not carried out; behind a 5xx it may have been."""
        why, forgotten = explain(error, self._config), False
        sent = isinstance(error, httpx.HTTPError) and not isinstance(error, _UNSENT)
        if isinstance(error, httpx.HTTPStatusError):
            sent = error.response.is_server_error
            # Many servers say 400 where the specification wants 404 for a session unknown to them.
            forgotten = error.response.status_code == httpx.codes.BAD_REQUEST
        return failed(name, why, sent=sent, forgotten=forgotten)


@dataclass
class _Heard:
    """Hands on what comes on the stream of one request, but for what cannot be read."""

    request: types.RequestId
    into: Any
    answer: bool = False

    async def send(self, message: SessionMessage | Exception) -> None:
        if isinstance(message, Exception):
            return
        said = message.message.root
        if isinstance(said, types.JSONRPCRequest):
            message.metadata = ServerMessageMetadata(related_request_id=self.request)
        if isinstance(said, types.JSONRPCResponse | types.JSONRPCError):
            self.answer |= str(said.id) == str(self.request)  # some servers answer 7 with "7"
        await self.into.send(message)


@contextlib.asynccontextmanager
async def connected(
    config: ServerConfig, user_id: str | None, doubt: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a session: one to read from, one to write to; for `doubt` see `Transport`."""
    transport = Transport(config, doubt)
    # No read timeout: a call has its own deadline, and a stream may rightly be silent for long.
    timeout, hooks = httpx.Timeout(_TIMEOUT, read=None), {"response": [transport.note]}
    client = await asyncio.to_thread(
        httpx.AsyncClient, **authentication(config, user_id), timeout=timeout, event_hooks=hooks
    )
    into, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    out, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with client, anyio.create_task_group() as tasks, into, out:

        def listen() -> None:
            tasks.start_soon(transport.handle_get_stream, client, into)

        tasks.start_soon(transport.post_writer, client, outgoing, into, out, listen, tasks)
        try:
            yield messages, out
        finally:
            await transport.terminate_session(client)
            tasks.cancel_scope.cancel()


def explain(error: BaseException, config: ServerConfig) -> str:
    """Why a server cannot be reached over HTTP; never a header or a query."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"{address(config)} answered {error.response.status_code}"
    if isinstance(error, httpx.TransportError):
        return f"{address(config)} is not reachable ({type(error).__name__})"
    return f"{type(error).__name__}: {error}"


def address(config: ServerConfig) -> str:
    """Where a server is, without what may be secret."""
    url = httpx.URL(config.url)
    return str(url.copy_with(query=None, userinfo=b"", fragment=None))
