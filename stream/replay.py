"""For clients of a stream: `Replay` survives a lossy stream, `stream_event` has six plain names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, RemoveMessage

from ..state.channels import Component, KeptEvents, merge_events
from ..state.messages import REASONING
from .events import EVENTS, Event, subject_of
from .views import components_of


@dataclass
class Replay:
    """What a front end knows of a thread: the state it took last, and the events since.

    `hear` each chunk of the `custom` stream. `take` the state when a stream begins, begins again
    or has ended, and if a number is `missing`. Lost, repeated and late events then change nothing.
    """

    state: KeptEvents = field(default_factory=KeptEvents)
    drawn: dict[str, Component] = field(default_factory=dict)
    heard: dict[int, Event] = field(default_factory=dict)

    def take(self, values: Mapping[str, Any]) -> None:
        """Begin from a thread's state; what was heard and it does not confirm is forgotten."""
        self.state, self.heard = values.get("events") or KeptEvents(), {}
        self.drawn = {component["id"]: component for component in values.get("ui") or ()}

    def hear(self, chunk: Any) -> None:
        """Take in one chunk. Only events count: components are drawn from them."""
        match chunk:
            case {"type": str(kind), "seq": int(seq), "turn": str()} if kind in EVENTS:
                if seq > self.state.get("upto", 0):
                    self.heard.setdefault(seq, chunk)

    @property
    def missing(self) -> bool:
        """Whether a number was not heard, so that the state knows more."""
        before = self.state.get("upto", 0)
        return len(self.heard) < max(self.heard, default=before) - before

    @property
    def events(self) -> KeptEvents:
        """The newest event of each subject, as the state has them."""
        return merge_events(self.state, [*map(_as_write, self._sort_events())])

    @property
    def ui(self) -> dict[str, Component]:
        """By id: the components."""
        turn, folded = self.state.get("turn", ""), {**self.state.get("kept", {})}
        drawn = {**self.drawn}
        for event in self._sort_events():
            if event["turn"] != turn:
                turn, folded = event["turn"], {}
            if subject := subject_of(event):
                folded[subject] = dict(event)
            drawn |= {component["id"]: component for component in components_of(folded, event)}
        return drawn

    def _sort_events(self) -> list[Event]:
        return [self.heard[number] for number in sorted(self.heard)]


def _as_write(event: Event) -> KeptEvents:
    subject = subject_of(event)
    kept = {subject: dict(event)} if subject else {}
    return KeptEvents(turn=event["turn"], upto=event["seq"], kept=kept)


StreamName = Literal["content", "tool_calls", "reasoning", "done", "stopped", "error"]
Streamed = tuple[StreamName, dict[str, Any]]


def stream_event(mode: str, chunk: Any) -> list[Streamed]:
    """What a chunk of a stream says, by the names that callbacks of chat front ends have.

    Args:
        mode: `messages`, `custom`, `updates` or `values`, as `stream_mode` names it; or `error`.
        chunk: The chunk, or the exception that ended the stream.
    """
    match mode:
        case "messages":
            return [*_read_message(chunk[0])]
        case "custom":
            return [*_read_event(chunk)]
        case "error":
            return [("error", {"message": str(chunk) or type(chunk).__name__})]
    asked = chunk.get("__interrupt__") if isinstance(chunk, Mapping) else None
    return [("stopped", {"reason": "WAITING", "interrupts": [*asked]})] if asked else []


def _read_message(message: Any) -> Iterator[Streamed]:
    """A piece of a message; `again` where what was said under its id so far is taken back."""
    if isinstance(message, RemoveMessage):
        yield "content", {"id": message.id, "text": "", "again": True}
    elif isinstance(message, AIMessage):
        thought = message.additional_kwargs.get(REASONING)
        if isinstance(thought, str) and thought:
            yield "reasoning", {"id": message.id, "text": thought}
        if message.text:
            yield "content", {"id": message.id, "text": str(message.text)}


def _read_event(event: Mapping[str, Any]) -> Iterator[Streamed]:
    """A call that is to be made or asked about, or the end of the turn."""
    match event:
        case {"type": "tool_call", "status": "scheduled" | "awaiting_approval" as status}:
            call = {key: event[key] for key in ("id", "tool", "arguments")}
            yield "tool_calls", {"calls": [call], "confirm": status == "awaiting_approval"}
        case {"type": "outcome", "status": str(status)}:
            name: dict[str, StreamName] = {"cancelled": "stopped", "failed": "error"}
            about = {"status": status, "reason": event["reason"]}
            more = {"message": "; ".join(event.get("unmet", []))} if status == "failed" else {}
            yield name.get(status, "done"), about | more
