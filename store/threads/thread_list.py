"""The saved threads, as a list shows them: which are asked for, which a human has taken over."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, get_args

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command

from ...state.channels import read_state
from ...state.desk import DeskState
from ...state.errors import SettingsError, ThreadBusy
from ...state.hand_over import build_packet
from ...state.plan import count_progress
from ..checkpoints.shared_values import OURS, find_lost_values, replay_values
from ..checkpoints.thread_head import ThreadHead, find_inner_namespaces, find_open_questions
from ..locks.thread_locks import Locks, lock_thread_blocking

GRAPH_KEY: Final = "loopwright_graph"
"""Checkpoint metadata that says which graph a thread belongs to."""

EXPIRY: Final = timedelta(hours=1)
"""How old an unfinished thread may be that is offered for a resume."""

LOOKED_AT: Final = 100
"""Threads among which those to offer are sought: a command must not wait for thousands."""

Which = Literal["unfinished", "waiting", "expired"]
"""Unfinished: a resume or an answer goes on with it, and no run is at it. Waiting: a question of
it waits for an answer. Expired: its holder died, before its turn had ended."""

Order = Literal["newest", "oldest", "largest"]
"""By their last change, or by the bytes that are saved of them."""


class ThreadQuery(NamedTuple):
    """Which threads are asked for, at most so many; those that a run holds only if `held`.

    Where each must be read to tell, only the newest are, so many as `among` says.
    """

    which: Which | None
    order: Order
    limit: int | None
    held: bool = False
    among: int | None = None


class FoundThread(NamedTuple):
    """What a database knows of a thread without reading it; None where it does not know."""

    thread_id: str
    asks: bool | None = None
    held: bool | None = None
    expired: bool | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """One saved thread in a list.

    Attributes:
        updated: Time of its newest checkpoint, ISO 8601, UTC.
        next: The next nodes; empty if the turn has ended.
        waiting: A question waits for a human.
        running: A run holds it.
        status: Of its last outcome, None during a turn.
        progress: Completed or skipped tasks or steps of its plan, and their number; (0, 0) without
            a plan.
        request: The first human message that is still kept, '' without one.
        graph: The graph that the command line started it with, None for a program.
        incomplete: It cannot go on: older checkpoints that it needs were deleted.
        expired: Its process died within a turn; SQLite cannot tell a death from an orderly exit.
        bytes: Its saved size; None if nobody has counted.
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
    expired: bool = False
    bytes: int | None = None

    @property
    def age(self) -> timedelta:
        """How long ago it changed; empty if a clock was ahead."""
        return max(datetime.now(UTC) - datetime.fromisoformat(self.updated), timedelta())

    @property
    def unfinished(self) -> bool:
        """Whether a resume has something to do, and no run is at it."""
        left = bool(self.next) or self.status not in {None, "complete"}
        return left and not (self.incomplete or self.running)

    def is_offered(self, within: timedelta = EXPIRY) -> bool:
        """Whether a resume may finish it, and it is not too old, as a question never is."""
        # What got stuck, or is blocked until a human allows or says something, would end so again.
        may_end = bool(self.next) or self.status not in ("stuck", "blocked")
        return self.unfinished and (self.waiting or (may_end and self.age <= within))


def build_query(which: Which | None, order: Order, limit: int | None) -> ThreadQuery:
    """Which threads are asked for; raises SettingsError."""
    for name, given, known in (
        ("which", which, get_args(Which)),
        ("order", order, get_args(Order)),
    ):
        if given not in known and not (name == "which" and given is None):
            msg = f"{name}={given!r} is not known: it takes {', '.join(map(repr, known))}."
            raise SettingsError(msg)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        msg = f"limit={limit!r} lists nothing: give a whole number from 1 on, or None for all."
        raise SettingsError(msg)
    return ThreadQuery(which, order, limit)


