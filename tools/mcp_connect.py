"""Opens one MCP session. The only module that imports the MCP client; itself imported late."""

import asyncio
import collections
import contextlib
import inspect
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final

import anyio
import httpx
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ConfigDict

from .mcp_config import ServerConfig

log = logging.getLogger(__name__)

LOST: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
"""Raised when a request cannot be handed to a session that has ended."""

SESSION_GONE: Final = 32600
"""What the client reports when an HTTP server answers 404: it has forgotten the session."""

_TAIL: Final = 2_000
_HTTP_TIMEOUT: Final = 30.0

Received = SessionMessage | Exception


class Reply(BaseModel):
    """Whatever a server answered. One odd field must not cost the whole answer."""

    model_config = ConfigDict(extra="allow")


class Stderr:
    """The last words of a server process: kept for messages, never on the terminal."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: collections.deque[str] = collections.deque(maxlen=_TAIL)

    @property
    def last_line(self) -> str:
        """What the process wrote last; "" where it wrote nothing."""
        lines = "".join(self._kept).strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    @contextlib.asynccontextmanager
    async def pipe(self) -> AsyncIterator[Any]:
        """A file for the process to write to, drained on this loop until it is closed."""
        out, into = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out, "rb", 0)
        )
        drain = asyncio.ensure_future(self._drain(reader))
        try:
            with os.fdopen(into, "w") as file:
                yield file
        finally:
            transport.close()
            drain.cancel()

    async def _drain(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(4_096):
            self._kept.extend(chunk.decode(errors="replace"))


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


@contextlib.asynccontextmanager
async def connect(
    config: ServerConfig, user_id: str | None, stderr: Stderr, ended: Callable[[], None]
) -> AsyncIterator[ClientSession]:
    """Open a session that has not been initialised yet.

    Args:
        config: The server.
        user_id: Whose headers a server with callable headers gets.
        stderr: Takes what a server process writes there.
        ended: Called as soon as the server closes the connection.
    """
    async with contextlib.AsyncExitStack() as stack:
        opened = await _transport(config, user_id, stderr, stack)
        read, write = opened[0], opened[1]
        send, receive = anyio.create_memory_object_stream[Received](0)
        watch = asyncio.ensure_future(_watch(read, send, ended))
        stack.push_async_callback(_ended, watch)
        session = await stack.enter_async_context(ClientSession(receive, write))
        yield session


async def _ended(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def _watch(read: Any, send: Any, ended: Callable[[], None]) -> None:
    """Hand messages on; the client itself tells nobody when the server goes away."""
    try:
        async with read, send:
            with contextlib.suppress(*LOST):
                async for message in read:
                    await send.send(message)
    finally:
        ended()


async def _transport(
    config: ServerConfig, user_id: str | None, stderr: Stderr, stack: contextlib.AsyncExitStack
) -> tuple[Any, ...]:
    if config.transport == "stdio":
        errlog = await stack.enter_async_context(stderr.pipe())
        process = StdioServerParameters(
            command=config.command,
            args=list(config.args),
            env=dict(config.env) or None,
            cwd=config.cwd,
        )
        return await stack.enter_async_context(stdio_client(process, errlog=errlog))
    auth = UserHeaders(config.headers, user_id) if callable(config.headers) else None
    fixed = None if callable(config.headers) else dict(config.headers)
    if config.transport == "sse":
        return await stack.enter_async_context(sse_client(config.url, headers=fixed, auth=auth))
    # No read timeout: a call has its own deadline, and a stream may rightly be silent for long.
    timeout = httpx.Timeout(_HTTP_TIMEOUT, read=None)
    client = await asyncio.to_thread(
        lambda: httpx.AsyncClient(headers=fixed, auth=auth, timeout=timeout)
    )
    await stack.enter_async_context(client)
    return await stack.enter_async_context(streamable_http_client(config.url, http_client=client))


async def list_tools(session: ClientSession) -> list[dict[str, Any]]:
    """All tools as the server describes them, unvalidated: one odd tool must not cost the rest."""
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        request = types.ClientRequest(types.ListToolsRequest(params=params))
        page = (await session.send_request(request, Reply)).model_dump()
        tools += [tool for tool in page.get("tools") or () if isinstance(tool, dict)]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or cursor in seen:
            return tools
        seen.add(cursor)


def call(
    session: ClientSession, name: str, args: dict[str, Any], meta: dict[str, Any]
) -> Coroutine[Any, Any, Reply]:
    """Call a tool and take the answer as it is.

    Not `session.call_tool`: that one raises when the structured part of an answer does not fit the
    declared output schema, although the tool has run.
    """
    params = types.CallToolRequestParams(
        name=name, arguments=args, _meta=types.RequestParams.Meta(**meta)
    )
    request = types.ClientRequest(types.CallToolRequest(params=params))
    return session.send_request(request, Reply)


def is_session_gone(error: Exception) -> bool:
    """Whether the server refused a request because it no longer knows the session."""
    return (
        isinstance(error, McpError)
        and error.error.code == SESSION_GONE
        and error.error.message == "Session terminated"
    )


def is_closed(error: Exception) -> bool:
    """Whether a request ended because the connection did."""
    return isinstance(error, McpError) and error.error.code == types.CONNECTION_CLOSED


def explain(error: BaseException, config: ServerConfig) -> str:
    """Why a server cannot be reached, in words for its user; never a header or a query."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        missing_folder = config.cwd is not None and error.filename == config.cwd
        what = f"the folder {config.cwd}" if missing_folder else f"the command {config.command!r}"
        return f"{what} was not found"
    if isinstance(error, PermissionError):
        return f"the command {config.command!r} may not be executed"
    if isinstance(error, httpx.HTTPStatusError):
        return f"{_address(config)} answered {error.response.status_code}"
    if isinstance(error, httpx.TransportError):
        return f"{_address(config)} is not reachable ({type(error).__name__})"
    if isinstance(error, McpError):
        return "it closed the connection" if is_closed(error) else error.error.message
    return f"{type(error).__name__}: {error}"


def _address(config: ServerConfig) -> str:
    url = httpx.URL(config.url)
    return str(url.copy_with(query=None, userinfo=b"", fragment=None))
