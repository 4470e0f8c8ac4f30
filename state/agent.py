"""What an agent is, and the state of its loop; the graph's own agent and sub-agents share them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Annotated, Any, Final, Literal

from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.types import Overwrite
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from .calls import CallState, CallsUpdate, Evidence, TurnState, keep_newest
from .context import Context
from .loop import LoopState, LoopUpdate
from .messages import EVIDENCE, PLACEHOLDER, Messages, slice_since
from .outcome import Reason
from .plan import Task, merge_tasks
from .roles import Tier
from .snapshot import TARGET_SHARE, TURN_LIMIT, estimate_message_tokens

MAIN: Final = "agent"
"""The path of a graph's own agent: begins its call ids, `agent.<round>.<index>`."""

MODEL_TURN: Final = "model_turn"
"""Key in a message's `additional_kwargs`: the id of the model turn that said it."""

COMPLETE_TASK: Final = "complete_task"
DELEGATE: Final = "delegate_to_agent"
LOOK_AFTER: Final = "look_at_background"
Status = Literal["success", "partial", "blocked"]


def hide_end(name: str, calls: Sequence[Mapping[str, Any]], text: str = "") -> str:
    """The id of a message with these calls, or of the answer to one.

    People are not shown how an agent ends its work: its answer says it.
    """
    ends = bool(calls) and all(call["name"] == COMPLETE_TASK for call in calls)
    return f"{PLACEHOLDER}{name}" if ends and not text.strip() else name


WARNED: Final[frozenset[Reason]] = frozenset(
    {"MAX_TURNS", "TIMEOUT", "BUDGET", "ERROR_NO_COMPLETE_TASK_CALL"}
)
"""Ends before the goal that leave one more turn, in which an agent may save what it has."""

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}")


class AgentLimits(BaseModel):
    """What an agent may use in one user turn, where that is less than the run's settings allow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: int | None = Field(default=None, ge=1, description="Model turns; one more may report.")
    seconds: float | None = Field(default=None, gt=0, description="Active seconds.")
    tokens: int | None = Field(default=None, ge=1, description="Input and output tokens.")
    tool_calls: int | None = Field(default=None, ge=0, description="Tool calls.")
    usd: float | None = Field(default=None, gt=0, description="Money, by the prices known.")
    context: int | None = Field(default=None, ge=1_000, description="Tokens of one request.")


class AgentDefinition(BaseModel):
    """The graph's own agent, or one that it may delegate to."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = "agent"
    """By which it is called; letters, digits, `_` and `-`."""
    display_name: str = ""
    """What people are shown; its name by default."""
    description: str = ""
    """What it is for, as the delegating agent reads."""
    input: Any = None
    """A pydantic model or JSON schema of its input, beside the objective in words."""
    prompt: str = ""
    """Added to the system prompt of the loop."""
    tier: Tier | None = None
    """How strong its model is; balanced by default."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    window: int | None = Field(default=None, ge=1_000)
    """Tokens its model takes, if the model's profile does not say."""
    tools: tuple[str, ...] | None = None
    """Names or globs of the tools it may call; None means all of the graph's."""
    mcp: Any = None
    """An `mcpServers` configuration, or its path: servers whose tools it alone may call, besides
    `tools`. They follow the graph's policy."""
    read_only: bool = False
    """Only tools that declare to be read-only."""
    limits: AgentLimits = AgentLimits()
    questions: bool = False
    """Whether it may ask the user in the middle of its work, by `ask_user`."""
    output_name: str = "output"
    output: Any = None
    """A pydantic model or JSON schema of the output that `complete_task` must give."""
    output_alone: bool = False
    """Whoever delegates is told no words of it but its output and how it ended: what it has read
    taints its own calls, and not those of the agent that delegated."""
    lenient: bool = False
    """A plain text answer also ends the run (`responded`)."""
    agents: tuple[str, ...] = ()
    """Names of the agents it may delegate to."""
    warnings: tuple[str, ...] = ()
    """What in its file is not understood."""

    @field_validator("name")
    @classmethod
    def _is_name(cls, given: str) -> str:
        if not _NAME.fullmatch(given):
            msg = f"{given!r} is no name of an agent: use letters and digits, then also _ and -"
            raise ValueError(msg)
        return given

    @property
    def title(self) -> str:
        """What people are shown."""
        return self.display_name or self.name


