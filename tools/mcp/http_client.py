"""The HTTP client of a session: a failed request gets an error as its answer.

The MCP package ends the whole session if one request meets a dead server or a status such as 502,
and waits for ever for an answer that breaks off. Through this client only that request fails, and
it is noted whether the server may have seen it.
"""

import asyncio
import contextlib
import inspect
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import httpx
from langchain_mcp_adapters.sessions import create_session
from mcp import ClientSession

from ...text.secrets import find_header_secrets
from ...text.sentences import say
from .call import ELICIT, SAMPLE, Listener, Loss, ServerUnavailable, Why, make_error
from .config import ServerConfig
from .oauth import UserLogin, load_ssl_context
from .response_limits import ACCEPTED, EVENTS, Refused, read_events

T = TypeVar("T")

_TIMEOUT: Final = 30.0
_FAREWELL: Final = 2.0
"""Seconds a server has to accept a notification or the end of the session."""

_GRACE: Final = 1.0
"""Seconds a server has to answer a cancelled request before its connection is freed."""

_BROKE_OFF: Final = partial(say, "answer_broke_off")
_NOT_DONE: Final = (httpx.codes.TEMPORARY_REDIRECT, httpx.codes.PERMANENT_REDIRECT)
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

for _name in ("mcp.client.streamable_http", "mcp.client.sse"):
    _theirs = logging.getLogger(_name)
    if _theirs.level == logging.NOTSET:  # the call that fails says it
        _theirs.setLevel(logging.CRITICAL)


