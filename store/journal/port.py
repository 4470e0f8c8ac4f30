"""The journal of intents as a port: its rows, and where they are kept. Its rules are in `intents`.

A row is one intent to change the world. A store loads the rows of a thread, saves what is changed,
and does both in one transaction; it decides nothing.
"""

import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A write that is about to be sent, on behalf of whom.

    Attributes:
        name: Of this call and no other in the thread; the same after a crash and a resume.
        before: Names under which the same step of earlier plans may have sent it.
        place: The nodes around the graph, `outer|inner`; "" at the root.
        turn: The user turn.
        task: The task, the step of a plan or the graph it is for.
        call: Its evidence id.
        tool: Its tool, by the name its server knows it.
        server: The tool's MCP server, if any.
        arguments: As the tool receives them, after hooks.
        content: Tool, server and arguments in one spelling: what "the same write" means.
        repeatable: Running it twice leaves the world as running it once.
        key: Its idempotency key, if it is a new one. It stays with the row: two equal writes have
            two, and what is sent again has the same.
        since: Now; ISO 8601, UTC.
    """

    name: str
    before: tuple[str, ...] = ()
    place: str = ""
    turn: str = ""
    task: str = ""
    call: str = ""
    tool: str = ""
    server: str | None = None
    arguments: Mapping[str, Any]
    content: str
    repeatable: bool = False
    key: str
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One saved intent; see `Intent` for the other fields.

    Attributes:
        state: `claimed` from before the send until the end is known. `finished` if the tool did it.
            `closed` matches only the very call it was made for: the tool refused it, another row
            replaces it, or its turn is over.
        spare: No living step owns it.
        paused: The tool itself asked a question: it is run again from its start.
        told: The outcome of an ended turn has named it as uncertain.
        sends: The number of sends. A human's approval allows one more.
        source: Evidence id of the call that made it, if this one took it over.
        result: The result as JSON; of a claimed row its notes.
    """

    name: str
    place: str
    turn: str
    task: str
    call: str
    tool: str
    server: str | None
    arguments: Mapping[str, Any]
    content: str
    key: str
    state: Literal["claimed", "finished", "closed"] = "claimed"
    spare: bool = False
    paused: bool = False
    told: bool = False
    sends: int = 1
    source: str = ""
    result: Mapping[str, Any] | None = None
    since: str = ""

    @property
    def in_doubt(self) -> bool:
        """Whether it may have taken effect, and nobody knows; true of one under way as well."""
        return self.state == "claimed" and not self.paused


class Word(NamedTuple):
    """What a human says of a row in doubt; good for the send it was asked about, and no other.

    Attributes:
        key: Of the row.
        sends: How often it was sent when the question was put.
        result: What the call gave, of one that ran, as JSON; None has it run again.
    """

    key: str
    sends: int
    result: Mapping[str, Any] | None = None


class Verdict(NamedTuple):
    """What to do about a call, and the row that says so.

    `send`: make it now, nobody else will. `known`: it was made, as the row says. `doubt`: it may
    have been made. `other`: another write of its tool may have been, which is to be settled first.
    """

    say: Literal["send", "known", "doubt", "other"]
    row: Row


class End(NamedTuple):
    """How a send ended.

    `finished` or `failed` by the tool's own word, `unknown` where it may have taken effect,
    `paused` where the tool itself asked a question. `result` is JSON.
    """

    how: Literal["finished", "failed", "unknown", "paused"]
    result: Mapping[str, Any] | None = None


class Change(NamedTuple):
    """Rows to be saved, and names of those to be dropped."""

    save: Sequence[Row] = ()
    drop: Sequence[str] = ()


FENCE_KEY: Final = "__loopwright_fence"
"""Where a run's config has its fence; LangGraph keeps such keys out of a checkpoint's metadata."""


class Fence(NamedTuple):
    """What a run was told when it locked its thread; the next one to lock it is told more."""

    name: str
    token: int


