"""Calls: the states they go through, and the evidence they leave.

`CallState` is the part of a graph's state that belongs to its calls.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Annotated, Any, Final, Literal, TypeVar

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from ..text.canonical import make_storable
from .channels import GrowingChannel, IndexedList
from .messages import Messages
from .outcome import Reason, Spend, add_spend
from .questions import Decision

ToolStatus = Literal[
    "validating", "scheduled", "awaiting_approval", "executing", "success", "error", "cancelled"
]

_ENDS: Final[frozenset[ToolStatus]] = frozenset({"success", "error", "cancelled"})

# A human's words, a recorded result or an earlier one may answer a call that does not run. A
# scheduled call waits again if it may have run before a crash.
TRANSITIONS: Final[Mapping[ToolStatus, frozenset[ToolStatus]]] = {
    "validating": _ENDS | {"scheduled", "awaiting_approval"},
    "awaiting_approval": _ENDS | {"scheduled", "awaiting_approval"},
    "scheduled": _ENDS | {"executing", "awaiting_approval"},
    "executing": _ENDS | {"awaiting_approval"},  # its server asks before it goes on
    "success": frozenset(),
    "error": frozenset(),
    "cancelled": frozenset(),
}


NOWHERE: Final = "nowhere"
"""Whose calls no journal knows: after a crash they may have been begun."""


def advance(before: ToolStatus, after: ToolStatus) -> ToolStatus:
    """The state after a step.

    Raises:
        ValueError: No call may go from one state to the other.
    """
    if after not in TRANSITIONS[before]:
        msg = f"A tool call cannot go from {before} to {after}."
        raise ValueError(msg)
    return after


UNCERTAIN: Final = "uncertain"
"""The reason of a call that may have taken effect, whatever its record says."""
SERVER_ASKS: Final = "its server asks"
"""The reason of a call that waits for the answer to a question of its server, or by an agent."""
GAVE_UP: Final = "gave_up"
"""The reason of an uncertain call that a human no longer wants."""
STOPPED: Final = "stopped"
"""Why a task ends with calls that have not begun: somebody stopped the turn."""


class Evidence(TypedDict, total=False):
    """One call, or what a task reported without calls; keys that say nothing are missing."""

    id: str
    """`<task or step>.<round>.<index>`, in earlier turns after `t<turn>:`."""
    task: str
    """The task or step; `react` or `agent`."""
    call_id: str
    """The provider's id of the call."""
    tool: str | None
    """The tool; none for a report."""
    arguments: dict[str, Any]
    """What it was called with."""
    status: str
    """`success`, `error` or `cancelled`."""
    result: str
    """What the model was shown."""
    seconds: float
    """How long it took."""
    reason: str
    """Why it was cancelled; `uncertain`: it may have taken effect."""
    reused_from: str
    """The earlier call whose result was reused."""
    same_as: str
    """The earlier call with the same result."""
    server: str
    """The MCP server of an uncertain call."""
    read_only: bool
    """It changed nothing."""
    unknown: bool
    """There is no such tool."""
    unsent: bool
    """It was not made, or not answered in time: its result is what the package says of it."""
    undeclared: bool
    """Its tool does not say whether it writes."""
    own: bool
    """A call of the package's own tool failed."""
    unmet: list[str]
    """What a sub-agent left undone."""
    turn: int
    """The earlier turn that it belongs to."""
    components: list[dict[str, Any]]
    """Components that people are shown."""


def merge_records(left: list[Evidence], writes: Sequence[Sequence[Evidence]]) -> list[Evidence]:
    """Batch reducer for a delta channel: records by their `id`, the later one wins."""
    merged = IndexedList.of(left, itemgetter("id"))
    for record in chain.from_iterable(writes):
        merged.put(record, itemgetter("id"))
    return merged


def call_id(task: str, round_: int, index: int = 0) -> str:
    """The evidence id of a call: of the model turn `round_` for a task, the call at `index`."""
    return f"{task}.{round_}.{index}"


def item_task(step: str, index: int) -> str:
    """The task of one item of a step with `forEach`."""
    return f"{step}[{index}]"


_ITEM: Final = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


def step_of(task: str) -> str:
    """The step whose item a task is; any other task is its own."""
    item = _ITEM.fullmatch(task)
    return item[1] if item else task


def index_of(task: str) -> int | None:
    """Which item of its step a task is; None if it is none."""
    item = _ITEM.fullmatch(task)
    return int(item[2]) if item else None


def is_left_in_doubt(record: Evidence) -> bool:
    """Whether a call that may have run was given up because nobody could be asked."""
    return record["status"] == "cancelled" and record.get("reason") == UNCERTAIN


def round_of(record: Evidence) -> int:
    """The model turn that wanted a call; 0 for a task's own report."""
    number = record["id"].rsplit(".", 2)[1] if record["tool"] is not None else ""
    return int(number) if number.isdigit() else 0


def collect_rounds(evidence: Sequence[Evidence]) -> dict[str, int]:
    """Task id to the highest round that the ids of its calls name."""
    rounds: dict[str, int] = {}
    for record in evidence:
        if number := round_of(record):
            rounds[record["task"]] = max(rounds.get(record["task"], 0), number)
    return rounds


T = TypeVar("T")

HOOK_STOP: Final = "hook_stop"
"""Key of a planned call, and of a result's artifact: why a hook wants the run to end here."""