class ServerClient(httpx.AsyncClient):
    """Sends the messages of one session.

    It is a client, not a transport: a client with its own transport ignores the proxies of the
    environment.
    """

    def __init__(self, config: ServerConfig, user_id: str | None, listener: Listener) -> None:
        """Send nothing yet; `listener` is told what is no protocol message."""
        own = {n: v for n, v in config.headers.items() if n.lower() not in ACCEPTED}
        super().__init__(
            headers={**own, **ACCEPTED},
            verify=load_ssl_context(),
            # A call has its own deadline, and a stream may rightly be silent for long.
            timeout=httpx.Timeout(_TIMEOUT, read=None),
        )
        self._config, self._user_id = config, user_id
        self._login = UserLogin(config, user_id) if config.auth else None
        self._listener = listener
        self._waits: dict[object, anyio.CancelScope] = {}
        self._resumable: dict[str, dict[str, Any]] = {}
        self._post: httpx.Request | None = None

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a message by its kind; the session gets only a body within the limits."""
        if request.method == "POST":
            self._post = request
            message = json.loads(await request.aread())  # one that was redirected is not read yet
        else:
            last_event = request.headers.get("last-event-id", "")
            message = self._resumable.pop(last_event, {})
        if self._config.transport == "http" and {"id", "method"} <= message.keys():
            return await self._ask(message, request, options)
        if self._config.transport == "http" and request.method != "GET":
            return await self._send_notification(message, request, options)
        response = await self._send(request, options)
        if request.method == "GET" and response.is_success:
            return _replace_body(response, self._listen(response))
        return await _drop_body(response)

    async def _send(self, request: httpx.Request, options: dict[str, Any]) -> httpx.Response:
        """Send with fresh headers of the user; after a 401 ask for them once more."""
        if self._config.user_headers is None and self._login is None:
            return await super().send(request, **options)
        request.headers.update(await self._user_headers(request))
        response = await super().send(request, **options)
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return response
        await response.aclose()
        request.headers.update(await self._user_headers(request, was_refused=True))
        return await super().send(request, **options)

    async def _user_headers(
        self, request: httpx.Request, *, was_refused: bool = False
    ) -> dict[str, str]:
        if self._login is not None:
            try:
                return await self._login.find_header(request, was_refused=was_refused)
            except Exception as error:
                if self._config.transport == "sse":  # a call would wait for its answer
                    self._listener.cut_off(explain(error, self._config))
                self._listener.doubt()
                raise
        # In a thread: a sync callable may read a file or a vault.
        headers: Any = self._config.user_headers
        answer = await asyncio.to_thread(headers, self._user_id)
        values = await answer if inspect.isawaitable(answer) else answer
        texts = {str(name): str(value) for name, value in (values or {}).items()}
        self._config.secrets.learn(find_header_secrets(texts), passing=True)
        return texts

    async def _ask(
        self, message: dict[str, Any], request: httpx.Request, options: dict[str, Any]
    ) -> httpx.Response:
        """Send a request, or resume the stream of its answer; a failure becomes its answer."""
        try:
            response = await self._wait(message["id"], self._send(request, options))
            if _may_be_followed(response):
                return await _drop_body(response)
            if not response.is_success:
                await response.aclose()
            response.raise_for_status()
        except Exception as error:  # noqa: BLE001 - the program's header callable may raise anything
            event = self._fail(message, self._classify_error(error, request))
            return httpx.Response(
                200, headers={"content-type": EVENTS}, content=event, request=request
            )
        return _replace_body(response, self._answer(message, response))

    async def _answer(
        self, message: dict[str, Any], response: httpx.Response
    ) -> AsyncGenerator[bytes, None]:
        """The answer to a request; if it breaks off and cannot be resumed, it ends in an error."""
        last_event, loss = "", Loss(why=_BROKE_OFF, sent=True)
        events = read_events(response)
        try:
            while event := await self._wait(message["id"], anext(events, b"")):
                last_event = _field(event, b"id").decode(errors="replace") or last_event
                if not self._hand_over(event, message):
                    yield event
        except Refused as refused:
            last_event, loss = "", Loss(why=refused.why, sent=True)
        except httpx.HTTPError:
            pass
        if last_event:
            self._resumable[last_event] = message
        else:
            yield self._fail(message, loss)

    async def _listen(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The server's own messages; over SSE also its answers."""
        try:
            async for event in read_events(response):
                if not self._hand_over(event, {}):
                    yield event
        except Refused as refused:
            if self._config.transport == "sse":
                self._listener.cut_off(refused.why)
        except httpx.HTTPError:
            pass
        self._listener.doubt()

    async def _send_notification(
        self, message: dict[str, Any], request: httpx.Request, options: dict[str, Any]
    ) -> httpx.Response:
        """Send a message without an answer; a frozen server must not block the next ones."""
        with contextlib.suppress(Exception), anyio.move_on_after(_FAREWELL):
            response = await _drop_body(await self._send(request, options))
            if _may_be_followed(response):
                return response
        if message.get("method") == "notifications/cancelled":
            number = message["params"]["requestId"]
            asyncio.get_running_loop().call_later(_GRACE, self._free, number)
        return httpx.Response(202, request=request)

    async def _wait(self, number: object, part: Awaitable[T]) -> T:
        """Wait for a part of an answer, unless its request is cancelled meanwhile."""
        try:
            with anyio.CancelScope() as self._waits[number]:
                return await part
            msg = "the request was withdrawn"
            raise httpx.ReadError(msg)
        finally:
            self._waits.pop(number, None)

    def _free(self, number: object) -> None:
        if wait := self._waits.get(number):
            wait.cancel()

    def _hand_over(self, event: bytes, message: dict[str, Any]) -> bool:
        """Pass on a question of the server: the session would read nothing until the answer."""
        if b"elicitation" not in event and b"sampling" not in event:
            return False
        try:
            question = json.loads(_field(event, b"data"))
        except (ValueError, RecursionError):
            return False
        if not isinstance(question, dict) or question.get("method") not in (ELICIT, SAMPLE):
            return False
        reply = partial(self._reply, question.get("id"))
        self._listener.ask(question["method"], question.get("params"), message, reply)
        return True

    async def _reply(self, number: object, answer: dict[str, Any]) -> None:
        """Answer a question of the server."""
        if self._post is not None:
            headers = self._post.headers.copy()
            del headers["content-length"]
            body = {"jsonrpc": "2.0", "id": number, **answer}
            request = self.build_request("POST", self._post.url, headers=headers, json=body)
            await (await self._send(request, {"stream": True})).aclose()

    def _fail(self, message: dict[str, Any], loss: Loss) -> bytes:
        self._listener.lose(message["id"], loss)
        return b"data: " + json.dumps(make_error(message["id"], loss.why)).encode() + b"\n\n"

    def _classify_error(self, error: Exception, request: httpx.Request) -> Loss:
        """Whether the server may have carried out a failed request.

        It has not after a 4xx, 307 or 308. It may have after a 5xx, and after a 302 or 303, which
        may name the place of the result.
        """
        why, forgotten = explain(error, self._config), False
        sent = isinstance(error, httpx.HTTPError) and not isinstance(error, _UNSENT)
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            sent = not error.response.is_client_error and status not in _NOT_DONE
            # Many servers say 400 where the specification wants 404 for a session unknown to them.
            forgotten = status in (httpx.codes.BAD_REQUEST, httpx.codes.NOT_FOUND)
        return Loss(why=why, sent=sent or request.method == "GET", forgotten=forgotten)