def define_reader(output: Any, *, name: str = "reader", **more: Any) -> AgentDefinition:
    """An agent that reads what strangers wrote and reports typed values alone.

    Args:
        output: A pydantic model or JSON schema of ids, numbers, dates and choices.
        name: By which it is called.
        more: Further fields of an `AgentDefinition`.
    """
    about = "Reads texts of strangers and reports values of its output's schema."
    fields: dict[str, Any] = {"description": about, "read_only": True, **more}
    return AgentDefinition(**fields, name=name, output=output, output_alone=True)


class Report(TypedDict, total=False):
    """What an agent said with `complete_task`; `responded` where words alone ended its work."""

    status: Literal["success", "partial", "blocked", "responded"]
    summary: str
    unmet: list[str]
    output: Any


@dataclass(kw_only=True)
class AgentInput(TurnState):
    """What a sub-agent's graph is given; its objective is the first message."""

    record = "turn_state"

    messages: Messages = field(default_factory=list)
    path: str = MAIN
    """Whose calls these are: `agent`, or a sub-agent's handle path."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Most turns, seconds, tokens, tool_calls and usd of this user turn; intake writes them, or
    the delegating agent."""


@dataclass(kw_only=True)
class AgentState(CallState, AgentInput):
    """State of one agent: its conversation, its calls, and how far it is."""

    record = "turn_state"

    path: str = MAIN
    round: int = 0
    """Model turns of this user turn, which has the id `<path>#<round>`; agent_turn counts."""
    report: Report | None = None
    """How the agent says its work ended; complete_task writes it, final_warning, agent_turn."""
    should_continue: bool = True
    """False once a tool of the program has ended the work."""
    task_completed: bool = False
    """Everything is done; complete_task writes it, or such a tool."""
    nudged: bool = False
    """The last turn called nothing, and was told so; agent_turn writes."""
    todos: Annotated[list[Task], DeltaChannel(merge_tasks, snapshot_frequency=50)] = field(
        default_factory=list
    )
    """The list of what is to be done; write_todos writes it."""
    snapshot: Annotated[dict[str, Any], DeltaChannel(keep_newest, snapshot_frequency=20)] = field(
        default_factory=dict
    )
    """What stands in a request for the messages before `cut`, a `Kept`; compress writes it, and
    summarize_and_continue."""
    cut: str = ""
    """Id of the first message that requests hold; "" means all of them. compress writes it."""
    window: int = 0
    """Tokens of the newest request and its answer; agent_turn writes it, compress estimates."""
    room: int = 0
    """Tokens a request may have before its history is compressed; agent_turn writes it."""
    planning: Literal["", "review", "again", "ready"] = ""
    """Whether the list waits for the user's word, or must be written again, or has it; write_todos
    writes it, and review_plan."""
    reminded: bool = False
    """`complete_task` was answered once with what is still open; it writes."""
    watch: dict[str, Any] = field(default_factory=dict)
    """When a loop was looked at last, and is again; agent_turn begins it, check_loop goes on."""
    delegations: list[Any] = field(default_factory=list)
    """Planned calls of delegate_to_agent without an answer; agent_turn writes it, delegate."""

    background: list[Any] = field(default_factory=list)
    """Calls of delegate_to_agent whose sub-agents work in the background; delegate writes it,
    gather."""
    awaited: bool = False
    """`complete_task` came before those in the background had ended: they are waited for; it
    writes, gather."""

    by_tools = frozenset({"messages", "improvements", "task_completed", "should_continue"})

    @property
    def turn_name(self) -> str:
        """The id of the model turn that was taken last."""
        return turn_name(self.path, self.round)

    @property
    def agents(self) -> list[str]:
        """Names of the sub-agents around this work, from the outside in; its own one is last."""
        return [step.rsplit(".", 2)[0] for step in self.path.split("/")[1:]]

    @property
    def own_evidence(self) -> list[Evidence]:
        """The agent's own calls, without those of its sub-agents."""
        return [record for record in self.evidence if record["task"] == self.path]


@dataclass(kw_only=True)
class TaskAgentState(AgentState, LoopState):
    """State of the whole graph: its agent, and the user turn around it."""

    record = "turn_state"

    cut_off: list[Any] = field(default_factory=list)
    """Ends of sub-agents that a new message cut off before delegate could gather them; the graph's
    doors write them, intake takes them in."""

    # Call ids repeat in every turn: an old answer must not count for a new call.
    per_turn = LoopState.per_turn | {
        "calls", "decisions", "objections", "evidence", "denied", "strikes", "held", "round",
        "report", "nudged", "delegations", "limits", "todos", "planning", "reminded", "watch",
        "cut_off", "background", "awaited",
    }  # fmt: skip