RESULTS: Final = ("loopwright", "results")
"""Under which labels a store has long results."""


def results_of(thread: str) -> tuple[str, ...]:
    """Where a store has a thread's long results. A label must be non-empty and without periods."""
    label = make_storable(thread).replace("%", "%25").replace(".", "%2E") or "-"
    return (*RESULTS, label)


def thread_of_results(namespace: tuple[str, ...]) -> str | None:
    """The thread that owns long results in the store; None without any."""
    if namespace[:2] != RESULTS or len(namespace) != len(RESULTS) + 1:
        return None
    return namespace[-1].replace("%2E", ".").replace("%25", "%")


Records = Annotated[list[Evidence], GrowingChannel(merge_records, snapshot_frequency=50)]


def keep_newest(before: T, writes: Sequence[T]) -> T:
    """Batch reducer: what was written last. On a delta channel it is stored once a change."""
    return writes[-1] if writes else before


def keep_latest(left: dict[str, T], right: dict[str, T]) -> dict[str, T]:
    """Reducer: join two mappings, the later value of a key wins."""
    return {**left, **right}


def join_texts(left: list[str], right: list[str]) -> list[str]:
    """Reducer: append texts that are not there yet; order of first appearance."""
    return list(dict.fromkeys([*left, *right]))


MOST_FOUND: Final = 60
"""Tools whose definitions one conversation holds."""


def keep_found(left: list[str], right: list[str]) -> list[str]:
    """Reducer: append new names; of too many the newest half stays.

    A known name keeps its place, so that the provider's prompt cache still fits.
    """
    joined = join_texts(left, right)
    if len(joined) <= MOST_FOUND:
        return joined
    newest = [name for name in left if name not in right] + join_texts([], right)
    return newest[-MOST_FOUND // 2 :]


@dataclass(kw_only=True)
class TurnState:
    """What a graph knows of its turn, and a graph inside it, too."""

    record = "turn_state"

    turn_id: str = ""
    """Name of this user turn, never used twice; intake makes it, calls are recorded under it."""
    halt: Reason | None = None
    """Why the run must end now, where it is not the goal."""
    hook_context: list[str] = field(default_factory=list)
    """What hooks add to every prompt of this turn, and which servers are missing; intake writes."""
    spend: Annotated[Spend, add_spend] = field(default_factory=Spend)
    """What this turn has used; every node that asks or calls adds to it."""
    warnings: Annotated[list[str], join_texts] = field(default_factory=list)
    """What went wrong without ending the run: dead servers, other models that had to answer."""
    unmet: list[str] = field(default_factory=list)
    """What the turn did not do although it was asked for; whoever ends it writes."""
    known_in: str = ""
    """Which journal in memory knows the calls that were begun so far: that of the last node;
    `NOWHERE` where one that is gone may know more. Without one "": a database knows them all."""


@dataclass(kw_only=True)
class CallState(TurnState, ABC):
    """Calls between the model turn that wants them and the messages that answer them.

    `path`, a task's id or the graph's own name, begins every evidence id.
    """

    record = "call_state"

    messages: Messages = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    """Planned calls without an answer: the model turn writes them, call_tools what is left."""
    decisions: Annotated[dict[str, Decision], keep_latest] = field(default_factory=dict)
    """Call id to the human's answer; approve writes."""
    objections: Annotated[dict[str, str], keep_latest] = field(default_factory=dict)
    """Call id to why the human's answer cannot be used; approve writes, the next question tells."""
    evidence: Records = field(default_factory=list)
    """Every call that was answered; call_tools appends."""
    found: Annotated[list[str], keep_found] = field(default_factory=list)
    """Names of the tools whose definitions a model was given, where there are many; find_tools
    adds to them, and intake what the request is likely to need."""
    held: list[Any] = field(default_factory=list)
    """Messages that tools add, as JSON, until each call of their model turn has its answer:
    nothing may stand between those; call_tools writes."""
    denied: str = ""
    """Why a call was refused last: denied, rejected, not_interactive, expired or uncertain; or
    loop_detected, which ended the work on it."""
    strikes: int = 0
    """How often the loop guard has warned since the request or task began."""

    # Fields that a tool may change by a graph command.
    by_tools = frozenset({"messages"})

    @property
    @abstractmethod
    def path(self) -> str:
        """Whose calls these are."""

    @property
    def own_evidence(self) -> list[Evidence]:
        """The calls against which others may be repetitions."""
        return self.evidence


class CallsUpdate(TypedDict, total=False):
    """What a node may change of a `CallState`, beside what every node of its graph may."""

    calls: list[Any]
    decisions: dict[str, Decision] | Overwrite
    objections: dict[str, str] | Overwrite
    evidence: list[Any] | Overwrite
    found: list[str]
    held: list[Any]
    denied: str
    strikes: int
    known_in: str


def find_stop_in_calls(calls: Sequence[Mapping[str, Any]]) -> str:
    """Why a hook ends the run instead of these calls; "" if none does."""
    return next((str(call[HOOK_STOP]) for call in calls if call.get(HOOK_STOP)), "")


def find_stop_in_results(messages: Sequence[BaseMessage]) -> str:
    """Why a hook ends the run after the newest results; "" if none does."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return ""
        if isinstance(message.artifact, Mapping) and message.artifact.get(HOOK_STOP):
            return str(message.artifact[HOOK_STOP])
    return ""
