"""What is said on a session: requests that can be withdrawn, and calls in which a server asks.

And what the transports say in the place of an answer that does not come.
"""

import asyncio
import contextlib
import contextvars
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import anyio
from langchain_core.messages import ToolMessage
from mcp import ClientSession, types
from mcp.shared.context import RequestContext
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ConfigDict, ValidationError

from ...text.secrets import Secrets
from .call import Asked, ServerCall, Why
from .config import ServerConfig

log = logging.getLogger(__name__)

LOST: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
"""Raised when a request cannot be handed to a connection that has ended."""

_DECLINED: Final = {"action": "decline"}
_NOBODY: Final = "nobody can be asked, or it is not clear who: several runs use this server"
_MOST_PARKED: Final = 64
_LOOKS: Final = 50
_BETWEEN_LOOKS: Final = 0.2
"""Seconds; with the looks, how long the calls of other runs may leave open who is asked."""


class Failure(types.ErrorData):
    """The error in place of an answer that does not come; no server can make one.

    Attributes:
        why: The reason.
        sent: Whether the server may have carried the request out.
        forgotten: Whether the server seems to have forgotten the session.
    """

    why: Why
    sent: bool
    forgotten: bool = False


def failed(
    request: types.RequestId, why: Why, *, sent: bool, forgotten: bool = False
) -> SessionMessage:
    """The answer to a request that gets no other."""
    code, words = types.CONNECTION_CLOSED, why()
    error = Failure(code=code, message=words, why=why, sent=sent, forgotten=forgotten)
    answer = types.JSONRPCError(jsonrpc="2.0", id=request, error=error)
    return SessionMessage(types.JSONRPCMessage(answer))


class _Reply(BaseModel):
    """Whatever a server answered. One odd field must not cost the whole answer."""

    model_config = ConfigDict(extra="allow")


