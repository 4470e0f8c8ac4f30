"""The saved threads, as a list shows them, and which of them are offered for a resume."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from ..state.errors import ThreadBusy
from ..state.plan import progress
from .head import Head
from .locks import Locks, held_here
from .shared_values import OURS, missing_values, told_by_writes

GRAPH_KEY: Final = "loopwright_graph"
"""Checkpoint metadata that says which graph a thread belongs to."""

EXPIRY: Final = timedelta(hours=1)
"""How old an unfinished thread may be that is offered for a resume."""

_LOOKED_AT: Final = 100
"""Threads among which those to offer are sought: a command must not wait for thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """One saved thread as a list shows it.

    Attributes:
        updated: when its newest checkpoint was written, ISO 8601, UTC.
        next: the nodes of the step the thread stands at; empty where it ended.
        waiting: a question waits for a human.
        running: a run holds it.
        status: of its last outcome, None while a turn is unfinished.
        progress: how many tasks or steps of its plan are completed or skipped, and how many there
            are; (0, 0) without a plan.
        request: the first human message that is still kept, '' without one.
        graph: the graph that the command line began it with, None where a program did.
        incomplete: it cannot go on: somebody has deleted older checkpoints that it needs.
    """

    thread_id: str
    updated: str
    next: tuple[str, ...]
    waiting: bool
    running: bool
    status: str | None
    progress: tuple[int, int]
    request: str
    graph: str | None = None
    incomplete: bool = False

    @property
    def age(self) -> timedelta:
        """How long ago it changed; none where a clock was ahead."""
        return max(datetime.now(UTC) - datetime.fromisoformat(self.updated), timedelta())

    @property
    def unfinished(self) -> bool:
        """Whether a resume has something to do, and no run is at it."""
        left = bool(self.next) or self.status not in {None, "complete"}
        return left and not (self.incomplete or self.running)

    def is_offered(self, within: timedelta = EXPIRY) -> bool:
        """Whether it is unfinished and no older than that; a question waits as long as it takes."""
        return self.unfinished and (self.waiting or self.age <= within)


def list_threads(
    saver: BaseCheckpointSaver[Any], threads: Iterable[str], locks: Locks
) -> list[ThreadSummary]:
    """These threads, newest first; reads one checkpoint a thread."""
    found = (_summary(saver, thread, locks) for thread in threads)
    known = [summary for summary in found if summary is not None]
    return sorted(known, key=lambda summary: summary.updated, reverse=True)


def offered(
    saver: BaseCheckpointSaver[Any], threads: Iterable[str], locks: Locks, within: timedelta
) -> list[ThreadSummary]:
    """Of the first of these threads, which are the newest, those that are offered for a resume."""
    newest = list_threads(saver, islice(threads, _LOOKED_AT), locks)
    return [thread for thread in newest if thread.is_offered(within)]


def _summary(saver: BaseCheckpointSaver[Any], thread: str, locks: Locks) -> ThreadSummary | None:
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if saved is None:  # deleted since it was listed
        return None
    head = Head(saved)
    lost = bool(missing_values(saver, saved.config, saved.parent_config))
    stands_at, waiting = tuple(sorted(head.waiting())), bool(head.interrupts())
    graph = dict(saved.metadata).get(GRAPH_KEY)
    return ThreadSummary(
        thread_id=thread,
        updated=saved.checkpoint["ts"],
        next=stands_at,
        waiting=waiting,
        running=bool(stands_at) and not waiting and _is_held(thread, locks),
        status=head.status,
        progress=(0, 0) if lost else _progress(saver, head),
        request="" if lost else _first_request(saver, head),
        graph=str(graph) if graph else None,
        incomplete=lost,
    )


def _is_held(thread: str, locks: Locks) -> bool:
    try:
        with held_here(lambda: locks, thread):
            return False
    except ThreadBusy:
        return True


def _progress(saver: BaseCheckpointSaver[Any], head: Head) -> tuple[int, int]:
    """What the turn's outcome says of its tasks, else what is saved of them."""
    if OURS not in head.saved.checkpoint["channel_versions"]:
        return 0, 0
    outcome = head.values.get("outcome")
    tasks = outcome.get("tasks") if isinstance(outcome, Mapping) else _stored(saver, head, "todos")
    parts = [*_with_ids(tasks), *(() if outcome else _with_ids(head.ended_parts()))]
    return progress({part["id"]: part for part in parts}.values())


def _with_ids(found: Any) -> Iterator[Mapping[str, Any]]:
    for part in found if isinstance(found, Iterable) else ():
        if isinstance(part, Mapping) and "id" in part:
            yield part


def _stored(saver: BaseCheckpointSaver[Any], head: Head, channel: str) -> Any:
    """A channel's value, also of one that is saved as writes; None where the thread has none."""
    stored, checkpoint = head.saved.checkpoint["channel_values"].get(channel), head.saved.checkpoint
    if stored is None and channel in checkpoint["channel_versions"]:
        stored = told_by_writes(saver, head.saved, [channel])[channel]
    return getattr(stored, "value", stored)


def _first_request(saver: BaseCheckpointSaver[Any], head: Head) -> str:
    kept = _stored(saver, head, "messages")
    human = (
        message.text
        for message in (kept if isinstance(kept, Iterable) else ())
        if isinstance(message, BaseMessage) and message.type == "human"
    )
    return next(human, "")
