"""What is said on a session: requests that can be withdrawn, and calls in which a server asks."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import anyio
from mcp import ClientSession, types
from pydantic import BaseModel, ConfigDict

from .call import ServerCall

LOST: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
"""Raised when a request cannot be handed to a connection that has ended."""

DECLINED: Final = {"action": "decline"}

_R = TypeVar("_R", bound=BaseModel)


class Reply(BaseModel):
    """Whatever a server answered. One odd field must not cost the whole answer."""

    model_config = ConfigDict(extra="allow")


class Ticket:
    """Goes along with a request, so that it can be withdrawn."""

    id: int | None = None


class Session(ClientSession):
    """The client's session; its requests can be withdrawn, and no question holds up its reading."""

    async def ask(self, request: Any, result: type[_R], ticket: Ticket, progress: Any = None) -> _R:
        """Send a request and wait for its answer."""
        ticket.id = self._request_id  # which `send_request` takes before anybody else can
        return await self.send_request(
            types.ClientRequest(request), result, progress_callback=progress
        )

    async def withdraw(self, ticket: Ticket) -> None:
        """Tell the server that nobody waits for an answer any more."""
        if ticket.id is not None:
            params = types.CancelledNotificationParams(
                requestId=ticket.id, reason="the caller no longer waits for the answer"
            )
            notice = types.CancelledNotification(params=params)
            with contextlib.suppress(*LOST):
                await self.send_notification(types.ClientNotification(notice))

    async def _received_request(self, responder: Any) -> None:
        """Let a human take their time: the loop that reads must not wait for the answer."""
        if isinstance(responder.request.root, types.ElicitRequest):
            self._task_group.start_soon(self._asked, responder)
        else:
            await super()._received_request(responder)

    async def _asked(self, responder: Any) -> None:
        with contextlib.suppress(*LOST):
            await super()._received_request(responder)


class Talk:
    """A call under way, and what its server tells and asks meanwhile.

    Attributes:
        call: The call, as whoever waits for it now has made it.
        request: Ends with the server's answer.
        form: Set once the server asks.
    """

    call: ServerCall
    form: asyncio.Future[dict[str, Any]]
    _reply: asyncio.Future[dict[str, Any]] | None = None

    def __init__(self, call: ServerCall, session: Session, masked: Callable[[str], str]) -> None:
        """Send the call."""
        self._masked = masked
        self.go_on(call)
        params = types.CallToolRequestParams(
            name=call.name, arguments=call.args, _meta=types.RequestParams.Meta(**call.meta)
        )
        self.ticket = Ticket()
        asked = session.ask(
            types.CallToolRequest(params=params), Reply, self.ticket, self._progress
        )
        self.request = asyncio.ensure_future(asked)
        self.request.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def go_on(self, call: ServerCall) -> None:
        """Begin, or go on with the human's answer."""
        self.call, before = call, self._reply
        self.form, self._reply = asyncio.Future(), asyncio.Future()
        if before is not None and not before.done():
            before.set_result(dict(call.reply or DECLINED))

    async def asks(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Say what the server asks, and wait until a human has answered."""
        if isinstance(params, types.ElicitRequestURLParams):
            about: dict[str, Any] = {"url": params.url}
        else:
            about = {"schema": params.requestedSchema}
        self.form.set_result({"message": self._masked(params.message), **about})
        answer = await self._reply if self._reply is not None else DECLINED
        return types.ElicitResult.model_validate(answer)

    async def _progress(self, done: float, total: float | None, message: str | None) -> None:
        text = self._masked(message or "")
        self.call.tell("tool_progress", progress=done, total=total, message=text)
