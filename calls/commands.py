"""What a tool wants changed by a graph command: what of it is applied, and what is only named."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.types import Command, Overwrite

from ..state.messages import TOOL, make_signature
from ..text.sentences import say
from .call_records import Call
from .results import ToolResult, normalize_result, to_plain_json

_KINDS: Final = {"human": HumanMessage, "ai": AIMessage}
"""Which messages a tool may add; only the package itself gives a model a system message."""

_KEPT: Final = ("id", "name", "additional_kwargs")


def find_commands(result: object) -> list[Any]:
    """What a tool gave, as a list, if there is a graph command in it; else nothing."""
    items = result if isinstance(result, list) else [result]
    return items if any(isinstance(item, Command) for item in items) else []


def read_commands(
    items: Sequence[Any], takes: Collection[str], call_id: str, known: Sequence[AnyMessage] = ()
) -> ToolResult:
    """The result of a call whose tool answered with graph commands; it has not failed.

    Args:
        items: What it gave: commands, and perhaps tool messages beside them.
        takes: The keys of the graph's state that tools may change here.
        call_id: The call's id: the tool message with it is the result.
        known: The messages there are: tools give them back with their own.

    Returns:
        The result. Its `update` has what is to be changed, its text names what is not applied.
    """
    reader = _CommandReader(takes, {str(m.id): m for m in known if m.id})
    for item in items:
        reader.read(item)
    own = [message for message in reader.answers if message.tool_call_id == call_id]
    reader.left += ["ToolMessage"] * (len(reader.answers) - len(own) if own else 0)
    results = [normalize_result(message) for message in own or reader.answers]
    results = results or [ToolResult(say("no_output"))]
    texts = [result.text for result in results]
    if reader.left:
        texts.append(say("command_not_applied", what=", ".join(dict.fromkeys(reader.left))))
    return replace(results[0], text="\n".join(texts), to_model="", update=reader.update)


@dataclass
class _CommandReader:
    """What commands want, in their order: a later value of a key wins, messages add up."""

    takes: Collection[str]
    known: Mapping[str, AnyMessage]
    update: dict[str, Any] = field(default_factory=dict)
    answers: list[ToolMessage] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What is not applied."""

    def read(self, item: object) -> None:
        """Take in one command, or a message beside it."""
        if not isinstance(item, Command):
            self._add_messages(item, self.takes)
            return
        takes = self.takes if item.graph is None else ()
        for key, value in item._update_as_tuples() if item.update else ():
            value = value.value if isinstance(value, Overwrite) else value
            if key == "messages":
                self._add_messages(value, takes)
            elif key in takes and _fits(key, value):
                self.update[key] = to_plain_json(value)
            else:
                self.left.append(str(key))
        self.left += [key for key in ("goto", "resume", "graph") if getattr(item, key)]

    def _add_messages(self, value: object, takes: Collection[str]) -> None:
        for message in _convert_messages(value):
            if (there := self.known.get(str(getattr(message, "id", None)))) is not None:
                if there.content != message.content:  # nothing that was said is said otherwise
                    self.left.append(f"{type(message).__name__} {message.id}")
            elif isinstance(message, ToolMessage):
                self.answers.append(message)
            elif "messages" in takes and _may_be_added(message):
                self.update.setdefault("messages", []).append(_message_to_json(message))
            else:
                self.left.append(type(message).__name__)


def _convert_messages(value: object) -> list[Any]:
    """Messages in any form that LangGraph reads; other values stay unchanged."""
    items: list[Any] = value if isinstance(value, list) else [value]
    try:
        return list(convert_to_messages(items))
    except (ValueError, TypeError, NotImplementedError, KeyError):
        return items


def _may_be_added(message: object) -> bool:
    calls = getattr(message, "tool_calls", None) or getattr(message, "invalid_tool_calls", None)
    return isinstance(message, BaseMessage) and message.type in _KINDS and not calls


def _message_to_json(message: BaseMessage) -> dict[str, Any]:
    fields = {key: value for key in _KEPT if (value := getattr(message, key, None))}
    return {"type": message.type, **to_plain_json({"content": message.content, **fields})}


def _fits(key: str, value: object) -> bool:
    """Whether a value is of the kind that the key holds: a list of texts, else a yes or no."""
    if key == "improvements":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, bool)


def merge_updates(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Two updates as one: later values win, messages add up."""
    both = {**first, **then}
    if messages := [*first.get("messages", []), *then.get("messages", [])]:
        both["messages"] = messages
    return both


def drop_messages(update: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an update."""
    return {key: value for key, value in update.items() if key != "messages"}


def collect_updates(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """What the tools of these calls want changed, in the order of the calls, as JSON."""
    return [{**call.update, "call": call.id} for call in calls if call.update]


def merge_values(updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The keys that tools want changed, besides messages; the later call wins."""
    changed = {key: value for update in updates for key, value in drop_messages(update).items()}
    changed.pop("call", None)
    return changed


def build_messages(
    updates: Sequence[Mapping[str, Any]], turn: str, known: Sequence[AnyMessage]
) -> list[AnyMessage]:
    """The messages that tools add. Each has an id that no known message has: none is replaced."""
    taken = {str(message.id) for message in known} if updates else set()
    added: list[AnyMessage] = []
    for update in updates:
        for place, plain in enumerate(update.get("messages", [])):
            fields = {key: plain[key] for key in ("content", *_KEPT) if key in plain}
            if fields.get("id") is None or fields["id"] in taken:
                fields["id"] = f"{turn}.{update['call']}.{place}"
            taken.add(fields["id"])
            # Signed: a human message that a tool adds is no request of the user.
            signed = fields.get("additional_kwargs", {}) | make_signature(TOOL)
            added.append(_KINDS[plain["type"]](**fields | {"additional_kwargs": signed}))
    return added
