"""The threads that a human has taken over: who waits for an answer, and how to give one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command

from ..checkpoints.thread_head import ThreadHead
from .thread_list import GRAPH_KEY

QUESTION: Final = "take_over"
"""The type of the question that a thread asks a human with who has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """One thread that is a human's.

    Attributes:
        id: Of the hand-over; it stays the same whatever the customer writes meanwhile.
        updated: When the thread last changed, ISO 8601, UTC.
        packet: What the human is given: why, mood, what was tried, promises, tickets, …
        waiting: It asks; where it does not, its turn was cut off or stopped, and goes on with None.
        graph: The graph that the command line began it with, None where a program did.
    """

    thread_id: str
    id: str
    updated: str
    packet: Mapping[str, Any] = field(default_factory=dict)
    waiting: bool = True
    graph: str | None = None

    @property
    def config(self) -> RunnableConfig:
        """Names the thread."""
        return {"configurable": {"thread_id": self.thread_id}}

    @property
    def age(self) -> timedelta:
        """Since when the customer waits for a human."""
        since = datetime.fromisoformat(self.packet.get("since") or self.updated)
        return max(datetime.now(UTC) - since, timedelta())

    @property
    def mood(self) -> str:
        """How the customer sounded last; "" where nobody knows."""
        felt = self.packet.get("mood") or [{}]
        return str(felt[-1].get("mood", ""))

    @property
    def why(self) -> str:
        """Why a human has it."""
        return str(self.packet.get("why", ""))

    def reply(self, words: str) -> Command[Any]:
        """Say something to the customer; the thread stays the human's."""
        return self._answer("respond", words)

    def give_back(self, words: str = "") -> Command[Any]:
        """Let the assistant go on, after some last words; a change that waits for a yes runs."""
        return self._answer("approve", words)

    def decline(self, words: str = "") -> Command[Any]:
        """Drop the change that waits for a yes, tell the customer so, and give the thread back."""
        return self._answer("reject", words)

    def _answer(self, kind: str, words: str) -> Command[Any]:
        # By the hand-over, not the question: each message of the customer puts a new question.
        return Command(resume={"type": kind, "message": words, "tool_call_id": self.id})


def list_hand_overs(saver: BaseCheckpointSaver[Any], threads: Iterable[str]) -> list[HandOver]:
    """Of these threads, those that are a human's, who has waited longest first."""
    found = (find_hand_over(saver, thread) for thread in threads)
    return sorted(filter(None, found), key=lambda one: one.age, reverse=True)


def find_hand_over(saver: BaseCheckpointSaver[Any], thread: str) -> HandOver | None:
    """The thread, if a human has it; reads one checkpoint."""
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if saved is None:
        return None
    head = ThreadHead(saved)
    packet = next(_iterate_packets(head), None)
    waiting = packet is not None
    if packet is None and head.values.get("owner") == "human":
        packet = head.values.get("packet") or {}
    if packet is None:
        return None
    graph = dict(saved.metadata).get(GRAPH_KEY)
    return HandOver(
        thread_id=thread, id=str(packet.get("id", "")), updated=saved.checkpoint["ts"],
        packet=packet, waiting=waiting, graph=str(graph) if graph else None,
    )  # fmt: skip


def _iterate_packets(head: ThreadHead) -> Iterator[Mapping[str, Any]]:
    for question in head.list_interrupts():
        value = question.value
        if isinstance(value, Mapping) and value.get("type") == QUESTION:
            yield value["action_request"]["args"]
