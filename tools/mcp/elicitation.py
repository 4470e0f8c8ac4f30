"""The calls under way on a session: what their server tells and asks meanwhile."""

import asyncio
import contextlib
import contextvars
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mcp import types
from pydantic import ValidationError

from ...text.secrets import Secrets
from .call import ELICIT, KEY, Asked, ServerCall
from .config import ServerConfig

log = logging.getLogger(__name__)

Send = Callable[[types.CallToolRequest, Any], Awaitable[dict[str, Any]]]
"""Sends a call, with a function that takes its progress, and waits for the answer."""

_DECLINED: Final = {"action": "decline"}
_NOBODY: Final = "nobody can be asked, or it is not clear who: several runs use this server"
_MOST_PARKED: Final = 64
_LOOKS: Final = 50
_BETWEEN_LOOKS: Final = 0.2
"""Seconds; with the looks, how long the calls of other runs may leave open who is asked."""


class ActiveCall:
    """A call under way.

    Attributes:
        call: The call, as whoever waits for it now has made it.
        request: Ends with the server's answer.
        form: Set once the server asks.
    """

    call: ServerCall
    form: asyncio.Future[dict[str, Any]]
    _reply: asyncio.Future[dict[str, Any]] | None = None

    def __init__(self, call: ServerCall, send: Send, secrets: Secrets) -> None:
        """Send the call."""
        self._secrets = secrets
        self.go_on(call)
        params = types.CallToolRequestParams(
            name=call.name, arguments=call.args, _meta=types.RequestParams.Meta(**call.meta)
        )
        asked = send(types.CallToolRequest(params=params), self._progress)
        # In an empty context: a call that waits for a human must not keep the run that made it.
        free = contextvars.Context()
        self.request = free.run(asyncio.ensure_future, asked)
        self.request.add_done_callback(
            lambda ended: ended.cancelled() or ended.exception(), context=free
        )

    def go_on(self, call: ServerCall) -> None:
        """Begin, or go on with the human's answer."""
        self.call, before = call, self._reply
        self.form, self._reply = asyncio.Future(), asyncio.Future()
        if before is not None and not before.done():
            before.set_result(dict(call.reply or _DECLINED))

    def let_go(self) -> None:
        """Forget the run: the client keeps the last call that told of progress."""
        self.call = replace(self.call, emit=None, within=contextvars.Context())

    async def ask(self, params: types.ElicitRequestParams) -> dict[str, Any]:
        """Say what the server asks, and wait until a human has answered."""
        if isinstance(params, types.ElicitRequestURLParams):
            about: dict[str, Any] = {"url": params.url}
        else:
            about = {"schema": params.requestedSchema}
        message = self._secrets.in_words(params.message)
        self.form.set_result({"message": message, **self._secrets.in_json(about)})
        answer = await self._reply if self._reply is not None else _DECLINED
        try:
            types.ElicitResult.model_validate(answer)
        except ValidationError:  # a form may want what the protocol cannot say
            return dict(_DECLINED)
        return dict(answer)

    async def _progress(self, done: float, total: float | None, message: str | None) -> None:
        text = self._secrets.in_words(message or "")
        self.call.tell("tool_progress", progress=done, total=total, message=text)


class ActiveCalls:
    """The calls under way on one session, and those that wait for a human.

    Attributes:
        now: Those under way, also where another session of the server waits for the answer.
    """

    def __init__(self, config: ServerConfig, parked: "Parked") -> None:
        """Begin with none; those that wait for a human go into `parked`."""
        self._config = config
        self.now: list[ActiveCall] = []
        self._parked = parked

    @property
    def waiting(self) -> list[str]:
        """The keys of the calls on this session that wait for a human."""
        return [key for key, (home, _) in self._parked.items() if home is self]

    @contextlib.contextmanager
    def begin(self, call: ServerCall, send: Send) -> Iterator[ActiveCall]:
        """Send a call, or take up the parked one of its key; it is parked if its server asks."""
        self._withdraw_old(call)
        home, active = self._parked.pop(call.key, (self, None))
        if active is None:
            active = ActiveCall(call, send, self._config.secrets)
        else:
            active.go_on(call)
        home.now.append(active)
        try:
            yield active
        except Asked:
            self._parked[call.key] = home, active
            raise
        finally:
            home.now.remove(active)
            active.let_go()

    def _withdraw_old(self, call: ServerCall) -> None:
        """Withdraw what earlier turns of a thread have left parked, and the oldest of too many."""
        oldest = list(self._parked)[:-_MOST_PARKED]
        for key, (_, active) in list(self._parked.items()):
            is_old = active.call.thread == call.thread and active.call.turn != call.turn
            if is_old or key in oldest:
                del self._parked[key]
                active.request.cancel()

    def close(self) -> None:
        """Forget those that wait: the session has ended."""
        for key in self.waiting:
            del self._parked[key]

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Tell a log message to the run it belongs to, as far as that can be known."""
        data = params.data if isinstance(params.data, str) else json.dumps(params.data, default=str)
        text, server = self._config.masked(data), self._config.name
        log.debug("MCP server %s: %s", server, text)
        if active := self._find_speaker(None):
            active.call.tell("server_log", server=server, level=params.level, text=text)

    async def elicit(self, params: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the human of the call in which the server asks; where there is none, decline.

        Args:
            params: What the server asks.
            request: The request in which it asks; empty where the transport cannot know.

        Returns:
            The result that the server gets.
        """
        try:
            question = types.ElicitRequest(method=ELICIT, params=params).params
        except ValidationError:
            return dict(_DECLINED)
        meta = (request.get("params") or {}).get("_meta") or {}
        looks = _LOOKS
        while (active := self._find_speaker(meta.get(KEY))) is None and self.now and looks:
            looks -= 1
            await asyncio.sleep(_BETWEEN_LOOKS)
        if active is not None and active.call.can_ask and active.call.key:
            return await active.ask(question)
        return {**_DECLINED, "_meta": {"loopwright/reason": _NOBODY}}

    def _find_speaker(self, key: str | None) -> ActiveCall | None:
        """The call in which the server speaks, if that is clear; none that waits for a human.

        Over HTTP its key may be known; else all calls under way must be of one thread.
        """
        calls = [c for c in self.now if not c.form.done() and key in (None, c.call.key)]
        return calls[0] if len({active.call.thread for active in calls}) == 1 else None


Parked = dict[str, tuple[ActiveCalls, ActiveCall]]
"""The calls of all sessions that wait for a human's answer to their server, by their keys."""
