"""The saved threads, as a list shows them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from .durability import Durability
from .head import Head
from .shared_values import missing_values, told_by_writes


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """One saved thread as a list shows it.

    Attributes:
        updated: when its newest checkpoint was written, ISO 8601, UTC.
        next: the nodes of the step the thread stands at; empty where it ended.
        waiting: a question waits for a human.
        status: of its last outcome, None while a turn is unfinished.
        request: the first human message that is still kept, '' without one.
        incomplete: it cannot go on: somebody has deleted older checkpoints that it needs.
    """

    thread_id: str
    updated: str
    next: tuple[str, ...]
    waiting: bool
    status: str | None
    request: str
    incomplete: bool = False


def list_threads(durability: Durability) -> list[ThreadSummary]:
    """Every saved thread, newest first; reads one checkpoint a thread."""
    found = (_summary(durability.checkpointer, thread) for thread in durability.thread_ids())
    known = [summary for summary in found if summary is not None]
    return sorted(known, key=lambda summary: summary.updated, reverse=True)


def _summary(saver: BaseCheckpointSaver[Any], thread: str) -> ThreadSummary | None:
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if saved is None:  # deleted since it was listed
        return None
    head = Head(saved)
    lost = bool(missing_values(saver, saved.config, saved.parent_config))
    return ThreadSummary(
        thread_id=thread,
        updated=saved.checkpoint["ts"],
        next=tuple(sorted(head.waiting())),
        waiting=bool(head.interrupts()),
        status=head.status,
        request="" if lost else _first_request(saver, head),
        incomplete=lost,
    )


def _first_request(saver: BaseCheckpointSaver[Any], head: Head) -> str:
    stored = head.saved.checkpoint["channel_values"].get("messages")
    if stored is None:
        stored = told_by_writes(saver, head.saved, ["messages"])["messages"]
    kept = getattr(stored, "value", stored)
    human = (
        message.text
        for message in (kept if isinstance(kept, Iterable) else ())
        if isinstance(message, BaseMessage) and message.type == "human"
    )
    return next(human, "")