def list_threads(
    saver: BaseCheckpointSaver[Any], found: Iterable[FoundThread], locks: Locks, wanted: ThreadQuery
) -> list[ThreadSummary]:
    """The threads that are asked for, in their order; reads one checkpoint a thread.

    If the database does not know their state, each is read until there are enough.
    """
    read = ((one, _read_summary(saver, one, locks)) for one in found)
    asked = (
        told for one, told in read
        if told and (one.asks is not None or not wanted.which or getattr(told, wanted.which))
    )  # fmt: skip
    return [*islice(asked, wanted.limit)]


def _read_summary(
    saver: BaseCheckpointSaver[Any], found: FoundThread, locks: Locks
) -> ThreadSummary | None:
    thread = found.thread_id
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if saved is None:  # deleted since it was listed
        return None
    head = ThreadHead(saved)
    lost = bool(find_lost_values(saver, saved.config, saved.parent_config))
    stands_at = tuple(sorted(head.find_next_nodes()))
    waiting = bool(_find_open_ids(saver, head)) if found.asks is None else found.asks
    held = found.held
    if held is None:
        held = bool(stands_at) and not waiting and _is_held(thread, locks)
    graph = dict(saved.metadata).get(GRAPH_KEY)
    cut_off = bool(stands_at) and not (waiting or held)
    return ThreadSummary(
        thread_id=thread,
        updated=saved.checkpoint["ts"],
        next=stands_at,
        waiting=waiting,
        running=bool(stands_at) and not waiting and held,
        status=head.status,
        progress=(0, 0) if lost else _read_progress(saver, head),
        request="" if lost else _find_first_request(saver, head),
        graph=str(graph) if graph else None,
        incomplete=lost,
        expired=cut_off if found.expired is None else found.expired,
        bytes=found.bytes,
    )


def _find_open_ids(saver: BaseCheckpointSaver[Any], head: ThreadHead, around: str = "") -> set[str]:
    """The questions that wait, without those whose answer a graph inside has taken."""
    inner: dict[str, set[str]] = {}
    thread = head.saved.config["configurable"]["thread_id"]
    for place in set[str]().union(*find_inner_namespaces(head, around).values()):
        at = {"thread_id": thread, "checkpoint_ns": place}
        if (saved := saver.get_tuple({"configurable": at})) is not None:
            inner[place] = _find_open_ids(saver, ThreadHead(saved), place)
    return {question.id for question in find_open_questions(head, inner, around)}


def _is_held(thread: str, locks: Locks) -> bool:
    try:
        with lock_thread_blocking(lambda: locks, thread):
            return False
    except ThreadBusy:
        return True


def _read_progress(saver: BaseCheckpointSaver[Any], head: ThreadHead) -> tuple[int, int]:
    """What the turn's outcome says of its tasks, else what is saved of them."""
    if not OURS & head.saved.checkpoint["channel_versions"].keys():
        return 0, 0
    outcome = head.values.get("outcome")
    tasks = (
        outcome.get("tasks")
        if isinstance(outcome, Mapping)
        else _read_channel(saver, head, "todos")
    )
    parts = [*_iterate_parts(tasks), *(() if outcome else _iterate_parts(head.list_ended_parts()))]
    return count_progress({part["id"]: part for part in parts}.values())


def _iterate_parts(found: Any) -> Iterator[Mapping[str, Any]]:
    for part in found if isinstance(found, Iterable) else ():
        if isinstance(part, Mapping) and "id" in part:
            yield part


def _read_channel(saver: BaseCheckpointSaver[Any], head: ThreadHead, channel: str) -> Any:
    """A channel's value, also of a delta channel; None if the thread has none."""
    stored, checkpoint = head.saved.checkpoint["channel_values"].get(channel), head.saved.checkpoint
    if stored is None and channel in checkpoint["channel_versions"]:
        stored = replay_values(saver, head.saved, [channel])[channel]
    return getattr(stored, "value", stored)


def _find_first_request(saver: BaseCheckpointSaver[Any], head: ThreadHead) -> str:
    kept = _read_channel(saver, head, "messages")
    human = (
        message.text
        for message in (kept if isinstance(kept, Iterable) else ())
        if isinstance(message, BaseMessage) and message.type == "human"
    )
    return next(human, "")


