"""What a customer's front end gets of a desk: the one place that decides. Pure.

It gets what the customer wrote and was told, the components and questions that are for them, and
how a turn ended. Calls, results, warnings, reasons and what the desk knows are the operator's. The
graph's doors ask for each chunk of a stream and each state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langgraph.types import Overwrite, StateSnapshot

from ..state.messages import CUT, REASONING, REJECTED
from ..state.questions import is_for_operator

FOR_CUSTOMERS: Final = frozenset({"proposal", "receipt"})
"""The components that are drawn for customers."""

_ASKED: Final = "__interrupt__"
_SPOKEN: Final = ("ai", "AIMessageChunk")


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
        told = map(_read_fields, shown.get("messages", ()))
        said = [one["content"] for one in told if one["type"] in _SPOKEN]
        shown["outcome"] = {"status": outcome["status"], "answer": said[-1] if said else ""}
    return shown


def _show_messages(given: Any) -> list[Any]:
    """What people said, and were told."""
    given = given.value if isinstance(given, Overwrite) else given
    return [*map(_drop_thoughts, filter(_is_said, given if isinstance(given, list) else [given]))]


def _is_said(message: Any) -> bool:
    """Whether it is a message for people, a piece of one, or the removal of one."""
    told = _read_fields(message)
    if (kind := told.get("type")) in ("human", "remove"):
        return True
    if kind not in _SPOKEN or told["additional_kwargs"].keys() & {REJECTED, CUT}:
        return False
    return not any(map(told.get, ("tool_calls", "invalid_tool_calls", "tool_call_chunks")))


def _drop_thoughts(message: Any) -> Any:
    told = _read_fields(message)["additional_kwargs"]
    if REASONING not in told:
        return message
    less = {"additional_kwargs": {k: v for k, v in told.items() if k != REASONING}}
    return {**message, **less} if isinstance(message, Mapping) else message.model_copy(update=less)


def _read_fields(given: Any) -> Mapping[str, Any]:
    """The fields of a message; a server reads those that are saved as JSON, and questions too."""
    return given if isinstance(given, Mapping) else vars(given)


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


def _show_questions(asked: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(one for one in asked if not is_for_operator(_read_question(one)))


def _read_question(asked: Any) -> object:
    return asked["value"] if isinstance(asked, Mapping) else asked.value