class Wish(NamedTuple):
    """A request to a running thread: a message for it, or None to stop it.

    `name` identifies it. The message is LangChain's JSON, marked with the name. `age` is the
    seconds it had waited when it was read, by the database's clock.
    """

    name: str
    message: dict[str, Any] | None = None
    age: float = 0.0


@runtime_checkable
class Journal(Protocol):
    """Where intents are kept. Its methods block, and are called from several threads at once.

    An implementation of one's own needs no more than this. All methods raise DatabaseError where
    they cannot do what they promise.
    """

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""

    def rows(self, thread: str, names: Collection[str] = ()) -> list[Row]:
        """Rows of a thread, oldest first; of the closed ones only those of these names."""

    def transact(
        self,
        thread: str,
        work: Callable[[Sequence[Row]], tuple[T, Change]],
        *,
        names: Collection[str] = (),
        fence: Fence | None = None,
    ) -> T:
        """Pass rows of a thread to `work` and save its changes, in one transaction.

        Args:
            thread: The thread.
            work: Takes the rows, oldest first; returns its result and the change.
            names: If given, `work` needs only these of the closed rows, and of the finished rows
                that are not spare.
            fence: Of the calling run.

        Raises:
            ThreadBusy: Another run has locked the thread since.
        """

    def raise_fence(self, name: str) -> Fence:
        """Keep out the runs before: called whenever a thread, or a part of one, is locked."""

    def grant(self, thread: str, grant: Mapping[str, Any]) -> None:
        """Remember for the thread that a human allows calls like this; twice is once."""

    def grants(self, thread: str) -> list[dict[str, Any]]:
        """What a human has allowed for the thread, oldest first."""

    def write_counts(self, thread: str, turn: str, counts: Mapping[str, float]) -> None:
        """Record what a turn has taken, all its counts by name."""

    def read_counts(self, thread: str, turn: str) -> dict[str, float]:
        """What was recorded last of a turn."""

    def add_wish(self, thread: str, wish: Wish) -> None:
        """Put a wish behind those that wait for a run of the thread."""

    def list_wishes(self, thread: str) -> list[Wish]:
        """The wishes that wait, oldest first."""

    def forget_wishes(self, thread: str, names: Collection[str]) -> None:
        """Forget the wishes of these names."""

    def forget(self, thread: str) -> None:
        """Delete everything about a thread."""

    def close(self) -> None:
        """Close it; a second call does nothing."""


COUNTED: Final = ("model_calls", "tool_calls", "tokens", "usd")


@dataclass(kw_only=True)
class UsageRecord:
    """What was taken, with the most that calls under way can take.

    What is on record is never less: `leased` is, and it runs ahead by a part of each limit, so that
    not every call waits for a database. A crash may cost that part, it gives nothing back.
    """

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    leased: dict[str, float] = field(default_factory=dict)
    sure: bool = False
    """Nobody else can have taken anything since this was read."""
    lock: Any = field(default_factory=threading.RLock)
    """Held by whoever takes: branches may run in several threads."""
    write: Callable[[Mapping[str, float]], Awaitable[None]] | None = None
    """Puts counts on record; None where nothing outlives the process."""

    @property
    def totals(self) -> dict[str, float]:
        """By name, what was taken."""
        return {name: getattr(self, name) for name in COUNTED}

    async def record_ahead(self, parts: Mapping[str, float]) -> None:
        """Have on record what is taken; `parts` says how far ahead."""
        if self.write is None:
            return
        taken = self.totals
        ahead = {n: count + parts[n] for n, count in taken.items() if parts[n] < inf}
        if any(taken[n] > self.leased.get(n, 0) for n in ahead):
            await self._record(ahead)

    async def settle(self) -> None:
        """Have on record what was taken and no more: nothing is under way."""
        taken = self.totals
        await self._record({n: taken[n] for n in self.leased if self.leased[n] != taken[n]})

    async def _record(self, counts: Mapping[str, float]) -> None:
        if self.write is not None and counts:
            await self.write(counts)
            self.leased |= counts  # not before: another branch must not begin on its strength
