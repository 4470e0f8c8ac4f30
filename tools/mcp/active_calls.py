"""The running calls of a session, with the messages and questions of their server."""

import asyncio
import contextlib
import contextvars
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp import ClientSession, types
from mcp.shared.exceptions import McpError
from pydantic import ValidationError

from ...text.display import show_text
from ...text.secrets import list_secret_fields
from .call import ELICIT, KEY, SAMPLE, ElicitationPending, ServerCall, make_refusal
from .config import ServerConfig

log = logging.getLogger(__name__)

Send = Callable[[Any, Any], Coroutine[Any, Any, dict[str, Any]]]
"""Sends a request, with a function that takes its progress, and waits for the answer."""

Wait = Callable[[Awaitable[Any], asyncio.Future[Any]], Awaitable[dict[str, Any]]]
"""Waits for the answer to a request, or until the server asks."""

_RESERVED: Final = frozenset({"callbacks", "config", "run_manager", "runtime"})
"""Arguments that LangChain would take for its own; they reach the server all the same."""

_DECLINED: Final = {"action": "decline"}
_NOBODY: Final = "nobody can be asked, or it is not clear who: several runs use this server"
_MOST_QUESTIONS: Final = 10
_TOO_MANY: Final = f"a server may ask {_MOST_QUESTIONS} questions in one call"
_NO_SECRETS: Final = (
    "it wants a secret ({fields}), which nobody is asked for in the name of a server whose entry "
    "has no trust: true"
)
_NO_SAMPLING: Final = (
    "Sampling not supported: the model is asked where the server's entry says so, in a running "
    f"call, {_MOST_QUESTIONS} times at most"
)
_MOST_PARKED: Final = 64
_LOOKS: Final = 50
_BETWEEN_LOOKS: Final = 0.2
"""Seconds; with the looks, how long the calls of other runs may leave open who is asked."""


class ActiveCall:
    """A running call.

    Attributes:
        call: The call, as the caller that waits now has made it.
        request: Ends with the server's answer.
        form: Set once the server asks.
        asked: How many questions the server has put.
    """

    call: ServerCall
    form: asyncio.Future[dict[str, Any]]
    asked: int = 0
    _reply: asyncio.Future[dict[str, Any]] | None = None

    def __init__(self, call: ServerCall, send: Send, config: ServerConfig) -> None:
        """Send the call."""
        self._secrets = config.secrets
        self.go_on(call)
        params = types.CallToolRequestParams(
            name=call.name, arguments=call.args, _meta=types.RequestParams.Meta(**call.meta)
        )
        answer = send(types.CallToolRequest(params=params), self._progress)
        # In an empty context: a call that waits for a human must not keep the run that made it.
        free = contextvars.Context()
        self.request = free.run(asyncio.ensure_future, answer)
        self.request.add_done_callback(
            lambda ended: ended.cancelled() or ended.exception(), context=free
        )

    def go_on(self, call: ServerCall) -> None:
        """Start, or continue with the human's answer."""
        self.call, before = call, self._reply
        self.form, self._reply = asyncio.Future(), asyncio.Future()
        if before is not None and not before.done():
            before.set_result(dict(call.reply or _DECLINED))

    def let_go(self) -> None:
        """Forget the run: the client keeps the last call that reported progress."""
        self.call = replace(self.call, emit=None, sample=None, within=contextvars.Context())

    async def ask(self, params: types.ElicitRequestParams) -> dict[str, Any]:
        """Pass on the server's question, and wait for a human's answer."""
        if isinstance(params, types.ElicitRequestURLParams):
            about: dict[str, Any] = {"url": params.url}
        else:
            about = {"schema": params.requestedSchema}
        message = self._secrets.mask_words(params.message)
        self.form.set_result({"message": message, **self._secrets.mask_json(about)})
        answer = await self._reply if self._reply is not None else _DECLINED
        try:
            types.ElicitResult.model_validate(answer)
        except ValidationError:  # a form may want what the protocol cannot say
            return dict(_DECLINED)
        return dict(answer)

    async def _progress(self, done: float, total: float | None, message: str | None) -> None:
        text = self._secrets.mask_words(message or "")
        self.call.tell("tool_progress", progress=done, total=total, message=text)


