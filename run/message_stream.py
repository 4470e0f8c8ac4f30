"""What LangGraph's `messages` stream is told beside what it hears by itself.

By itself it tells each message that a node returns under an id that is new to the run, and nothing
else. Here stands the rest, so that whoever replays it has the messages of the state: a message
while it is written, and what becomes of one that was told before. The rules are three: chunks of
one id add up; a removal takes the message back; a message says all of it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    RemoveMessage,
    ToolCallChunk,
    message_chunk_to_message,
)
from langgraph.config import get_config
from langgraph.errors import GraphDrained
from langgraph.graph.message import push_message
from langgraph.runtime import get_runtime

from ..state.messages import CUT, REASONING, ROLE, make_signature
from ..state.outcome import Spend
from ..store.base import langgraph_keys as keys
from ..store.locks.control import Control, keep_cut


class Retracted(RemoveMessage, AIMessageChunk):  # type: ignore[misc]  # its type is a removal's
    """A removal that may also be added to what it removes, as servers do with all they stream."""

    def __init__(self, id: str) -> None:
        """Take back the message with this id."""
        super().__init__(id=id)

    def __radd__(self, other: object) -> AIMessageChunk:
        """Nothing is left of the message."""
        return AIMessageChunk(content="", id=self.id)


class StreamedDraft:
    """A message as the listeners see it while it is written; `about` signs its first chunk."""

    def __init__(
        self, name: str, about: Mapping[str, str], *, known: bool, stands: bool = False
    ) -> None:
        """Nothing is shown yet; of a `known` message listeners have an older version.

        One that `stands` is the draft of a message that another node may return.
        """
        self._name, self._about, self.stands = name, dict(about), stands
        # Models call back from tasks and threads of their own, where LangGraph would not find us.
        self._context = copy_context()
        self._text = self._reasoning = ""
        self.begun, self._known = False, known

    def show(self, text: str, reasoning: str = "") -> None:
        """Show what is written so far; what is shown already and does not fit is taken back."""
        if self._text.startswith(text) and self._reasoning.startswith(reasoning):
            return  # a second try may have come less far
        if not (text.startswith(self._text) and reasoning.startswith(self._reasoning)):
            self.retract()
        more = reasoning[len(self._reasoning) :]
        about = self._begin_metadata() | ({REASONING: more} if more else {})
        self._push(text[len(self._text) :], additional_kwargs=about)
        self._text, self._reasoning = text, reasoning

    def settle(self, message: AIMessage) -> None:
        """Show the rest of the message, or all of it anew where it came otherwise."""
        before = AIMessageChunk(content=self._text, additional_kwargs=self._shown_metadata())
        rest = _make_rest_chunk(message, before)
        if not (self.begun and message_chunk_to_message(before + rest) == message):
            self.retract()
            rest = _make_rest_chunk(message, AIMessageChunk(content=""))
        self._context.run(push_message, rest, state_key=None)

    def retract(self) -> None:
        """Take back what listeners have of the message, if they have anything."""
        if self.begun or self._known:
            self._context.run(push_message, Retracted(id=self._name), state_key=None)
        self._text = self._reasoning = ""
        self.begun = self._known = False

    def cut(self) -> AIMessage:
        """What is shown, as a message of its own: the one with this id is still to be written."""
        about = {**self._shown_metadata(), **make_signature(self._about[ROLE]), CUT: True}
        return AIMessage(self._text, id=f"{self._name}.cut", additional_kwargs=about)

    def _shown_metadata(self) -> dict[str, str]:
        return self._about | ({REASONING: self._reasoning} if self._reasoning else {})

    def _begin_metadata(self) -> dict[str, str]:
        if self.begun:
            return {}
        self.retract()
        self.begun = True
        return self._about

    def _push(self, text: str, **more: Any) -> None:
        chunk = AIMessageChunk(content=text, id=self._name, **more)
        self._context.run(push_message, chunk, state_key=None)


def _make_rest_chunk(message: AIMessage, shown: AIMessageChunk) -> AIMessageChunk:
    """The chunk that makes the message of what is shown of it."""
    content = message.content
    if isinstance(content, str):
        content = content[len(str(shown.content)) :]
    known = shown.additional_kwargs
    return AIMessageChunk(
        content=content,
        id=message.id,
        name=message.name,
        additional_kwargs={
            key: str(value)[len(str(known[key])) :] if key in known else value
            for key, value in message.additional_kwargs.items()
            if known.get(key) != value
        },
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        tool_call_chunks=_make_call_chunks(message),
        chunk_position="last",
    )


def _make_call_chunks(message: AIMessage) -> list[ToolCallChunk]:
    made = [(c["name"], json.dumps(c["args"]), c["id"]) for c in message.tool_calls]
    made += [(c["name"] or "", c["args"] or "", c["id"]) for c in message.invalid_tool_calls]
    return [
        ToolCallChunk(type="tool_call_chunk", name=name, args=args, id=call_id, index=index)
        for index, (name, args, call_id) in enumerate(made)
    ]


_DRAFTS: ContextVar[dict[str, StreamedDraft] | None] = ContextVar("loopwright_drafts", default=None)


_STANDING = WeakKeyDictionary[Any, dict[str, StreamedDraft]]()
"""By listener: the drafts that are shown, and whose message a later node may return."""


def _take_standing(listeners: Sequence[Any]) -> dict[str, StreamedDraft]:
    return _STANDING.pop(listeners[0], {}) if listeners else {}


def _hold_standing(
    drafts: Mapping[str, StreamedDraft], update: Mapping[str, Any], listeners: Sequence[Any]
) -> dict[str, StreamedDraft]:
    """The drafts that this node ends; the others stand until a later node returns their message."""
    said = set() if "outcome" not in update else {*drafts}
    said |= {message.id for message in update.get("messages") or ()}
    held = {n: one for n, one in drafts.items() if one.stands and one.begun and n not in said}
    if held:
        _STANDING[listeners[0]] = held
    return {name: one for name, one in drafts.items() if name not in held}


def begin_draft(
    name: str, about: Mapping[str, str], *, stands: bool = False
) -> StreamedDraft | None:
    """Show a message while it is written; None if nobody listens to the node.

    `name` is the message's id; `about` has texts of its `additional_kwargs` that are known already.
    A draft that `stands` is taken back when the next one begins, or when the turn ends without it.
    """
    if (drafts := _DRAFTS.get()) is None:
        return None
    listeners = keys.find_message_handlers(get_config())
    for before in _take_standing(listeners).values():
        before.retract()
    known = any(name in listener.seen for listener in listeners)
    return drafts.setdefault(name, StreamedDraft(name, about, known=known, stands=stands))


def stream_drafts(action: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A node whose drafts become what it returns, or are taken back.

    What it changes or removes of messages that listeners know is told them, too.
    """

    @wraps(action)
    async def node(state: Any, *args: Any, **kwargs: Any) -> Any:
        listeners = keys.find_message_handlers(get_config())
        drafts = dict[str, StreamedDraft]()
        before = _DRAFTS.set(drafts)
        try:
            update = await action(state, *args, **kwargs)
        except BaseException as error:
            is_cut = isinstance(error, GraphDrained | asyncio.CancelledError)
            drafts |= _take_standing(listeners)
            said = [one.cut() for one in drafts.values() if one.begun and is_cut]
            _retract_drafts(drafts, state)
            _keep_cut_messages([message for message in said if message.text])
            raise
        finally:
            _DRAFTS.reset(before)
        if listeners and isinstance(update, Mapping):
            told = update.get("messages")
            messages = [m for m in told or () if isinstance(m, BaseMessage)]
            seen = set[object]().union(*(one.seen for one in listeners))
            drafts |= _take_standing(listeners)
            ended = _hold_standing(drafts, update, listeners)
            _settle_drafts(messages, ended, state, seen)
        return update

    return node


