"""The HTTP client under an MCP session: one failed request does not end the session of the others.

The MCP package's transport ends the whole session where one request meets a dead server or a
status such as 502, and lets a call wait for ever whose answer breaks off in the middle. This client
answers such a request itself, and says whether the server may have seen it.
"""

import asyncio
import contextlib
import inspect
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import httpx
from mcp import types
from pydantic import ValidationError

from .config import ServerConfig
from .talk import failed

_TIMEOUT: Final = 30.0
_FAREWELL: Final = 2.0
"""Seconds a server gets to take a notification or the end of the session."""

_RESUMES: Final = 2
"""How often in a row a stream that broke off is asked for again in vain."""

_RESUME_AFTER: Final = b"500"
_LONGEST: Final = 10_000
"""Milliseconds between these attempts, where the server says nothing else, and at most."""

_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")
_LONGEST_END: Final = 3
_EVENT_ID: Final = re.compile(rb"^id: ?(\S+)", re.MULTILINE)
_RETRY: Final = re.compile(rb"^retry: ?(\d{1,9})\s*$", re.MULTILINE)
_ASKS: Final = b"elicitation/create"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_OF_THE_BODY: Final = ("content-encoding", "content-length", "content-type", "transfer-encoding")
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
    """Sends the messages of one MCP session and answers those that cannot be answered otherwise.

    Attributes:
        asked_in: In which request a server asks something: a question comes on its stream.
    """

    def __init__(
        self, config: ServerConfig, user_id: str | None, doubt: Callable[[], None]
    ) -> None:
        """Connect to nothing yet.

        Args:
            config: The server.
            user_id: Whose headers a server with callable headers gets.
            doubt: Called when the stream of the server's own messages was lost.
        """
        # No read timeout: a call has its own deadline, and a stream may rightly be silent for long.
        super().__init__(
            **authentication(config, user_id), timeout=httpx.Timeout(_TIMEOUT, read=None)
        )
        self._config = config
        self._doubt = doubt
        self._listened = False
        self._work: dict[types.RequestId, asyncio.Task[Any]] = {}
        self.asked_in: dict[types.RequestId, types.RequestId] = {}

    async def send(self, request: httpx.Request, **how: Any) -> httpx.Response:
        """Send a message; a failure becomes the answer to that message alone."""
        if request.method == "GET":
            return await self._listen(request, how)
        name = _request_id(request) if request.method == "POST" else None
        if name is None:
            return await self._tell(request, how)
        return await self._ask(name, request, how)

    def give_up(self, name: types.RequestId) -> None:
        """Free the connection of a request whose answer nobody waits for any more."""
        if name in self._work:
            self._work[name].cancel()

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
        """Open the stream of the server's own messages."""
        try:
            response = await super().send(request, **how)
        except httpx.TransportError:
            self._hears(False)
            raise
        self._hears(response.is_success)
        return response

    def _hears(self, now: bool) -> None:
        if self._listened and not now:
            self._doubt()
        self._listened = now

    async def _ask(
        self, name: types.RequestId, request: httpx.Request, how: dict[str, Any]
    ) -> httpx.Response:
        sent = False

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            nonlocal sent
            sent = sent or event.endswith("send_request_headers.started")

        request.extensions["trace"] = trace
        try:
            response = await self._until_given_up(name, super().send(request, **how))
            return await self._checked(name, request, response)
        except Exception as error:  # noqa: BLE001 - the program's header callable may raise anything
            return _answer(request, failed(name, explain(error, self._config), sent=sent))

    async def _checked(
        self, name: types.RequestId, request: httpx.Request, response: httpx.Response
    ) -> httpx.Response:
        """The response as it is where the session can read it; else an answer that says why."""
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        if status == httpx.codes.NOT_FOUND or response.is_redirect:
            return response
        if response.is_error:
            await response.aclose()
            return _answer(request, self._refused(name, status))
        if kind.startswith(_EVENTS):
            kept = {k: v for k, v in response.headers.items() if k not in _OF_THE_BODY}
            kept["content-type"] = kind
            events = _Stream(self._events(name, request, response), response)
            return httpx.Response(status, headers=kept, stream=events, request=request)
        with contextlib.suppress(httpx.HTTPError):
            if kind.startswith(_JSON):
                await self._until_given_up(name, response.aread())
                if _answers(name, response.content):
                    return response
        await response.aclose()
        return _answer(request, failed(name, _BROKE_OFF, sent=True))

    def _refused(self, name: types.RequestId, status: int) -> types.JSONRPCMessage:
        """A 4xx says that the request was not carried out; behind a 5xx it may have been."""
        sent = status >= httpx.codes.INTERNAL_SERVER_ERROR
        # Many servers say 400 where the specification wants 404 for a session they do not know.
        forgotten = status == httpx.codes.BAD_REQUEST
        why = f"{address(self._config)} answered {status}"
        return failed(name, why, sent=sent, forgotten=forgotten)

    async def _events(
        self, name: types.RequestId, request: httpx.Request, response: httpx.Response
    ) -> AsyncGenerator[bytes, None]:
        """The events of an answer: a stream that breaks off is resumed, or ends in an error.

        The session stops reading at the answer, so the end of this is reached without one.
        """
        newest, wait, failures = b"", _RESUME_AFTER, 0
        with contextlib.suppress(_GivenUp):
            while failures < _RESUMES:
                with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
                    async for events in self._whole(name, response):
                        if _ASKS in events:
                            self.asked_in |= dict.fromkeys(_questions(events), name)
                        newest, wait = _last(_EVENT_ID, events, newest), _last(_RETRY, events, wait)
                        yield events
                if not newest:
                    break
                await self._until_given_up(name, asyncio.sleep(min(int(wait), _LONGEST) / 1000))
                try:
                    response = await self._until_given_up(name, self._resumed(request, newest))
                    failures = 0
                except httpx.HTTPError:
                    failures += 1
        yield b"event: message\ndata: %s\n\n" % _as_json(failed(name, _BROKE_OFF, sent=True))

    async def _resumed(self, request: httpx.Request, newest: bytes) -> httpx.Response:
        headers = {k: v for k, v in request.headers.items() if k not in _OF_THE_BODY}
        headers |= {"accept": _EVENTS, "last-event-id": newest.decode()}
        again = self.build_request("GET", request.url, headers=headers)
        return (await super().send(again, stream=True)).raise_for_status()

    async def _whole(self, name: types.RequestId, response: httpx.Response) -> AsyncIterator[bytes]:
        """Whole events only: half of one is nothing."""
        chunks, rest = response.aiter_bytes(), b""
        try:
            while chunk := await self._until_given_up(name, anext(chunks, b"")):
                unseen = max(0, len(rest) - _LONGEST_END)
                rest += chunk
                ends = [found.end() for found in _EVENT_END.finditer(rest, unseen)]
                if ends:
                    yield rest[: ends[-1]]
                    rest = rest[ends[-1] :]
        finally:
            await response.aclose()

    async def _until_given_up(self, name: types.RequestId, work: Any) -> Any:
        """Do a part of a request's work, or raise `_GivenUp`."""
        task = self._work[name] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task})
        finally:
            self._work.pop(name, None)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise _GivenUp
        return task.result()


