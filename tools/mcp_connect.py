"""Opens one MCP session. With the `mcp_*` files it alone imports the MCP client; imported late."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ConfigDict

from . import mcp_http
from .mcp_config import ServerConfig
from .mcp_http import Client
from .mcp_stdio import Stderr, process
from .mcp_traffic import LOST, Outbox, Ticket, Traffic, broken

__all__ = ["LOST", "Link", "Stderr", "Ticket", "broken", "connect", "explain"]

log = logging.getLogger(__name__)

SESSION_GONE: Final = 32600
"""What the client reports when an HTTP server answers 404: it has forgotten the session."""

_GRACE: Final = 1.0
"""Seconds a server gets to answer a withdrawn request before its connection is closed."""

_R = TypeVar("_R", bound=BaseModel)


class Reply(BaseModel):
    """Whatever a server answered. One odd field must not cost the whole answer."""

    model_config = ConfigDict(extra="allow")


class Link:
    """An open session: what can be asked of the server, and how a question is taken back."""

    def __init__(self, session: ClientSession, traffic: Traffic, http: Client | None) -> None:
        """Take a session that has not been initialised yet, and its HTTP client if it has one."""
        self._session = session
        self._traffic = traffic
        self._http = http

    async def initialize(self) -> None:
        """Shake hands."""
        await self._session.initialize()

    async def ping(self, ticket: Ticket) -> None:
        """Ask for a sign of life; a server that does not know the question is alive."""
        try:
            await self._send(types.PingRequest(), Reply, ticket)
        except McpError as error:
            if not _is_said(error):
                raise

    async def list_tools(self, ticket: Ticket) -> list[dict[str, Any]]:
        """All tools as the server describes them, unvalidated: one odd tool must not cost all."""
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._send(types.ListToolsRequest(params=params), Reply, ticket)
            found = page.model_dump()
            tools += [tool for tool in found.get("tools") or () if isinstance(tool, dict)]
            cursor = found.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor in seen:
                return tools
            seen.add(cursor)

    async def call(
        self, name: str, args: dict[str, Any], meta: dict[str, Any], ticket: Ticket
    ) -> dict[str, Any]:
        """Call a tool and take the answer as it is; an error that the server reports is one.

        Not `session.call_tool`: that one raises when the structured part of an answer does not fit
        the declared output schema, although the tool has run.
        """
        params = types.CallToolRequestParams(
            name=name, arguments=args, _meta=types.RequestParams.Meta(**meta)
        )
        try:
            reply = await self._send(types.CallToolRequest(params=params), Reply, ticket)
        except McpError as error:
            if not _is_said(error):
                raise
            return {"content": [{"type": "text", "text": error.error.message}], "isError": True}
        return reply.model_dump()

    async def withdraw(self, ticket: Ticket) -> None:
        """Tell the server that nobody waits for an answer any more, and free what it holds."""
        if ticket.id is None or self._traffic.pending.pop(ticket.id, None) is None:
            return
        if ticket.sent:
            params = types.CancelledNotificationParams(
                requestId=ticket.id, reason="the caller no longer waits for the answer"
            )
            notice = types.CancelledNotification(params=params)
            with contextlib.suppress(*LOST):
                await self._session.send_notification(types.ClientNotification(notice))
        if self._http is not None:
            await asyncio.sleep(_GRACE if ticket.sent else 0)
            await self._http.give_up(ticket.id)

    async def _send(self, request: Any, result: type[_R], ticket: Ticket) -> _R:
        return await self._session.send_request(
            types.ClientRequest(request), result, metadata=ticket
        )


@contextlib.asynccontextmanager
async def connect(
    config: ServerConfig,
    user_id: str | None,
    stderr: Stderr,
    *,
    ended: Callable[[], None],
    changed: Callable[[], None],
    doubt: Callable[[], None],
) -> AsyncIterator[Link]:
    """Open a session that has not been initialised yet.

    Args:
        config: The server.
        user_id: Whose headers a server with callable headers gets.
        stderr: Takes what a server process writes there.
        ended: Called as soon as the server closes the connection.
        changed: Called when the server says that its tools have changed.
        doubt: Called when the session may be lost, although the connection has not ended.
    """

    async def hear(message: object) -> None:
        root = message.root if isinstance(message, types.ServerNotification) else None
        if isinstance(root, types.ToolListChangedNotification):
            changed()

    traffic = Traffic(sent_when_handed_over=config.transport != "http")
    http: Client | None = None
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(traffic.close)

        def over() -> None:
            traffic.end()
            ended()

        send: Callable[[SessionMessage], Awaitable[None]]
        if config.transport == "stdio":
            send = await stack.enter_async_context(process(config, traffic, stderr, over))
        else:
            if config.transport == "http":
                http = await asyncio.to_thread(Client, config, user_id, traffic, doubt)
                await stack.enter_async_context(http)
            send = await _remote(config, user_id, http, traffic, over, stack)
        outbox = Outbox(traffic, send)
        session = ClientSession(traffic.inbox, cast("Any", outbox), message_handler=hear)
        yield Link(await stack.enter_async_context(session), traffic, http)


async def _remote(
    config: ServerConfig,
    user_id: str | None,
    http: Client | None,
    traffic: Traffic,
    ended: Callable[[], None],
    stack: contextlib.AsyncExitStack,
) -> Callable[[SessionMessage], Awaitable[None]]:
    """Open the MCP package's own transport; returns what sends a message."""
    opened: tuple[Any, ...]
    if http is not None:
        opened = await stack.enter_async_context(
            streamable_http_client(config.url, http_client=http)
        )
    else:
        how = mcp_http.authentication(config, user_id)
        opened = await stack.enter_async_context(sse_client(config.url, **how))
    watch = asyncio.ensure_future(_watch(opened[0], traffic, ended))
    stack.push_async_callback(_stop, watch)
    send: Callable[[SessionMessage], Awaitable[None]] = opened[1].send
    return send


async def _stop(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def _watch(read: Any, traffic: Traffic, ended: Callable[[], None]) -> None:
    """Hand messages on; the client itself tells nobody when the server goes away."""
    try:
        async with read:
            with contextlib.suppress(*LOST):
                async for message in read:
                    traffic.arrives(message)
    finally:
        ended()


def _is_said(error: McpError) -> bool:
    """Whether the server itself has answered with this error."""
    return not (broken(error) or is_session_gone(error) or is_closed(error))


def is_session_gone(error: BaseException) -> bool:
    """Whether the server refused a request because it no longer knows the session."""
    return (
        isinstance(error, McpError)
        and error.error.code == SESSION_GONE
        and error.error.message == "Session terminated"
    )


def is_closed(error: BaseException) -> bool:
    """Whether the client itself ended a request, because the connection has ended."""
    return (
        isinstance(error, McpError)
        and error.error.code == types.CONNECTION_CLOSED
        and error.error.message == "Connection closed"
    )


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
    if isinstance(error, McpError):
        return "it closed the connection" if is_closed(error) else error.error.message
    return mcp_http.explain(error, config)