def _keep_cut_messages(said: Sequence[AIMessage]) -> None:
    """Keep what the end of the run has cut; what a graph inside said is not for its thread."""
    control = get_runtime().control if said else None
    if isinstance(control, Control) and control.lost is None:
        keep_cut(control, Spend(), said)
        for message in said:
            _resend_message(message, anew=False)


def _settle_drafts(
    messages: Sequence[BaseMessage], drafts: dict[str, StreamedDraft], state: Any, seen: set[object]
) -> None:
    """Settle the drafts; if listeners know one of the messages by its id, tell all in order."""
    returned = {m.id for m in messages if isinstance(m, AIMessage)}
    _retract_drafts({name: one for name, one in drafts.items() if name not in returned}, state)
    if not any(message.id in seen for message in messages):
        return
    had = list(getattr(state, "messages", ()))
    # Front ends have the user's words from where they were said, and cannot move them.
    moved = {m.id for m in messages if m.type == "human" and m in had}
    for message in messages:
        if message.id in moved:
            continue
        draft = drafts.get(str(message.id))
        if draft and isinstance(message, AIMessage):
            draft.settle(message)
        elif not draft and message not in had:
            newest = bool(had) and message.id == had[-1].id
            _resend_message(message, anew=newest and message.id in seen)
        had = [one for one in had if one.id != message.id]


def _retract_drafts(drafts: Mapping[str, StreamedDraft], state: Any) -> None:
    """Take back drafts that came to nothing; a message that stays in the state is told again."""
    for name, draft in drafts.items():
        if draft.begun:
            draft.retract()
            for message in getattr(state, "messages", ()):
                if message.id == name:
                    _resend_message(message, anew=False)


def _resend_message(message: BaseMessage, *, anew: bool) -> None:
    """Tell a whole message, or a removal; `anew` takes back what listeners have under its id."""
    if anew or isinstance(message, RemoveMessage):
        push_message(Retracted(id=str(message.id)), state_key=None)
    if isinstance(message, AIMessage):
        whole = _make_rest_chunk(message, AIMessageChunk(content=""))
        push_message(
            whole if message_chunk_to_message(whole) == message else message, state_key=None
        )
    elif not isinstance(message, RemoveMessage):
        push_message(message, state_key=None)