class _GivenUp(Exception):
    """Nobody waits for the answer any more."""


class _Stream(httpx.AsyncByteStream):
    """The body of a response that is read elsewhere."""

    def __init__(self, events: AsyncGenerator[bytes, None], response: httpx.Response) -> None:
        self._events = events
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            yield event

    async def aclose(self) -> None:
        await self._events.aclose()
        await self._response.aclose()


def _answer(request: httpx.Request, message: types.JSONRPCMessage) -> httpx.Response:
    headers = {"content-type": _JSON}
    return httpx.Response(200, headers=headers, content=_as_json(message), request=request)


def _as_json(message: types.JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_none=True).encode()


def _answers(name: types.RequestId, body: bytes) -> bool:
    """Whether a body is the answer to the request of this id."""
    try:
        root = types.JSONRPCMessage.model_validate_json(body).root
    except ValidationError:
        return False
    if not isinstance(root, types.JSONRPCResponse | types.JSONRPCError):
        return False
    return str(root.id) == str(name)  # some servers answer 7 with "7"


def _questions(events: bytes) -> Iterator[types.RequestId]:
    """The ids of the elicitation requests in some events."""
    for line in events.splitlines():
        if line.startswith(b"data:") and _ASKS in line:
            with contextlib.suppress(ValueError, AttributeError, KeyError):
                yield json.loads(line[5:])["id"]


def _last(field: re.Pattern[bytes], events: bytes, before: bytes) -> bytes:
    """The newest value of a field in some events; the one before where they have none."""
    found = field.findall(events)
    return found[-1] if found else before


def _request_id(request: httpx.Request) -> types.RequestId | None:
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