class _Events(httpx.AsyncByteStream):
    """The events of a response as the body of another one."""

    def __init__(self, events: AsyncGenerator[bytes, None], response: httpx.Response) -> None:
        self._events = events
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    async def aclose(self) -> None:
        await self._events.aclose()
        await self._response.aclose()


def _replace_body(response: httpx.Response, events: AsyncGenerator[bytes, None]) -> httpx.Response:
    """The same response with these events as its body."""
    headers = {**response.headers, "content-type": EVENTS}
    headers.pop("content-encoding", None)
    stream = _Events(events, response)
    return httpx.Response(200, headers=headers, stream=stream, request=response.request)


async def _drop_body(response: httpx.Response) -> httpx.Response:
    """The same response without its body, which the session would read whole."""
    await response.aclose()
    bare = httpx.Response(response.status_code, request=response.request)
    bare.next_request = response.next_request
    return bare


def _may_be_followed(response: httpx.Response) -> bool:
    """Whether the MCP package follows a redirect, which it does within the server's origin."""
    after, before = response.next_request, response.request
    return after is not None and after.method == before.method and after.url.host == before.url.host


def _field(event: bytes, name: bytes) -> bytes:
    lines = (line.partition(b":") for line in event.splitlines())
    return b"\n".join(value.removeprefix(b" ") for key, _, value in lines if key == name)


@contextlib.asynccontextmanager
async def http_session(
    config: ServerConfig, user_id: str | None, listener: Listener, callbacks: dict[str, Any]
) -> AsyncIterator[ClientSession]:
    """Open a session over streamable HTTP or SSE that has not been initialised yet."""
    await asyncio.to_thread(load_ssl_context)  # which reads files
    connection: Any = {
        "transport": config.transport,
        "url": config.url,
        "session_kwargs": callbacks,
        "httpx_client_factory": lambda **_: ServerClient(config, user_id, listener),
    }
    async with create_session(connection) as session:
        yield session


def explain(error: BaseException, config: ServerConfig) -> Why:
    """Why a server cannot be reached over HTTP; never a header or a query."""
    if isinstance(error, ServerUnavailable):
        return partial(str, str(error))
    url = httpx.URL(config.url)
    address = str(url.copy_with(query=None, userinfo=b"", fragment=None))
    if isinstance(error, httpx.HTTPStatusError):
        status = int(error.response.status_code)
        return partial(say, "server_refused", address=address, status=status)
    kind = type(error).__name__
    if isinstance(error, httpx.TransportError):
        return partial(say, "server_unreachable", address=address, error=kind)
    return partial(say, "problem_at", place=kind, problem=error)
