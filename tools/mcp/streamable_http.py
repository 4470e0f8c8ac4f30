"""A session over streamable HTTP.

It stands where the MCP package has a client of its own, which ends the whole session where one
request meets a dead server or a status such as 502, and lets a call wait for ever whose answer
breaks off in the middle. Here such a request is answered by ourselves, with a word on whether the
server may have seen it.
"""

import asyncio
import contextlib
import inspect
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Final, cast

import anyio
import httpx
from mcp import types
from mcp.client.streamable_http import RequestContext, StreamableHTTPTransport
from mcp.shared.message import ServerMessageMetadata, SessionMessage

from ...text.secrets import Secrets, values_of_headers
from ...text.told import say
from .bodies import ACCEPTED, bounded
from .call import Why
from .config import Headers, ServerConfig
from .talk import failed

_TIMEOUT: Final = 30.0
_FAREWELL: Final = 2.0
"""Seconds a server gets to take a notification or the end of the session."""

_GRACE: Final = 1.0
"""Seconds a server gets to answer a withdrawn request before its connection is freed."""

_BROKE_OFF: Final = partial(say, "answer_broke_off")
_NOT_DONE: Final = (httpx.codes.TEMPORARY_REDIRECT, httpx.codes.PERMANENT_REDIRECT)
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

for _name in ("mcp.client.streamable_http", "mcp.client.sse"):
    _theirs = logging.getLogger(_name)
    if _theirs.level == logging.NOTSET:  # what goes wrong there is said by the call it befalls
        _theirs.setLevel(logging.CRITICAL)


@dataclass
class UserHeaders(httpx.Auth):
    """Asks the embedding program for the headers of a user, for every request anew."""

    headers: Headers
    user_id: str | None
    secrets: Secrets = field(default_factory=Secrets)

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send with fresh headers; on 401 ask for them once more."""
        for _ in range(2):
            request.headers.update(await self._ask())
            response = yield request
            if response.status_code != httpx.codes.UNAUTHORIZED:
                return

    async def _ask(self) -> Mapping[str, str]:
        # In a thread: a sync callable may read a file or a vault.
        found = await asyncio.to_thread(self.headers, self.user_id)
        given = await found if inspect.isawaitable(found) else found
        headers = {str(name): str(value) for name, value in (given or {}).items()}
        self.secrets.learn(values_of_headers(headers), passing=True)
        return headers


def authentication(config: ServerConfig, user_id: str | None) -> dict[str, Any]:
    """The headers of a server as arguments of an HTTP client."""
    asked = config.user_headers
    auth = UserHeaders(asked, user_id, config.secrets) if asked else None
    others = {n: v for n, v in config.headers.items() if n.lower() not in ACCEPTED}
    return {"headers": {**others, **ACCEPTED}, "auth": auth}


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
        heard = _ASKING.get()
        bounded(response, heard.cut_off if heard else lambda _: None)

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
        _ASKING.set(heard)
        with anyio.CancelScope() as scope:
            self._work[name] = scope
            try:
                inner = replace(ctx, read_stream_writer=cast("Any", heard))
                await super()._handle_post_request(inner)
            except Exception as error:  # noqa: BLE001 - the program's header callable may raise anything
                instead = self._failed(name, error)
            finally:
                del self._work[name]
        if heard.why is not None:
            instead = failed(name, heard.why, sent=True)
        if not heard.answer and not scope.cancelled_caught:
            await ctx.read_stream_writer.send(instead)

    async def _send_session_terminated_error(
        self, read_stream_writer: Any, request_id: types.RequestId
    ) -> None:
        """The answer to a 404: the server has forgotten the session."""
        why = _refused(self._config, httpx.codes.NOT_FOUND)
        await read_stream_writer.send(failed(request_id, why, sent=False, forgotten=True))

    def _failed(self, name: types.RequestId, error: Exception) -> SessionMessage:
        """A 4xx, 307 or 308 says that the request was not carried out.

        Behind a 5xx it may have been, and behind a 302 or 303, which may show where its result is.
        """
        why, forgotten = explain(error, self._config), False
        sent = isinstance(error, httpx.HTTPError) and not isinstance(error, _UNSENT)
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            sent = not error.response.is_client_error and status not in _NOT_DONE
            # Many servers say 400 where the specification wants 404 for a session unknown to them.
            forgotten = status == httpx.codes.BAD_REQUEST
        return failed(name, why, sent=sent, forgotten=forgotten)


@dataclass
class _Heard:
    """Hands on what comes on the stream of one request, but for what cannot be read."""

    request: types.RequestId
    into: Any
    answer: bool = False
    why: Why | None = None

    def cut_off(self, why: Why) -> None:
        """Note why the answer was not read to its end."""
        self.why = why

    async def send(self, message: SessionMessage | Exception) -> None:
        if isinstance(message, Exception):
            return
        said = message.message.root
        if isinstance(said, types.JSONRPCRequest):
            message.metadata = ServerMessageMetadata(related_request_id=self.request)
        if isinstance(said, types.JSONRPCResponse | types.JSONRPCError):
            self.answer |= str(said.id) == str(self.request)  # some servers answer 7 with "7"
        await self.into.send(message)


_ASKING: Final[ContextVar[_Heard | None]] = ContextVar("loopwright_asking", default=None)
"""The request whose response comes in this task."""


@contextlib.asynccontextmanager
async def connected(
    config: ServerConfig, user_id: str | None, doubt: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a session: one to read from, one to write to; for `doubt` see `Transport`."""
    transport = Transport(config, doubt)
    # No read timeout: a call has its own deadline, and a stream may rightly be silent for long.
    timeout, hooks = httpx.Timeout(_TIMEOUT, read=None), {"response": [transport.note]}
    trusted = await asyncio.to_thread(_trusted)
    client = httpx.AsyncClient(
        **authentication(config, user_id), verify=trusted, timeout=timeout, event_hooks=hooks
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


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are believed: one for all sessions, each would take 0.8 MB and 20 ms."""
    return httpx.create_ssl_context()


def explain(error: BaseException, config: ServerConfig) -> Why:
    """Why a server cannot be reached over HTTP; never a header or a query."""
    if isinstance(error, httpx.HTTPStatusError):
        return _refused(config, error.response.status_code)
    kind = type(error).__name__
    if isinstance(error, httpx.TransportError):
        return partial(say, "server_unreachable", address=_address(config), error=kind)
    return partial(say, "problem_at", place=kind, problem=error)


def _refused(config: ServerConfig, status: int) -> Why:
    return partial(say, "server_refused", address=_address(config), status=int(status))


def _address(config: ServerConfig) -> str:
    """Where a server is, without what may be secret."""
    url = httpx.URL(config.url)
    return str(url.copy_with(query=None, userinfo=b"", fragment=None))
