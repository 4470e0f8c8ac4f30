"""What passes between the MCP client and a server: which requests are under way, and how far."""

import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from mcp import types
from mcp.shared.exceptions import McpError
from mcp.shared.message import ClientMessageMetadata, SessionMessage

log = logging.getLogger(__name__)

LOST: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
"""Raised when a request cannot be handed to a connection that has ended."""

Answer = types.JSONRPCResponse | types.JSONRPCError


@dataclass
class Ticket(ClientMessageMetadata):
    """Goes along with a request, so that its sender learns what became of it.

    Attributes:
        id: The request's id; None until it is handed to the transport.
        sent: Whether the server may have seen the request.
    """

    id: types.RequestId | None = None
    sent: bool = False


@dataclass(frozen=True)
class Broken:
    """Marks an error that the transport reports, which no server has said.

    Attributes:
        sent: Whether the server may have carried the request out.
        forgotten: Whether the server seems to have forgotten the session.
    """

    sent: bool
    forgotten: bool = False


@dataclass
class Traffic:
    """The messages of one connection, and the requests that have no answer yet.

    Attributes:
        sent_when_handed_over: Whether a request counts as sent once the transport has taken it;
            otherwise the transport sets `sent` itself.
    """

    sent_when_handed_over: bool = True
    pending: dict[types.RequestId, Ticket] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the way to the client, unbounded: the client's replies may not block its reading."""
        self._into, self.inbox = anyio.create_memory_object_stream[SessionMessage | Exception](
            math.inf
        )

    def leaves(self, message: SessionMessage) -> Ticket:
        """Note a message for the server; a request stays pending until it is answered."""
        ticket = message.metadata if isinstance(message.metadata, Ticket) else Ticket()
        root = message.message.root
        if isinstance(root, types.JSONRPCRequest):
            ticket.id = root.id
            self.pending[root.id] = ticket
        return ticket

    def arrives(self, message: SessionMessage | Exception) -> None:
        """Hand a message of the server to the client; what could not be read is left out."""
        if isinstance(message, Exception):
            log.debug("an unreadable message of an MCP server", exc_info=message)
            return
        root = message.message.root
        if isinstance(root, Answer):
            self.pending.pop(_known(root.id), None)
        with contextlib.suppress(*LOST):
            self._into.send_nowait(message)

    def fail(self, request: types.RequestId, why: str, broken: Broken) -> None:
        """Answer a request that gets no answer any more, so that nobody waits for it."""
        if _known(request) not in self.pending:
            return
        error = types.ErrorData(code=types.CONNECTION_CLOSED, message=why, data=broken)
        reply = types.JSONRPCError(jsonrpc="2.0", id=request, error=error)
        self.arrives(SessionMessage(types.JSONRPCMessage(reply)))

    def end(self) -> None:
        """Tell the client that nothing comes any more."""
        self._into.close()

    def close(self) -> None:
        """Let go of both ends."""
        self.end()
        self.inbox.close()


class Outbox:
    """Where the client puts its messages; it looks like the stream that the client expects."""

    def __init__(self, traffic: Traffic, send: Callable[[SessionMessage], Awaitable[None]]) -> None:
        """Note each message in the traffic, then hand it to the transport."""
        self._traffic = traffic
        self._send = send

    async def send(self, message: SessionMessage) -> None:
        """Hand a message to the transport."""
        ticket = self._traffic.leaves(message)
        await self._send(message)
        if self._traffic.sent_when_handed_over:
            ticket.sent = True

    async def aclose(self) -> None:
        """Do nothing: the transport is closed by who opened it."""

    async def __aenter__(self) -> "Outbox":
        """Be usable like a stream."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing, see `aclose`."""


def broken(error: BaseException) -> Broken | None:
    """The transport's own word on a request, or None where the server has answered."""
    told: Any = error.error.data if isinstance(error, McpError) else None
    return told if isinstance(told, Broken) else None


def _known(request: types.RequestId) -> types.RequestId:
    """An id as we gave it: some servers answer 7 with "7"."""
    return int(request) if isinstance(request, str) and request.isdecimal() else request
