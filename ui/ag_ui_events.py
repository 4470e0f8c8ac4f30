"""A graph's stream as the events of AG-UI, version 1.0; this is the one place that maps them.

| of the graph | in the protocol |
|---|---|
| a text as it is written, and its reasoning | TEXT_MESSAGE_…, REASONING_… under the message's id |
| a draft that is taken back | MESSAGES_SNAPSHOT without it |
| a call in the conversation, its result | TOOL_CALL_START, ARGS, END; TOOL_CALL_RESULT |
| a component | ACTIVITY_SNAPSHOT of its name, under its id |
| a phase | STEP_STARTED, STEP_FINISHED |
| any other event | CUSTOM, by its type |
| the end | STATE_SNAPSHOT, MESSAGES_SNAPSHOT, RUN_FINISHED: success, interrupt or cancelled |
| an error | RUN_ERROR with its sentence |
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Interrupt as Question, StateSnapshot

from ..state.agent import COMPLETE_TASK
from ..state.channels import unpack_fields
from ..state.errors import SettingsError
from ..state.loop import PUBLIC
from ..state.messages import EVIDENCE, REASONING

try:
    from ag_ui import core as ag
    from ag_ui.encoder import EventEncoder
except ImportError as error:
    msg = "AG-UI needs the package ag-ui-protocol: pip install '.[ag-ui]' in its folder."
    raise SettingsError(msg) from error

__all__ = ["ClientView", "EventEncoder", "ag", "build_outcome"]

_SHOWN: Final = (*(key for key in PUBLIC if key != "messages"), "outcome", "phase", "iteration")
_OVER: Final = frozenset({"completed", "failed", "skipped", "cancelled", "blocked"})

_APPROVAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Replaces the arguments as a whole."},
        "message": {"type": "string", "description": "Why it is rejected."},
    },
    "required": ["approved"],
}
_WORDS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}


def _convert_message(message: BaseMessage) -> Any:
    """A message of the thread in the protocol's form; None for one that people are not shown."""
    about: dict[str, Any] = {"id": str(message.id)}
    if role := message.additional_kwargs.get("agent_type"):
        about["metadata"] = {"agent_type": role}
    if isinstance(message, HumanMessage):
        return ag.UserMessage(**about, content=str(message.text))
    if isinstance(message, ToolMessage):
        if message.name == COMPLETE_TASK:
            return None
        text, call = str(message.text), str(message.tool_call_id)
        error = text if message.status == "error" else None
        return ag.ToolMessage(**about, content=text, tool_call_id=call, error=error)
    if isinstance(message, AIMessage):
        calls = [
            ag.ToolCall(
                id=str(c["id"]),
                function=ag.FunctionCall(name=c["name"], arguments=_dump_arguments(c)),
            )
            for c in _list_shown_calls(message)
        ]
        if message.tool_calls and not (calls or message.text):
            return None
        return ag.AssistantMessage(**about, content=str(message.text), tool_calls=calls or None)
    return None


def _list_shown_calls(message: AIMessage) -> list[Any]:
    """The calls of a message but for an agent's end, which its answer tells."""
    return [call for call in message.tool_calls if call["name"] != COMPLETE_TASK]


def _dump_arguments(call: Mapping[str, Any]) -> str:
    return json.dumps(call["args"], ensure_ascii=False)


def _convert_question(question: Question, known: Mapping[str, str]) -> "ag.Interrupt":
    """A question in the protocol's form; everything else about it is metadata.

    It names its call as the thread does; the client has no calls of sub-agents. `known` maps ids,
    of evidence and of calls, to those of the thread's calls.
    """
    value = question.value if isinstance(question.value, Mapping) else {}
    kind, call = str(value.get("type", "")), value.get("tool_call_id")
    configs: Sequence[Mapping[str, Any]] = value.get("review_configs") or [{}]
    decisions = configs[0].get("allowed_decisions", [])
    schema: Any = question.response_schema
    schema, reason = (
        schema if isinstance(schema, dict) else None,
        f"loopwright:{kind or 'question'}",
    )
    if kind == "tool_approval" and call:
        schema, reason = _APPROVAL, "tool_call"
    elif decisions and "approve" not in decisions:
        schema, reason = _WORDS, "input_required"
    elif decisions:
        schema, reason = _APPROVAL, "confirmation"
    return ag.Interrupt(
        id=question.id,
        reason=reason,
        message=value.get("description") or str(question.value),
        tool_call_id=known.get(str(value.get("id"))) or known.get(str(call)),
        response_schema=schema,
        expires_at=value.get("expires_at"),
        metadata={"value": question.value},
    )


