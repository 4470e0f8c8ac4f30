"""The HTTP client under an MCP session: one failed request does not end the session of the others.

The MCP package's transport ends the whole session where one request meets a dead server or a
status such as 502, and lets a call wait for ever whose answer breaks off in the middle. Here such a
request alone is answered with the reason, and whether the server may have seen it is known.
"""

import asyncio
import contextlib
import inspect
import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final

import httpx
from mcp.types import RequestId

from .mcp_config import ServerConfig
from .mcp_traffic import Broken, Traffic

_TIMEOUT: Final = 30.0
_FAREWELL: Final = 2.0
"""Seconds a server gets to take a notification or the end of the session."""

_SETTLE: Final = 0.1
_RESUMES_WITHIN: Final = 10.0
"""Seconds without a new attempt after which a stream that could be resumed counts as broken off."""

_RESUMABLE: Final = re.compile(rb"(?:^|\n)id: ?\S")
_BROKE_OFF: Final = "its answer broke off or was no valid message"


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
    if callable(config.headers):
        return {"headers": None, "auth": UserHeaders(config.headers, user_id)}
    return {"headers": dict(config.headers), "auth": None}


class Client(httpx.AsyncClient):
    """Sends the messages of one MCP session and answers those that cannot be answered otherwise."""

    def __init__(
        self, config: ServerConfig, user_id: str | None, traffic: Traffic, doubt: Callable[[], None]
    ) -> None:
        """Connect to nothing yet.

        Args:
            config: The server.
            user_id: Whose headers a server with callable headers gets.
            traffic: Where the requests are noted; what becomes of them is told there.
            doubt: Called when the stream of the server's own messages was lost.
        """
        # No read timeout: a call has its own deadline, and a stream may rightly be silent for long.
        super().__init__(
            **authentication(config, user_id), timeout=httpx.Timeout(_TIMEOUT, read=None)
        )
        self._config = config
        self._traffic = traffic
        self._doubt = doubt
        self._open: Counter[RequestId] = Counter()
        self._given_up: dict[RequestId, asyncio.Future[None]] = {}
        self._streams: dict[RequestId, Any] = {}
        self._listened = False
        self._resuming = 0
        self._resumed = 0.0

    async def send(self, request: httpx.Request, **how: Any) -> httpx.Response:
        """Send a message; a failure becomes the answer to that message alone."""
        if request.method == "GET":
            return await self._listen(request, how)
        name = _request_id(request) if request.method == "POST" else None
        if name is None:
            return await self._tell(request, how)
        return await self._ask(name, request, how)

    async def _tell(self, request: httpx.Request, how: dict[str, Any]) -> httpx.Response:
        """Send what needs no answer. A frozen server must not hold up what comes behind it."""
        try:
            async with asyncio.timeout(_FAREWELL):
                return await super().send(request, **how)
        except (TimeoutError, httpx.TransportError):
            ended = request.method == "DELETE"
            status = httpx.codes.NO_CONTENT if ended else httpx.codes.ACCEPTED
            return httpx.Response(status, request=request)

    async def _listen(self, request: httpx.Request, how: dict[str, Any]) -> httpx.Response:
        """Open a stream of the server's own messages, or resume one that broke off."""
        resumes = "last-event-id" in request.headers
        self._resumed = time.monotonic()
        try:
            response = await super().send(request, **how)
        except httpx.TransportError:
            self._missed()
            raise
        if response.is_error:
            self._missed()
        elif resumes:
            self._resuming += 1
            response.stream = _Watched(response.stream, self._resumption_over)
        self._listened = self._listened or response.is_success
        return response

    def _missed(self) -> None:
        if self._listened:
            self._listened = False
            self._doubt()

    def _resumption_over(self, _: bool) -> None:
        self._resuming -= 1
        self._resumed = time.monotonic()

    async def _ask(
        self, name: RequestId, request: httpx.Request, how: dict[str, Any]
    ) -> httpx.Response:
        self._open[name] += 1
        ticket = self._traffic.pending.get(name)

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            if event.endswith("send_request_headers.started") and ticket is not None:
                ticket.sent = True

        request.extensions["trace"] = trace
        try:
            response = await self._unless_given_up(name, super().send(request, **how))
        except Exception as error:  # noqa: BLE001 - the program's header callable may raise anything
            sent = ticket is not None and ticket.sent
            return self._failed(name, request, explain(error, self._config), Broken(sent))
        except BaseException:
            self._open[name] -= 1
            raise
        if response is None:
            return self._failed(name, request, "the call was given up", Broken(sent=True))
        if response.is_error and response.status_code != httpx.codes.NOT_FOUND:
            await response.aclose()
            return self._refused(name, request, response.status_code)
        self._streams[name] = response.extensions.get("network_stream")
        response.stream = _Watched(response.stream, lambda resumable: self._over(name, resumable))
        return response

    async def _unless_given_up(self, name: RequestId, sending: Any) -> httpx.Response | None:
        given_up = self._given_up[name] = asyncio.get_running_loop().create_future()
        work = asyncio.ensure_future(sending)
        try:
            await asyncio.wait({work, given_up}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            self._given_up.pop(name, None)
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    def _failed(
        self, name: RequestId, request: httpx.Request, why: str, broken: Broken
    ) -> httpx.Response:
        self._open[name] -= 1
        self._traffic.fail(name, why, broken)
        return httpx.Response(httpx.codes.ACCEPTED, request=request)

    def _refused(self, name: RequestId, request: httpx.Request, status: int) -> httpx.Response:
        """A 4xx says that the request was not carried out; behind a 5xx it may have been."""
        why = f"{address(self._config)} answered {status}"
        sent = status >= httpx.codes.INTERNAL_SERVER_ERROR
        # Many servers say 400 where the specification wants 404 for a session they do not know.
        forgotten = status == httpx.codes.BAD_REQUEST
        return self._failed(name, request, why, Broken(sent, forgotten))

    def _over(self, name: RequestId, resumable: bool) -> None:
        """The answer to a request has ended; if it was not complete nobody must wait for it."""
        self._streams.pop(name, None)
        self._open[name] -= 1
        self._resumed = time.monotonic()
        asyncio.get_running_loop().call_later(_SETTLE, self._settle, name, resumable)

    def _settle(self, name: RequestId, resumable: bool) -> None:
        if self._open[name] > 0:  # a redirect was followed
            return
        del self._open[name]
        if name not in self._traffic.pending:
            return
        waited = time.monotonic() - self._resumed > _RESUMES_WITHIN
        if resumable and (self._resuming or not waited) and not self.is_closed:
            loop = asyncio.get_running_loop()
            loop.call_later(5 * _SETTLE, self._settle, name, resumable)
        else:
            self._traffic.fail(name, _BROKE_OFF, Broken(sent=True))

    async def give_up(self, name: RequestId) -> None:
        """Free the connection of a request whose answer nobody waits for any more."""
        given_up = self._given_up.get(name)
        if given_up is not None and not given_up.done():
            given_up.set_result(None)
        stream = self._streams.pop(name, None)
        if stream is not None:
            with contextlib.suppress(Exception):  # it was closed already, which is all we want
                await stream.aclose()


class _Watched(httpx.AsyncByteStream):
    """A response's body that tells of its end, and whether the stream could be resumed."""

    def __init__(self, body: Any, over: Callable[[bool], None]) -> None:
        self._body = body
        self._over: Callable[[bool], None] | None = over
        self._resumable = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self._resumable = self._resumable or bool(_RESUMABLE.search(chunk))
            yield chunk

    async def aclose(self) -> None:
        over, self._over = self._over, None
        try:
            await self._body.aclose()
        finally:
            if over is not None:
                over(self._resumable)


def _request_id(request: httpx.Request) -> RequestId | None:
    """The id of the JSON-RPC request in a body; None for a notification or an answer."""
    try:
        message = json.loads(request.content)
    except (ValueError, httpx.RequestNotRead):
        return None
    found = message.get("id") if isinstance(message, dict) and "method" in message else None
    return found if isinstance(found, int | str) else None


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
