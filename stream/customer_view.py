"""What a customer's front end gets of a desk: the one place that decides. Pure.

It gets what the customer wrote and was told, the components and questions that are for them, and
how a turn ended. Calls, results, warnings, reasons and what the desk knows are the operator's. The
graph's doors ask for each chunk of a stream and each state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.types import Interrupt, Overwrite, StateSnapshot

from ..state.messages import CUT, REASONING, REJECTED, calls_in
from ..state.questions import is_for_operator

FOR_CUSTOMERS: Final = frozenset({"proposal", "receipt"})
"""The components that are drawn for customers."""

_ASKED: Final = "__interrupt__"


def show_chunk(chunk: Any, options: Mapping[str, Any]) -> Any:
    """A chunk of a stream that was asked for with these options; None if it is hidden."""
    if options.get("version") == "v2":
        shown = None if chunk["ns"] else _show_part(chunk["type"], chunk["data"])
        told = {**chunk, "data": shown}
        if "interrupts" in chunk:
            told["interrupts"] = _show_questions(chunk["interrupts"])
        return None if shown is None else told
    modes, inner = options.get("stream_mode") or "updates", bool(options.get("subgraphs"))
    several = isinstance(modes, list)
    *around, part = chunk if several or inner else (chunk,)
    if inner and around[0]:
        return None
    shown = _show_part(around[-1] if several else modes, part)
    return (*around, shown) if around and shown is not None else shown


def _show_part(mode: str, part: Any) -> Any:
    """What one mode of a stream tells."""
    match mode:
        case "messages":
            return (*shown, *part[1:]) if (shown := _show_messages(part[0])) else None
        case "custom":
            return part if _is_drawn(part) else None
        case "values":
            return _show_values(part)
        case "updates":
            news = {node: _show_values(update) for node, update in part.items() if node != _ASKED}
            return {node: new for node, new in news.items() if new} | _show_asked(part) or None
        case "debug" if part["type"] == "checkpoint":  # a server keeps it as the thread's values
            values = _show_values(part["payload"]["values"])
            return {**part, "payload": {**part["payload"], "values": values, "tasks": []}}
    return None


def show_state(state: StateSnapshot) -> StateSnapshot:
    """A state; a thread that only waits for the operator is at rest."""
    asked = _show_questions(state.interrupts)
    hidden: dict[str, Any] = {"error": None, "result": None, "state": None}
    tasks = (t._replace(interrupts=_show_questions(t.interrupts), **hidden) for t in state.tasks)
    after = state.next if asked or not state.interrupts else ()
    return state._replace(
        values=_show_values(state.values), next=after, tasks=tuple(tasks), interrupts=asked
    )


def _show_values(values: Any) -> dict[str, Any]:
    """What is shown of the values of all channels, or of those that a node has written."""
    given = values if isinstance(values, Mapping) else vars(values) if values else {}
    shown = _show_asked(given)
    if "messages" in given:
        shown["messages"] = _show_messages(given["messages"])
    if "ui" in given:
        shown["ui"] = [*filter(_is_drawn, given["ui"] or ())]
    if outcome := given.get("outcome"):
        said = [message.text for message in shown.get("messages", ()) if message.type == "ai"]
        shown["outcome"] = {"status": outcome["status"], "answer": "".join(said[-1:])}
    return shown


def _show_messages(given: Any) -> list[Any]:
    """What people said, and were told."""
    given = given.value if isinstance(given, Overwrite) else given
    return [*map(_drop_thoughts, filter(_is_said, given if isinstance(given, list) else [given]))]


def _is_said(message: Any) -> bool:
    """Whether it is a message for people, a piece of one, or the removal of one."""
    if isinstance(message, HumanMessage | RemoveMessage):
        return True
    if not isinstance(message, AIMessage) or message.additional_kwargs.keys() & {REJECTED, CUT}:
        return False
    return not (calls_in(message) or getattr(message, "tool_call_chunks", ()))


def _drop_thoughts(message: Any) -> Any:
    if REASONING not in message.additional_kwargs:
        return message
    about = {k: v for k, v in message.additional_kwargs.items() if k != REASONING}
    return message.model_copy(update={"additional_kwargs": about})


def _is_drawn(part: Any) -> bool:
    """Whether it is a component for customers, or the removal of one."""
    match part:
        case {"type": "ui", "name": name} | {"type": "remove-ui", "id": name}:
            return str(name).rpartition(".")[2] in FOR_CUSTOMERS
    return False


def _show_asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The questions of values or updates, where there are any."""
    asked = _show_questions(given.get(_ASKED, ()))
    return {_ASKED: asked} if asked else {}


def _show_questions(asked: Sequence[Interrupt]) -> tuple[Interrupt, ...]:
    return tuple(one for one in asked if not is_for_operator(one.value))