class AgentUpdate(LoopUpdate, CallsUpdate, total=False):
    """What a node of the loop, or of the graph around it, may change."""

    limits: dict[str, Any]
    round: int
    report: Report | None
    nudged: bool
    todos: list[Task] | Overwrite
    snapshot: dict[str, Any]
    cut: str
    window: int
    planning: Literal["", "review", "again", "ready"]
    reminded: bool
    room: int
    watch: dict[str, Any]
    delegations: list[Any]
    background: list[Any]
    awaited: bool
    cut_off: list[Any]


def turn_name(path: str, round_: int) -> str:
    """The id of a model turn, as events, messages and traces have it."""
    return f"{path}#{round_}"


def make_agent_path(path: str, call: Mapping[str, Any]) -> str:
    """The path of the sub-agent that works on this call, which begins the ids of its calls."""
    return f"{path}/{call['args']['agent_name']}{call['id'].removeprefix(path)}"


def summarize_spend(state: AgentState) -> dict[str, int]:
    """What an agent has spent in the turn, as whoever delegated to it is told."""
    used = state.spend
    return {
        "turns": state.round,
        "tool_calls": used.get("tool_calls", 0),
        "tokens": used.get("input_tokens", 0) + used.get("output_tokens", 0),
    }


def merge_limits(context: Context, own: AgentLimits) -> dict[str, Any]:
    """The limits of an agent: those of the run, or its own where they are tighter."""
    given: dict[str, float | None] = {
        "turns": context.max_turns,
        "seconds": context.max_seconds,
        "tokens": context.max_tokens,
        "tool_calls": context.max_tool_calls,
        "usd": context.max_cost,
        "context": context.context_budget,
    }
    mine = own.model_dump()
    both = {name: [n for n in (given.get(name), mine[name]) if n is not None] for name in mine}
    return {name: min(numbers) for name, numbers in both.items() if numbers}


def find_reached_limit(state: AgentState) -> Reason | None:
    """The limit that an agent has reached; of tokens and dollars one more call must fit."""
    spend = state.spend
    last = 1 + 1 / max(1, spend.get("model_calls", 0))
    tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
    used: Mapping[str, float] = {
        "turns": state.round,
        "seconds": spend.get("seconds", 0),
        "tokens": tokens * last,
        "tool_calls": spend.get("tool_calls", 0),
        "usd": (spend.get("usd") or 0) * last,
    }
    over = {name for name, most in state.limits.items() if used.get(name, -1) >= most}
    if "turns" in over:
        return "MAX_TURNS"
    if "seconds" in over:
        return "TIMEOUT"
    return "BUDGET" if over else None


def is_long(state: AgentState) -> bool:
    """Whether the next request would be too long, and compressing its history may help."""
    room = state.room or int(state.limits.get("context", TURN_LIMIT) * TARGET_SHARE)
    return estimate_next_window(state) > max(room, int(state.snapshot.get("above", 0)))


def estimate_next_window(state: AgentState) -> int:
    """Tokens of the next request, as far as they are known."""
    if not state.window:
        return estimate_message_tokens(list_request_messages(state))
    inside = f"{state.path}/"
    own = (m for m in reversed(state.messages) if not _is_about_subagent(m, inside))
    return state.window + estimate_message_tokens(takewhile(lambda m: m.type != "ai", own))


def _is_about_subagent(message: AnyMessage, inside: str) -> bool:
    """Whether a message asks people about a call of a sub-agent."""
    about = message.additional_kwargs.get(EVIDENCE)
    return about is not None and str(about).startswith(inside)


def list_request_messages(state: AgentState) -> list[AnyMessage]:
    """The messages that requests hold, without questions about calls of sub-agents."""
    kept: list[AnyMessage] = []
    inside, asked = f"{state.path}/", set[str | None]()
    for message in slice_since(state.messages, state.cut):
        if _is_about_subagent(message, inside):
            asked = {c["id"] for c in message.tool_calls} if message.type == "ai" else set()
        elif not (message.type == "tool" and message.tool_call_id in asked):
            asked = set()
            kept.append(message)
    return kept


def find_objective(state: AgentState) -> str:
    """What an agent was asked for: the request of the turn, of a sub-agent its first message."""
    first = next((message.text for message in state.messages if message.type == "human"), "")
    return str(getattr(state, "request", "") or first)


def has_succeeded(evidence: list[Evidence]) -> bool:
    """Whether a call brought something."""
    return any(record["status"] == "success" for record in evidence)
