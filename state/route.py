"""Which graph takes a request, and what follows one that failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Field

from .calls import Evidence
from .contracts import Contract, Text, read_word
from .history import EarlierRecords, make_earlier_records
from .loop import LoopState, LoopUpdate
from .outcome import Outcome, Reason, Tried, Way

WAYS: Final[tuple[Way, ...]] = get_args(Way)

STRONGER: Final[Mapping[Way, Way]] = {
    "direct": "react",
    "react": "task_agent",
    "prompt_flow": "plan_execute_verify",
    "task_agent": "plan_execute_verify",
}
"""What takes a request over that one could not do."""

_HOPELESS: Final[frozenset[Reason]] = frozenset(
    {"DENIED", "MISSING_INFORMATION", "NOT_INTERACTIVE", "ABORTED"}
)
"""Ends that a stronger graph would come to as well."""
_SAID_NO: Final = frozenset({"denied", "rejected", "not_interactive", "expired", "gave_up"})
"""Reasons of calls that somebody had to allow, and did not."""

_OWN_WORD: Final[frozenset[Reason]] = frozenset({"GOAL", "SAME_BLOCKERS"})
"""Reasons of a graph that ended by itself, with a part undone."""


class RouteChoice(Contract):
    """Which graph takes the request, or the answer to it."""

    graph: Annotated[Way, BeforeValidator(lambda value: read_word(value, WAYS))]
    why: Text = Field(default="", description="One short sentence.")
    step: Text = Field(default="", description="For react: its first step, and with which tool.")
    answer: Text = Field(
        default="", description="For direct: the whole answer to the user, if you can give it."
    )


@dataclass(kw_only=True)
class RouterState(LoopState):
    """State of the router: what was chosen, what was tried, and what came of it."""

    record = "work_state"

    way: Way | Literal[""] = ""
    """The graph that has the request, or had the last one; choose writes it, and judge."""
    why: str = ""
    """Why it has it, in words."""
    tried: list[Tried] = field(default_factory=list)
    """The graphs that had the request, in their order."""
    inner: Outcome | None = None
    """How the newest of them ended; its node writes it."""
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By its name: what a graph left in its state, but for the conversation; its node writes it,
    and gives it back when the graph is next."""
    earlier: EarlierRecords = field(default_factory=list)
    """What the calls of the graphs brought, under ids of their own; their nodes add to it."""
    cut_off: list[Any] = field(default_factory=list)
    """What a graph had in its state when a new message ended the turn before its time; the
    graph's doors write it, intake takes it in."""

    per_turn = LoopState.per_turn | {"why", "tried", "inner", "cut_off"}


class RouterUpdate(LoopUpdate, total=False):
    """What a node of the graph may change."""

    way: Way
    why: str
    tried: list[Tried]
    inner: Outcome | None
    kept: dict[str, dict[str, Any]]
    earlier: list[Any]
    cut_off: list[Any]


# What follows a graph that failed


def choose_stronger(state: RouterState, *, can_ask: bool) -> Way | None:
    """The graph that takes the request over; None if nothing would help.

    A graph that ended by itself with a part undone is followed once: a stronger graph that says
    the same is believed.
    """
    ended, way = state.inner, state.way
    if ended is None or way == "" or ended["status"] in ("complete", "blocked", "cancelled"):
        return None
    refused = {str(record.get("reason")) for record in evidence_of(state)} & _SAID_NO
    in_doubt = ended["uncertain_calls"] and not can_ask
    if refused or in_doubt or ended["reason"] in _HOPELESS:
        return None
    word = {
        attempt["reason"] for attempt in state.tried if attempt["graph"] != "direct"
    } & _OWN_WORD
    return None if ended["reason"] in _OWN_WORD and word else STRONGER.get(way)


def evidence_of(state: RouterState) -> list[Any]:
    """The calls of the graph that has the request, or had it last."""
    return list(state.kept.get(state.way, {}).get("evidence") or ())


# What a graph is handed, and what it leaves

_NOT_KEPT: Final = frozenset({
    "messages", "ui", "events", "spend", "warnings", "stopping", "hook_context", "schema_version",
    "stop_hook_active", "earlier", "cut_off", "held",
})  # fmt: skip
"""Fields of a graph's state that the turn around it has, or that start empty."""


def make_inner_input(state: RouterState, *, remembers: bool) -> dict[str, Any]:
    """The input of the graph that has the request: the conversation, and what was kept of it.

    `remembers`: its state has `earlier`, for what other graphs have found.
    """
    given = {"messages": state.messages, **state.kept.get(state.way, {})}
    given["request_message"] = state.request_message
    if given.get("turn", 0) < state.turn - 1:  # what was cut off then is no longer under way
        given.setdefault("outcome", {})
    return given | ({"earlier": state.earlier} if remembers else {})


def select_kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """What of a graph's state is kept for its next turn."""
    left = {k: v for k, v in values.items() if k not in _NOT_KEPT and v is not None}
    return {key: [*value] if isinstance(value, list) else value for key, value in left.items()}


def collect_earlier(way: str, turn: int, values: Mapping[str, Any]) -> list[Evidence]:
    """The records of a graph's calls, unless its state has `earlier`.

    Steps of one graph and tasks of another may have equal ids.
    """
    if "earlier" in values:
        return list(values["earlier"])
    records: list[Evidence] = values.get("evidence") or []
    return make_earlier_records(turn, [r | Evidence(id=f"{way}.{r['id']}") for r in records])