class Session(ClientSession):
    """The client's session; its requests can be cancelled, and no question holds up its reading."""

    @property
    def next_request(self) -> int:
        """The id of the next request."""
        return self._request_id

    def asked_in(self, question: types.RequestId) -> types.RequestId | None:
        """The request in which the server asks something; None where the transport cannot know."""
        return getattr(self._in_flight[question].message_metadata, "related_request_id", None)

    async def ask(self, request: Any, progress: Any = None) -> dict[str, Any]:
        """Send a request and wait for its answer; if cancelled, the server is told so."""
        number = self.next_request  # which `send_request` takes before anybody else can
        asked = types.ClientRequest(request)
        try:
            answer = await self.send_request(asked, _Reply, progress_callback=progress)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError):  # the session has ended, and with it all of it
                self._task_group.start_soon(self._withdraw, number)
            raise
        return answer.model_dump()

    async def _withdraw(self, request: int) -> None:
        params = types.CancelledNotificationParams(
            requestId=request, reason="the caller no longer waits for the answer"
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
    """A call under way.

    Attributes:
        call: The call, as whoever waits for it now has made it.
        request: Ends with the server's answer.
        form: Set once the server asks.
        number: The id of the request.
    """

    call: ServerCall
    number: int | None = None
    form: asyncio.Future[dict[str, Any]]
    _reply: asyncio.Future[dict[str, Any]] | None = None

    def __init__(self, call: ServerCall, session: Session, secrets: Secrets) -> None:
        """Send the call."""
        self._secrets = secrets
        self.go_on(call)
        params = types.CallToolRequestParams(
            name=call.name, arguments=call.args, _meta=types.RequestParams.Meta(**call.meta)
        )
        # In an empty context: a call that waits for a human must not keep the run that made it.
        free = contextvars.Context()
        self.request = asyncio.create_task(self._ask(session, params), context=free)
        self.request.add_done_callback(
            lambda ended: ended.cancelled() or ended.exception(), context=free
        )

    async def _ask(self, session: Session, params: types.CallToolRequestParams) -> dict[str, Any]:
        self.number = session.next_request
        return await session.ask(types.CallToolRequest(params=params), self._progress)

    def go_on(self, call: ServerCall) -> None:
        """Begin, or go on with the human's answer."""
        self.call, before = call, self._reply
        self.form, self._reply = asyncio.Future(), asyncio.Future()
        if before is not None and not before.done():
            before.set_result(dict(call.reply or _DECLINED))

    def let_go(self) -> None:
        """Forget the run: the client keeps the last call that told of progress."""
        self.call = replace(self.call, emit=None, within=contextvars.Context())

    async def asks(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Say what the server asks, and wait until a human has answered."""
        if isinstance(params, types.ElicitRequestURLParams):
            about: dict[str, Any] = {"url": params.url}
        else:
            about = {"schema": params.requestedSchema}
        message = self._secrets.in_words(params.message)
        self.form.set_result({"message": message, **self._secrets.in_json(about)})
        answer = await self._reply if self._reply is not None else _DECLINED
        with contextlib.suppress(ValidationError):  # a form may want what the protocol cannot say
            return types.ElicitResult.model_validate(answer)
        return types.ElicitResult(action="decline")

    async def _progress(self, done: float, total: float | None, message: str | None) -> None:
        text = self._secrets.in_words(message or "")
        self.call.tell("tool_progress", progress=done, total=total, message=text)


class Talks:
    """The calls under way on one session, and those that wait for a human.

    Attributes:
        now: Those under way, also where another session of the server waits for the answer.
    """

    def __init__(self, config: ServerConfig, parked: "Parked") -> None:
        """Begin with none; those that wait for a human go into `parked`."""
        self._config = config
        self.now: list[Talk] = []
        self._parked = parked

    @property
    def waiting(self) -> list[str]:
        """The keys of the calls on this session that wait for a human."""
        return [key for key, (home, _) in self._parked.items() if home is self]

    @contextlib.contextmanager
    def under_way(self, call: ServerCall, session: Session) -> Iterator[Talk]:
        """Send a call, or take up the parked one of its key; it is parked if its server asks."""
        self._let_go(call)
        home, talk = self._parked.pop(call.key, (self, None))
        if talk is None:
            talk = Talk(call, session, self._config.secrets)
        else:
            talk.go_on(call)
        home.now.append(talk)
        try:
            yield talk
        except Asked:
            self._parked[call.key] = home, talk
            raise
        finally:
            home.now.remove(talk)
            talk.let_go()

    def _let_go(self, call: ServerCall) -> None:
        """Withdraw what earlier turns of a thread have left parked, and the oldest of too many."""
        oldest = list(self._parked)[:-_MOST_PARKED]
        for key, (_, talk) in list(self._parked.items()):
            left = talk.call.thread == call.thread and talk.call.turn != call.turn
            if left or key in oldest:
                del self._parked[key]
                talk.request.cancel()

    def close(self) -> None:
        """Forget those that wait: the session has ended."""
        for key in self.waiting:
            del self._parked[key]

    async def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        """Tell a log message to the run it belongs to, as far as that can be known."""
        said = params.data if isinstance(params.data, str) else json.dumps(params.data, default=str)
        text, server = self._config.masked(said), self._config.name
        log.debug("MCP server %s: %s", server, text)
        if talk := self._speaking(None):
            talk.call.tell("server_log", server=server, level=params.level, text=text)

    async def elicited(
        self, context: RequestContext[Any, Any], params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Let the call ask in which the server does; where nobody can be asked, decline at once."""
        request = context.session.asked_in(context.request_id)
        looks = _LOOKS
        while (talk := self._speaking(request)) is None and self.now and looks:
            looks -= 1
            await asyncio.sleep(_BETWEEN_LOOKS)
        if talk is not None and talk.call.can_ask and talk.call.key:
            return await talk.asks(params)
        return types.ElicitResult(action="decline", _meta={"loopwright/reason": _NOBODY})

    def _speaking(self, request: types.RequestId | None) -> Talk | None:
        """The call in which the server speaks, if that is clear; none that waits for a human.

        Over HTTP its request may be known; else all calls under way must be of one thread.
        """
        talks = [t for t in self.now if not t.form.done() and request in (None, t.number)]
        return talks[0] if len({talk.call.thread for talk in talks}) == 1 else None


def as_message(answer: dict[str, Any], config: ServerConfig) -> ToolMessage:
    """An answer as a tool message, without secrets."""
    said = config.secrets.in_json([answer.get("content") or [], answer.get("structuredContent")])
    content, structured = said
    blocks = content if isinstance(content, list) else [text_block(json.dumps(content))]
    failed = answer.get("isError") is True
    if failed:
        blocks = [_masked(block, config) for block in blocks]
    return ToolMessage(
        blocks,
        tool_call_id="",
        artifact=None if structured is None else {"structured_content": structured},
        status="error" if failed else "success",
    )


def _masked(block: Any, config: ServerConfig) -> Any:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return {**block, "text": config.masked(block["text"])}
    return block


def text_block(words: str) -> dict[str, Any]:
    """Words as a block of an answer."""
    return {"type": "text", "text": words}


def is_closed(error: BaseException) -> bool:
    """Whether an error is the one that the client makes up where a connection ends."""
    if not isinstance(error, McpError):
        return False
    return (error.error.code, error.error.message) == (types.CONNECTION_CLOSED, "Connection closed")


Parked = dict[str, tuple[Talks, Talk]]
"""The calls of all sessions that wait for a human's answer to their server, by their keys."""