def build_outcome(state: StateSnapshot) -> Any:
    """How a run ended: with questions, stopped, or well."""
    if state.interrupts:
        made = [m for m in state.values["messages"] if m.type == "ai" and m.tool_calls]
        known = {str(call["id"]): str(call["id"]) for m in made for call in m.tool_calls}
        about = {m.additional_kwargs.get(EVIDENCE): str(m.tool_calls[0]["id"]) for m in made}
        known |= {str(name): call for name, call in about.items() if name}
        questions = [_convert_question(question, known) for question in state.interrupts]
        return ag.RunFinishedInterruptOutcome(type="interrupt", interrupts=questions)
    outcome = state.values.get("outcome") or {}
    if outcome.get("status") == "cancelled":
        return ag.RunFinishedCancelledOutcome(type="cancelled")
    return ag.RunFinishedSuccessOutcome(type="success")


@dataclass
class ClientView:
    """What the client has received in this run, and what is not closed yet."""

    messages: dict[str, Any] = field(default_factory=dict)
    """By id, in their order; components among them as activities."""
    written: dict[str, AIMessageChunk] = field(default_factory=dict)
    """The texts that are being written, as far as they came."""
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)
    """The phase each task is in; those of the graph itself under ''."""
    calls: set[str] = field(default_factory=set)
    moved: dict[str, Any] = field(default_factory=dict)
    """Whole messages that were taken out, and may come back at another place."""

    def load_state(self, state: StateSnapshot) -> None:
        """Load the thread."""
        self.messages = dict(_iterate_thread(state.values))
        self.calls = {
            call.id
            for message in self.messages.values()
            for call in getattr(message, "tool_calls", None) or ()
        }

    def convert_part(self, mode: str, part: Any) -> Iterator["ag.BaseEvent"]:
        """The events for a part of the graph's stream."""
        if mode == "custom":
            yield from self._convert_event(part if isinstance(part, Mapping) else {"value": part})
            return
        message, id_ = part[0], str(part[0].id)
        if isinstance(message, RemoveMessage):
            yield from self._take_out(id_)
        elif id_ in self.moved and self.moved[id_] == _convert_message(message):
            self.messages[id_] = self.moved.pop(id_)
            yield from () if self.moved else (self._make_snapshot(),)
        elif isinstance(message, AIMessageChunk):
            yield from self._settle_moved()
            yield from self._add_chunk(id_, message)
        elif isinstance(message, AIMessage):
            yield from self._add_message(message)
        elif isinstance(message, ToolMessage) and id_ not in self.messages:
            yield from self._add_result(message)

    def _add_result(self, message: ToolMessage) -> Iterator["ag.BaseEvent"]:
        shown = self.messages[str(message.id)] = _convert_message(message)
        if shown is not None:
            call, text = shown.tool_call_id, shown.content
            yield ag.ToolCallResultEvent(message_id=shown.id, tool_call_id=call, content=text)

    def _take_out(self, id_: str) -> Iterator["ag.BaseEvent"]:
        """A draft is taken back at once; a whole message may come back at another place."""
        if id_ in self.messages and id_ not in self.written:
            self.moved[id_] = self.messages.pop(id_)
        else:
            yield from self._remove_message(id_)

    def add_request(self, messages: Sequence[HumanMessage]) -> None:
        """Add what the client has sent: it has it, and the thread will."""
        self.messages |= {str(message.id): _convert_message(message) for message in messages}

    def _settle_moved(self) -> Iterator["ag.BaseEvent"]:
        """What was taken out and has not come back is gone."""
        if self.moved:
            self.moved.clear()
            yield self._make_snapshot()

    def _convert_event(self, event: Mapping[str, Any]) -> Iterator["ag.BaseEvent"]:
        kind, id_ = str(event.get("type", "custom")), str(event.get("id", ""))
        yield from self._settle_moved()
        if kind == "ui":
            shown = _make_activity(event)
            self.messages[id_] = shown
            yield ag.ActivitySnapshotEvent(
                message_id=id_, activity_type=shown.activity_type, content=shown.content
            )
        elif kind == "remove-ui":
            yield from self._remove_message(id_)
        elif kind == "phase":
            yield from self._change_step(str(event.get("task", "")), str(event.get("role", "")))
        else:
            if kind == "task" and event.get("status") in _OVER:
                yield from self._change_step(id_, "")
            yield ag.CustomEvent(name=kind, value=dict(event))

    def _change_step(self, task: str, role: str) -> Iterator["ag.BaseEvent"]:
        if before := self.steps.pop(task, ""):
            yield ag.StepFinishedEvent(step_name=before)
        if role:
            self.steps[task] = f"{role} {task}".strip()
            yield ag.StepStartedEvent(step_name=self.steps[task])

    def _add_chunk(self, id_: str, chunk: AIMessageChunk) -> Iterator["ag.BaseEvent"]:
        if id_ in self.messages and id_ not in self.written:
            return  # it was sent whole
        self.written[id_] = self.written[id_] + chunk if id_ in self.written else chunk
        if thought := str(chunk.additional_kwargs.get(REASONING) or ""):
            yield from self._add_thought(id_, thought)
        if text := str(chunk.text):
            yield from self._end_thought(id_)
            if id_ not in self.texts:
                self.texts.append(id_)
                yield ag.TextMessageStartEvent(message_id=id_, role="assistant")
            yield ag.TextMessageContentEvent(message_id=id_, delta=text)
        if chunk.chunk_position == "last":
            yield from self._end_text(id_)

    def _add_thought(self, id_: str, text: str) -> Iterator["ag.BaseEvent"]:
        name = f"{id_}-reasoning"
        if name not in self.thoughts:
            self.thoughts.append(name)
            yield ag.ReasoningStartEvent(message_id=name)
            yield ag.ReasoningMessageStartEvent(message_id=name, role="reasoning")
        yield ag.ReasoningMessageContentEvent(message_id=name, delta=text)

    def _end_thought(self, id_: str) -> Iterator["ag.BaseEvent"]:
        name = f"{id_}-reasoning"
        if name in self.thoughts:
            self.thoughts.remove(name)
            yield ag.ReasoningMessageEndEvent(message_id=name)
            yield ag.ReasoningEndEvent(message_id=name)

    def _end_text(self, id_: str) -> Iterator["ag.BaseEvent"]:
        """Close a text that is written."""
        message = self.written.pop(id_)
        yield from self._end_thought(id_)
        if id_ in self.texts:
            self.texts.remove(id_)
            yield ag.TextMessageEndEvent(message_id=id_)
        self.messages[id_] = _convert_message(message)
        yield from self._announce_calls(message)

    def _announce_calls(self, message: AIMessage) -> Iterator["ag.BaseEvent"]:
        for call in _list_shown_calls(message):
            id_ = str(call["id"])
            if id_ in self.calls:
                continue
            self.calls.add(id_)
            yield ag.ToolCallStartEvent(
                tool_call_id=id_, tool_call_name=call["name"], parent_message_id=str(message.id)
            )
            yield ag.ToolCallArgsEvent(tool_call_id=id_, delta=_dump_arguments(call))
            yield ag.ToolCallEndEvent(tool_call_id=id_)

    def _add_message(self, message: AIMessage) -> Iterator["ag.BaseEvent"]:
        """A whole message; it replaces what was sent under its id."""
        id_ = str(message.id)
        if id_ in self.written:
            yield from self._remove_message(id_)
        if id_ in self.messages:
            if self.messages[id_] != (shown := _convert_message(message)):
                self.messages[id_] = shown
                yield self._make_snapshot()
            return
        whole = AIMessageChunk(
            content=str(message.text),
            id=id_,
            additional_kwargs=message.additional_kwargs,
            chunk_position="last",
        )
        yield from self._add_chunk(id_, whole)
        self.messages[id_] = _convert_message(message)
        yield from self._announce_calls(message)

    def _remove_message(self, id_: str) -> Iterator["ag.BaseEvent"]:
        gone = [*self.written] if id_ == REMOVE_ALL_MESSAGES else [id_]
        is_shown = id_ in self.texts or id_ in self.messages or id_ == REMOVE_ALL_MESSAGES
        for message_id in gone:
            if message_id in self.written:
                yield from self._end_text(message_id)
        if id_ == REMOVE_ALL_MESSAGES:
            self.messages.clear()
        self.messages.pop(id_, None)
        if is_shown:
            yield self._make_snapshot()

    def _make_snapshot(self) -> "ag.MessagesSnapshotEvent":
        return ag.MessagesSnapshotEvent(messages=[m for m in self.messages.values() if m])

    def close_open(self) -> Iterator["ag.BaseEvent"]:
        """Close all open texts and steps, as the protocol requires before the end."""
        for id_ in [*self.written]:
            yield from self._end_text(id_)
        for task in [*self.steps]:
            yield from self._change_step(task, "")

    def end_run(self, state: StateSnapshot) -> Iterator["ag.BaseEvent"]:
        """The thread at the end of the run."""
        yield from self.close_open()
        self.load_state(state)
        fields = unpack_fields(state.values)
        shown = {key: fields[key] for key in _SHOWN if key in fields}
        yield ag.StateSnapshotEvent(snapshot=shown)
        yield self._make_snapshot()


def _iterate_thread(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The messages of a thread by id, each followed by the components that belong to it."""
    messages: Sequence[AnyMessage] = values.get("messages", ())
    known = {str(message.id) for message in messages}
    below: dict[str, list[Mapping[str, Any]]] = {}
    for shown in values.get("ui", ()):
        place = str(shown.get("metadata", {}).get("message_id", ""))
        below.setdefault(place if place in known else "", []).append(shown)
    for message in messages:
        yield str(message.id), _convert_message(message)
        for shown in below.get(str(message.id), ()):
            yield str(shown["id"]), _make_activity(shown)
    for shown in below.get("", ()):
        yield str(shown["id"]), _make_activity(shown)


def _make_activity(component: Mapping[str, Any]) -> "ag.ActivityMessage":
    return ag.ActivityMessage(
        id=str(component["id"]),
        activity_type=str(component["name"]),
        content=dict(component["props"]),
    )
