"""The message channel: conversations on a delta channel, so that 200 turns cost a few megabytes."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, cast

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from .told import say


def merge_messages(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Fold batches of messages into the conversation.

    A known id replaces, `RemoveMessage` removes (an unknown id is ignored), `REMOVE_ALL_MESSAGES`
    empties. Dicts, strings and tuples are accepted. A message without id gets one derived from
    its place and content: replaying the same writes must give the same ids, in whatever batches.
    It does not repair tool calls without results: that is the entry node's work.
    """
    merged: dict[str, AnyMessage] = {str(m.id): m for m in _messages(state)}
    for write in writes:
        for message in _messages(write if isinstance(write, list) else [write]):
            _fold(merged, message)
    return list(merged.values())


def _messages(items: Sequence[Any]) -> list[AnyMessage]:
    if all(isinstance(item, BaseMessage) for item in items):
        return list(items)
    return cast("list[AnyMessage]", convert_to_messages(items))


def _fold(merged: dict[str, AnyMessage], message: AnyMessage | RemoveMessage) -> None:
    if isinstance(message, RemoveMessage):
        if message.id == REMOVE_ALL_MESSAGES:
            merged.clear()
        merged.pop(str(message.id), None)
        return
    if message.id is None:
        message = message.model_copy(update={"id": _derived_id(merged, message)})
    merged[str(message.id)] = message


def _derived_id(merged: dict[str, AnyMessage], message: BaseMessage) -> str:
    last = next(reversed(merged), "")
    seed = f"{last}\0{len(merged)}\0{message.type}\0{message.content!r}"
    return "msg-" + hashlib.sha256(seed.encode()).hexdigest()[:24]


# 50 writes between snapshots: fewer would cost space, more would make reading replay longer.
MESSAGES: Final[DeltaChannel[list[AnyMessage]]] = DeltaChannel(
    merge_messages, snapshot_frequency=50
)

Messages = Annotated[list[AnyMessage], MESSAGES]


# Longer requests are shown shortened in the middle; state keeps every word.
REQUEST_CAP: Final = 100_000
# What a role sees of earlier turns: enough to follow the talk, small enough to send each time.
TURNS_SHOWN: Final = 20
TEXT_CAP: Final = 4_000


def request_place(messages: Sequence[AnyMessage], request: str) -> int:
    """Where the message with the request stands: by its id, else the newest human one; -1: nowhere.

    Nodes and tools may add human messages too, so only a turn that begins looks for the newest.
    """
    humans = [place for place, message in enumerate(messages) if message.type == "human"]
    named = [place for place in humans if request and messages[place].id == request]
    return (named or humans or [-1])[-1]


def request_text(messages: Sequence[AnyMessage], request: str = "") -> str:
    """The words of the request, in prompt length; '' where there is none."""
    place = request_place(messages, request)
    return _shortened(messages[place].text) if place >= 0 else ""


def _shortened(text: str) -> str:
    if len(text) <= REQUEST_CAP:
        return text
    half = REQUEST_CAP // 2
    left_out = say("left_out_in_between", left=len(text) - 2 * half)
    return f"{text[:half]}\n{left_out}\n{text[-half:]}"


def conversation_of(messages: Sequence[AnyMessage], request: str) -> list[dict[str, str]]:
    """The talk before a request as {role, text}: words, not the whole transcript."""
    talk = [
        {"role": "user" if m.type == "human" else "assistant", "text": m.text[:TEXT_CAP]}
        for m in messages[: max(0, request_place(messages, request))]
        if m.type in {"human", "ai"} and m.text.strip()
    ]
    return talk[-TURNS_SHOWN:]


def signature(role: str) -> dict[str, str]:
    """What a message carries beside its words: who wrote it, and when (UTC, ISO 8601)."""
    return {"agent_type": role, "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}
