"""Six names for what a stream says: content, tool_calls, reasoning, done, stopped and error."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from langchain_core.messages import AIMessage, RemoveMessage

from ..state.messages import REASONING

StreamName = Literal["content", "tool_calls", "reasoning", "done", "stopped", "error"]
Streamed = tuple[StreamName, dict[str, Any]]


def stream_event(mode: str, chunk: Any) -> list[Streamed]:
    """What a chunk of a stream says, by the names that callbacks of chat front ends have.

    Args:
        mode: `messages`, `custom`, `updates` or `values`, as `stream_mode` names it; or `error`,
            and the exception that ended the stream.
        chunk: It.

    Returns:
        Pairs of a name and what there is to it; none where the chunk says nothing of the kind.
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
