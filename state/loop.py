"""The typed state of the graphs. Every field has a default, so an old thread meets a new field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from langgraph.channels.delta import DeltaChannel
from langgraph.graph.ui import AnyUIMessage
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from .attachments import Block
from .calls import CallState, CallsUpdate, Evidence, Records, TurnState, keep_newest
from .channels import Components, Events, KeptEvents
from .errors import ThreadIncompatible
from .history import EarlierRecords
from .messages import (
    STEERS,
    Conversation,
    Messages,
    attachments_of,
    conversation_of,
    find_request,
    request_text,
)
from .outcome import Outcome, Reason, Spend
from .plan import Task, merge_tasks

U = TypeVar("U", bound=Mapping[str, Any])

Planning = Literal["again", "ask", "review", "ready", "blocked"]

STOPPING: Final = "stopping"
"""The field below by which a graph's turn is told to end."""

PUBLIC: Final = ("messages", "todos", "improvements", "task_completed", "should_continue")
"""The fields of a graph's state that its tools see, where the graph has them."""

SCHEMA_VERSION: Final = 3
"""Of what is saved; a change of that raises it by one and adds a step to `MIGRATIONS`."""
MIGRATIONS: Final[dict[int, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {}
"""Old version to a function from saved values to the update that brings them to the next one."""


@dataclass(kw_only=True)
class LoopInput:
    """What a caller gives: messages."""

    messages: Messages = field(default_factory=list)


@dataclass(kw_only=True)
class LoopOutput:
    """What a caller gets: the conversation, the outcome and UI components."""

    messages: Messages = field(default_factory=list)
    outcome: Outcome | None = None
    ui: Components = field(default_factory=list)


@dataclass(kw_only=True)
class LoopState(LoopOutput, TurnState):
    """Fields every graph has."""

    record = "turn_state"

    schema_version: int = 0
    """The version that wrote the thread; intake writes it, the graph's doors migrate by it."""
    turn: int = 0
    """User turns so far; intake counts."""
    request_id: str = ""
    """The request by the id and the words of its message; intake writes it."""
    request_message: str = ""
    """Id of the message that holds the request; intake writes it."""
    task_completed: bool = False
    """The whole request is done and proven; the verifier, a thought or answer_flow writes it."""
    should_continue: bool = True
    """Another cycle may run; whoever meets a limit clears it."""
    improvements: list[str] = field(default_factory=list)
    """What the next plan or answer must fix; the verifier writes it, recover, a review, a hook."""
    stopping: bool = False
    """Somebody stopped the turn; the graph's doors write it, intake ends the turn."""
    stop_hook_active: bool = False
    """A hook rejected this turn's answer, so another one is being made; finish sets it."""
    events: Events = field(default_factory=KeptEvents)
    """The events of this turn; the emitter around each node writes them, and `ui`."""
    read_foreign: bool = False
    """An earlier turn of the thread read what a stranger wrote; intake writes it."""
    allowance: int = 0
    """How often this request was given its limits afresh; intake counts."""

    # Fields that are reset in every user turn.
    per_turn = frozenset({
        "outcome", "task_completed", "should_continue", "improvements", "halt", "spend",
        "warnings", "hook_context", "stop_hook_active", "unmet", "known_in",
    })  # fmt: skip

    @property
    def request(self) -> str:
        """The user's words of this turn."""
        return request_text(self.messages, self.request_message)

    @property
    def is_steered(self) -> bool:
        """Whether the request came while the turn before it was running."""
        place = find_request(self.messages, self.request_message)
        return place >= 0 and STEERS in self.messages[place].additional_kwargs

    @property
    def conversation(self) -> Conversation:
        """The talk before them, as {role, text}."""
        return conversation_of(self.messages, self.request_message)

    @property
    def attachments(self) -> list[Block]:
        """What came with them that is no text, as blocks of a prompt."""
        return attachments_of(self.messages, self.request_message)


class LoopUpdate(TypedDict, total=False):
    """What a node of any graph may change."""

    messages: Any
    outcome: Outcome | None
    ui: list[AnyUIMessage]
    events: KeptEvents
    schema_version: int
    turn: int
    turn_id: str
    request_id: str
    request_message: str
    task_completed: bool
    should_continue: bool
    improvements: list[str]
    halt: Reason | None
    stopping: bool
    hook_context: list[str]
    stop_hook_active: bool
    spend: Spend | Overwrite
    warnings: list[str] | Overwrite
    allowance: int
    read_foreign: bool
    unmet: list[str]
    known_in: str


@dataclass(kw_only=True)
class PlanState(LoopState):
    """State of plan → execute → verify."""

    record = "turn_state"

    todos: Annotated[list[Task], DeltaChannel(merge_tasks, snapshot_frequency=50)] = field(
        default_factory=list
    )
    """The plan; the planner replaces it, work updates it, the verifier may reopen tasks."""
    evidence: Records = field(default_factory=list)
    """Every call of this run and the reports of tasks without calls; work appends."""
    earlier: EarlierRecords = field(default_factory=list)
    """What the calls of earlier turns brought, under ids of their own; intake adds to it."""
    planning: Planning = "ready"
    """What the planner decided; its router reads it."""
    planning_rounds: int = 0
    """Asks for a plan that brought none yet; the planner counts, and clears it with a plan."""
    cycles: int = 0
    """Verdicts this turn; the verifier counts."""
    missing: list[str] = field(default_factory=list)
    """Questions only the user can answer; the planner writes them."""
    answers: list[dict[str, str]] = field(default_factory=list)
    """The user's answers: {question, answer}; ask_user and review_plan append."""
    blockers: list[str] = field(default_factory=list)
    """What kept the last verdict from passing; the same twice means stuck."""
    cut_off: list[Any] = field(default_factory=list)
    """Tasks that ended before a new message cut work off; the doors write, intake reads."""

    per_turn = LoopState.per_turn | {
        "todos", "evidence", "answers", "planning_rounds", "cycles", "missing", "blockers",
        "cut_off",
    }  # fmt: skip

    @property
    def request(self) -> str:
        """The user's words of this turn; without any, the answers to questions."""
        words = super().request
        return words if words.strip() else " ".join(a["answer"] for a in self.answers)


class PlanUpdate(LoopUpdate, total=False):
    """What a node of plan → execute → verify may change."""

    todos: list[Task] | Overwrite
    evidence: list[Evidence] | Overwrite
    earlier: list[Evidence]
    planning: Planning
    planning_rounds: int
    cycles: int
    missing: list[str]
    answers: list[dict[str, str]]
    blockers: list[str]
    cut_off: list[Any]


@dataclass(kw_only=True)
class TaskInput(TurnState):
    """What the executor graph is given: one task and the results it builds on."""

    record = "turn_state"

    request: Annotated[str, DeltaChannel(keep_newest, snapshot_frequency=50)] = ""
    task: Task = field(default_factory=Task)
    results_so_far: Annotated[
        list[dict[str, str]], DeltaChannel(keep_newest, snapshot_frequency=50)
    ] = field(default_factory=list)


@dataclass(kw_only=True)
class TaskState(CallState, TaskInput):
    """State of the executor graph: one task, its scratch messages and its calls."""

    record = "turn_state"

    round: int = 0
    """Model turns of this attempt; the executor counts."""
    status: str = "in_progress"
    """How the task ended; the executor writes it with its last turn, or the loop guard."""
    result: str = ""
    """The report, with the data."""
    feedback: str = ""
    """Why the task did not complete."""
    wishes: dict[str, str] = field(default_factory=dict)
    """Statuses the executor wishes for other tasks."""

    @property
    def path(self) -> str:
        """The task's id."""
        return self.task["id"]


class TaskUpdate(CallsUpdate, total=False):
    """What a node of the executor graph may change."""

    messages: Any
    spend: Spend
    warnings: list[str]
    round: int
    status: str
    result: str
    feedback: str
    wishes: dict[str, str]


# Keys whose writes are folded into what is there: an empty write changes nothing.
FOLDED = frozenset({
    "messages", "ui", "found", "spend", "warnings", "todos", "evidence", "earlier", "decisions",
    "objections",
})  # fmt: skip


def drop_unchanged(state: object, update: U) -> U:
    """The part of an update that changes something: every key written is a row in the database."""
    given: dict[str, Any] = dict(update)
    if isinstance(texts := given.get("warnings"), list):  # each is told once
        known = getattr(state, "warnings", ())
        given["warnings"] = [text for text in texts if text not in known]

    def is_changed(key: str, value: Any) -> bool:
        if isinstance(value, Overwrite):
            return bool(getattr(state, key) != value.value)
        return bool(value) if key in FOLDED else bool(getattr(state, key) != value)

    return cast("U", {key: value for key, value in given.items() if is_changed(key, value)})


def migrate(values: Mapping[str, Any], *, thread: str) -> dict[str, Any]:
    """The update that brings saved values to `SCHEMA_VERSION`; empty where they are there.

    A thread without a version has not begun its first turn.

    Raises:
        ThreadIncompatible: A newer version wrote the thread, or one without a step in `MIGRATIONS`.
    """
    version = int(values.get("schema_version") or SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        msg = (
            f"Thread {thread!r} was saved with schema version {version}, this package knows"
            f" {SCHEMA_VERSION}: upgrade loopwright to continue it."
        )
        raise ThreadIncompatible(msg)
    if version == SCHEMA_VERSION:
        return {}
    update: dict[str, Any] = {}
    for old in range(version, SCHEMA_VERSION):
        if old not in MIGRATIONS:
            msg = (
                f"Thread {thread!r} was saved by an earlier version (schema {version}), which this"
                " package cannot read: start a new thread."
            )
            raise ThreadIncompatible(msg)
        update |= MIGRATIONS[old]({**values, **update})
    return update | {"schema_version": SCHEMA_VERSION}