class ActiveCalls:
    """The running calls of one session, and those that wait for a human.

    Attributes:
        now: The running calls, also those whose answer another session of the server waits for.
    """

    def __init__(self, config: ServerConfig, parked: "Parked") -> None:
        """Begin with none; those that wait for a human go into `parked`."""
        self._config = config
        self.now: list[ActiveCall] = []
        self._parked = parked
        # Servers do not say in which call they ask the model, and its run has to pay.
        self._turn = asyncio.Lock() if config.sampling else contextlib.nullcontext()

    @property
    def waiting_keys(self) -> list[str]:
        """The keys of the calls on this session that wait for a human."""
        return [key for key, (home, _) in self._parked.items() if home is self]

    async def make(
        self, call: ServerCall, session: ClientSession | None, send: Send, wait: Wait
    ) -> ToolMessage:
        """Make a call as a LangChain tool, so that traces show it as one.

        The answer is passed on unchanged. The adapter's conversion drops the names of links and
        resources, and raises on audio and unknown kinds although the tool has run; so does
        `session.call_tool` if the structured part does not fit the output schema.
        """

        async def intercept(request: MCPToolCallRequest, handler: object) -> ToolMessage:  # noqa: ARG001 - the adapter's signature
            try:
                async with self._turn:
                    with self._begin(call, send) as active:
                        answer = await wait(active.request, active.form)
            except McpError as error:
                answer = {"content": [_text_block(error.error.message)], "isError": True}
            return _as_message(answer, self._config)

        tool = convert_mcp_tool_to_langchain_tool(
            session,
            types.Tool(name=call.name, inputSchema={"type": "object"}),
            tool_interceptors=[intercept],
            server_name=self._config.name,
        )
        shown = {name: value for name, value in call.args.items() if name not in _RESERVED}
        tool_call = {"type": "tool_call", "id": "", "name": call.name, "args": shown}
        message: ToolMessage = await tool.ainvoke(tool_call, {"metadata": dict(call.traced)})
        return message

    @contextlib.contextmanager
    def _begin(self, call: ServerCall, send: Send) -> Iterator[ActiveCall]:
        """Send a call, or continue the parked one with its key; park it if its server asks."""
        self._withdraw_old(call)
        home, active = self._parked.pop(call.key, (self, None))
        if active is None:
            active = ActiveCall(call, send, self._config)
        else:
            active.go_on(call)
        home.now.append(active)
        try:
            yield active
        except ElicitationPending:
            self._parked[call.key] = home, active
            raise
        finally:
            home.now.remove(active)
            active.let_go()

    def _withdraw_old(self, call: ServerCall) -> None:
        """Cancel calls that earlier turns of a thread left parked, and the oldest of too many."""
        oldest = list(self._parked)[:-_MOST_PARKED]
        for key, (_, active) in list(self._parked.items()):
            is_old = active.call.thread == call.thread and active.call.turn != call.turn
            if is_old or key in oldest:
                del self._parked[key]
                active.request.cancel()

    def close(self) -> None:
        """Forget the parked calls: the session has ended."""
        for key in self.waiting_keys:
            del self._parked[key]

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message to its run, if that is known."""
        data = params.data if isinstance(params.data, str) else json.dumps(params.data, default=str)
        text, server = self._config.mask(data), self._config.name
        log.debug("MCP server %s: %s", server, text)
        if active := self._find_speaker(None):
            active.call.tell("server_log", server=server, level=params.level, text=text)

    async def answer(self, method: str, params: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the human or the model of the call in which the server asks.

        Args:
            method: `ELICIT` or `SAMPLE`.
            params: What the server asks.
            request: The request in which it asks; empty where the transport cannot know.

        Returns:
            The `result` or the `error` that the server gets.
        """
        if method == SAMPLE and not self._config.sampling:
            return make_refusal(_NO_SAMPLING)
        meta = (request.get("params") or {}).get("_meta") or {}
        looks = _LOOKS
        while (active := self._find_speaker(meta.get(KEY))) is None and self.now and looks:
            looks -= 1
            await asyncio.sleep(_BETWEEN_LOOKS)
        if active is not None:
            active.asked += 1
        if method == ELICIT:
            return {"result": await self._elicit(active, params)}
        sample = active.call.sample if active and active.asked <= _MOST_QUESTIONS else None
        if sample is None:
            return make_refusal(_NO_SAMPLING)
        return await sample(self._config.secrets.mask_json(params))

    async def _elicit(self, active: ActiveCall | None, params: Any) -> dict[str, Any]:
        """Ask the human; without one, decline."""
        try:
            question = types.ElicitRequest(method=ELICIT, params=params).params
        except ValidationError:
            return dict(_DECLINED)
        if active is None or not active.call.can_ask or not active.call.key:
            return _decline(_NOBODY)
        if why := self._find_objection(active, question):
            server = self._config.name
            text = self._config.mask(f"A question of {server!r} was declined: {why}.")
            active.call.tell("server_log", server=server, level="warning", text=text)
            return _decline(why)
        return await active.ask(question)

    def _find_objection(self, active: ActiveCall, question: Any) -> str:
        """Why no human is asked a question; "" where one is."""
        if active.asked > _MOST_QUESTIONS:
            return _TOO_MANY
        secret = list_secret_fields(getattr(question, "requestedSchema", None))
        if secret and not self._config.trust:
            return _NO_SECRETS.format(fields=show_text(", ".join(secret)))
        return ""

    def _find_speaker(self, key: str | None) -> ActiveCall | None:
        """The call in which the server speaks, if that is clear.

        Over HTTP its key may be known; otherwise all running calls must be of one thread.
        """
        calls = [c for c in self.now if not c.form.done() and key in (None, c.call.key)]
        return calls[0] if len({active.call.thread for active in calls}) == 1 else None


def _decline(why: str) -> dict[str, Any]:
    """What a server hears whose question no human is asked."""
    return {**_DECLINED, "_meta": {"loopwright/reason": why}}


def _as_message(answer: dict[str, Any], config: ServerConfig) -> ToolMessage:
    """An answer as a tool message, without secrets."""
    fields = [answer.get("content") or [], answer.get("structuredContent")]
    content, structured = config.secrets.mask_json(fields)
    blocks = content if isinstance(content, list) else [_text_block(json.dumps(content))]
    failed = answer.get("isError") is True
    if failed:
        blocks = [_mask_block(block, config) for block in blocks]
    return ToolMessage(
        blocks,
        tool_call_id="",
        artifact=None if structured is None else {"structured_content": structured},
        status="error" if failed else "success",
    )


def _mask_block(block: Any, config: ServerConfig) -> Any:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return {**block, "text": config.mask(block["text"])}
    return block


def _text_block(words: str) -> dict[str, Any]:
    """Words as a block of an answer."""
    return {"type": "text", "text": words}


Parked = dict[str, tuple[ActiveCalls, ActiveCall]]
"""The calls of all sessions that wait for a human's answer to their server, by their keys."""
