"""What the shared tool nodes read and write: one model turn's calls, in whatever graph."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel

from .evidence import Evidence, merge_records
from .messages import Messages
from .spend import Spend, add_spend

T = TypeVar("T")

HOOK_STOP: Final = "hook_stop"
"""Key of a planned call, and of a result's artifact: why a hook wants the run to end here."""

Records = Annotated[list[Evidence], DeltaChannel(merge_records, snapshot_frequency=50)]


def keep_latest(left: dict[str, T], right: dict[str, T]) -> dict[str, T]:
    """Reducer: join two mappings, the later value of a key wins."""
    return {**left, **right}


def join_texts(left: list[str], right: list[str]) -> list[str]:
    """Reducer: append texts that are not there yet; order of first appearance."""
    return list(dict.fromkeys([*left, *right]))


@dataclass(kw_only=True)
class CallState(ABC):
    """Calls between the model turn that wants them and the messages that answer them.

    `path` says whose calls they are, a task's id or the graph's own name: it begins every evidence
    id `<path>.<round>.<index>`.
    """

    messages: Messages = field(default_factory=list)
    turn_id: str = ""
    """Name of the user turn, never used twice; calls are recorded under it."""
    calls: list[Any] = field(default_factory=list)
    """Planned calls without an answer: the model turn writes them, call_tools what is left."""
    decisions: Annotated[dict[str, dict[str, Any]], keep_latest] = field(default_factory=dict)
    """Call id to the human's answer; approve writes."""
    objections: Annotated[dict[str, str], keep_latest] = field(default_factory=dict)
    """Call id to why the human's answer cannot be used; approve writes, the next question tells."""
    evidence: Records = field(default_factory=list)
    """Every call that was answered; call_tools appends."""
    denied: str = ""
    """Why a call was refused last: denied, rejected, not_interactive, expired or uncertain; or
    loop_detected, which ended the work on it."""
    strikes: int = 0
    """How often the loop guard has warned since the request or task began."""
    spend: Annotated[Spend, add_spend] = field(default_factory=Spend)
    """What was used; every node that asks or calls adds to it."""
    warnings: Annotated[list[str], join_texts] = field(default_factory=list)
    """What went wrong without ending the run: dead servers, other models that had to answer."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Whose calls these are."""


def stopped_by(calls: Sequence[Mapping[str, Any]]) -> str:
    """Why a hook wants the run to end instead of these calls; "" where none does."""
    return next((str(call[HOOK_STOP]) for call in calls if call.get(HOOK_STOP)), "")


def stopped_after(messages: Sequence[BaseMessage]) -> str:
    """Why a hook wants the run to end after the newest results; "" where none does."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return ""
        if isinstance(message.artifact, Mapping) and message.artifact.get(HOOK_STOP):
            return str(message.artifact[HOOK_STOP])
    return ""