QUESTION: Final = "take_over"
"""The type of the question that a thread asks a human with who has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """One thread that a human has taken over.

    Attributes:
        id: Of the hand-over; further messages of the customer do not change it.
        updated: When the thread last changed, ISO 8601, UTC.
        packet: The case as it is now: reason, mood, attempts, promises, tickets, messages, whether
            the customer has written something new, …
        waiting: It asks; otherwise its turn was cut off or stopped, and is resumed with None.
        graph: The graph that the command line started it with, None for a program.
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

    @property
    def holder(self) -> str:
        """Which of the humans has it; "" where any of them may answer."""
        return str(self.packet.get("holder") or "")

    @property
    def is_new(self) -> bool:
        """Whether the customer has written since, and nobody has answered that."""
        return bool(self.packet.get("is_new"))

    def reply(self, words: str, by: str = "") -> Command[Any]:
        """Say something to the customer; the thread stays the human's. `by`: who says it."""
        return self._answer("respond", words, by)

    def give_back(self, words: str = "", by: str = "") -> Command[Any]:
        """Let the assistant go on, after some last words; a change that waits for a yes runs."""
        return self._answer("approve", words, by)

    def decline(self, words: str = "", by: str = "") -> Command[Any]:
        """Drop the change that waits for a yes, tell the customer so, and give the thread back."""
        return self._answer("reject", words, by)

    def pass_to(self, holder: str, by: str = "") -> Command[Any]:
        """Let nobody but this human answer: oneself or another; "" lets all of them."""
        return self._answer("respond", "", by, holder=holder)

    def _answer(self, kind: str, words: str, by: str, **more: str) -> Command[Any]:
        # By the hand-over, not the question: each message of the customer puts a new question.
        args = {"operator": by, **more}
        return Command(
            resume={"type": kind, "message": words, "tool_call_id": self.id, "args": args}
        )


def list_hand_overs(saver: BaseCheckpointSaver[Any], threads: Iterable[str]) -> list[HandOver]:
    """The threads among these that a human has taken over, longest wait first."""
    found = (find_hand_over(saver, thread) for thread in threads)
    return sorted(filter(None, found), key=lambda one: one.age, reverse=True)


def find_hand_over(saver: BaseCheckpointSaver[Any], thread: str) -> HandOver | None:
    """The thread, if a human has it; reads one checkpoint, and those of graphs inside."""
    saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if saved is None:
        return None
    head = ThreadHead(saved)
    packet = next(_iterate_packets(head), None)
    waiting, desk = packet is not None, _find_desk(saver, head)
    if desk is not None:
        told = {**desk.values, "messages": _read_channel(saver, desk, "messages") or []}
        packet = build_packet(read_state(DeskState, told))
    if packet is None:
        return None
    graph = dict(saved.metadata).get(GRAPH_KEY)
    return HandOver(
        thread_id=thread, id=str(packet.get("id", "")), updated=saved.checkpoint["ts"],
        packet=packet, waiting=waiting, graph=str(graph) if graph else None,
    )  # fmt: skip


def _find_desk(
    saver: BaseCheckpointSaver[Any], head: ThreadHead, around: str = ""
) -> ThreadHead | None:
    """Where the desk is saved whose thread a human has: here, or in a graph inside."""
    if head.values.get("owner") == "human" and "packet" in head.values:
        return head
    thread = head.saved.config["configurable"]["thread_id"]
    before = f"{around}|" if around else ""
    tasks = {task for task, _ in head.iterate_questions()}
    for place in (f"{before}{node}:{task}" for node in head.find_next_nodes() for task in tasks):
        at = {"thread_id": thread, "checkpoint_ns": place}
        saved = saver.get_tuple({"configurable": at})
        if saved and (found := _find_desk(saver, ThreadHead(saved), place)):
            return found
    return None


def _iterate_packets(head: ThreadHead) -> Iterator[Mapping[str, Any]]:
    for question in head.list_interrupts():
        value = question.value
        if isinstance(value, Mapping) and value.get("type") == QUESTION:
            yield value["action_request"]["args"]
