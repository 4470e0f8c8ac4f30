"""The messages that show people a turn: the phases that ended, and questions.

Chat front ends draw messages, and a question only under the last of them. Models get all this in
the sections of their prompts, so `conversation_of` leaves these messages out. Their ids are made of
the turn and the content, so that a repetition after a crash has the same id.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage

from ..state.calls import Evidence
from ..state.loop import LoopState
from ..state.messages import (
    EVIDENCE,
    answer_name,
    calls_in,
    find_request,
    make_repairs,
    make_rewrite,
    make_signature,
)
from ..state.plan import Task
from ..text.canonical import beginning_of, hash_of, make_storable, make_storable_json
from ..text.sentences import say

_MOST: Final = 4_000


def make_phase_message(state: LoopState, role: str, text: str, name: str = "") -> list[AIMessage]:
    """The result of a phase as a message signed with its role; none without words.

    `name` is its id, by default made of its place in the conversation.
    """
    if not text.strip():
        return []
    words = beginning_of(make_storable(text.strip()), _MOST)
    name = name or make_message_id(state)
    return [AIMessage(words, id=name, additional_kwargs=make_signature(role))]


def make_message_id(state: LoopState) -> str:
    """The id of the message that the running phase may add."""
    return f"{state.turn_id}.{len(state.messages)}"


def find_phase_id(state: LoopState) -> str:
    """The id of the message whose calls the phase runs, else of the phase's own message."""
    newest = _find_open_message(state)
    return make_message_id(state) if newest is None else str(newest.id)


def has_open_calls(state: LoopState) -> bool:
    """Whether calls of the conversation run: other calls would part them from their answers."""
    newest = _find_open_message(state)
    return newest is not None and EVIDENCE not in newest.additional_kwargs


def _find_open_message(state: LoopState) -> AnyMessage | None:
    """The message that has calls without an answer, if it is the newest but for answers."""
    answered: set[str] = set()
    for message in reversed(state.messages):
        if not isinstance(message, ToolMessage):
            made = {call["id"] for call in calls_in(message)}
            return message if made - answered else None
        answered.add(message.tool_call_id)
    return None


def make_report_id(turn: str, task: Task) -> str:
    """The id of the message that reports the attempt at a task that is under way."""
    return f"{turn}.{task['id']}.attempt.{task.get('attempts', 0) + 1}"


def make_question_message(
    state: LoopState, role: str, question: object, key: str = ""
) -> AIMessage:
    """The message under which a question is drawn: the call it is about, else its words.

    `role` is the role that wants the call; `key` is the interrupt's id, for other questions.
    """
    about, call = make_signature(role), question if isinstance(question, Mapping) else {}
    name = f"{state.turn_id}.{call.get('id') or key}"
    match question:
        case {
            "type": "tool_approval" | "uncertain_call",
            "id": str(evidence),
            "tool_call_id": str(call_id),
            "action_requests": [{"name": str(tool), "args": dict(args)}, *_],
        }:
            made = [
                {"name": tool, "args": _shorten_arguments(make_storable_json(args)), "id": call_id}
            ]
            about |= {EVIDENCE: evidence}
            return AIMessage("", id=name, tool_calls=made, additional_kwargs=about)
    return AIMessage(_describe_question(question), id=name, additional_kwargs=about)


def separate_calls(state: LoopState, asked: Sequence[AIMessage]) -> list[AIMessage]:
    """The messages with call ids that the thread does not have yet: tasks side by side share some.

    Only the thread has the new id: in its own talk a task keeps the provider's.
    """
    known = {str(message.id) for message in state.messages}
    taken = {call["id"] for message in state.messages for call in calls_in(message)}
    told = []
    for message in asked:
        for call in message.tool_calls if message.id not in known else ():
            if call["id"] in taken:
                own = f"call_{state.turn_id}_{hash_of([message.additional_kwargs[EVIDENCE]])[:12]}"
                message = message.model_copy(update={"tool_calls": [{**call, "id": own}]})
            taken.add(message.tool_calls[0]["id"])
        told.append(message)
    return told


def _shorten_arguments(value: Any) -> Any:
    """Arguments with the beginning of each long text: the question has them whole."""
    match value:
        case str():
            return beginning_of(value, _MOST)
        case dict():
            return {key: _shorten_arguments(one) for key, one in value.items()}
        case list():
            return [_shorten_arguments(one) for one in value]
    return value


def _describe_question(question: object) -> str:
    """A question in words, whatever shape an application gave it."""
    words = question
    if isinstance(question, Mapping):
        words = question.get("description") or question.get("question") or question
    text = words if isinstance(words, str) else json.dumps(words, ensure_ascii=False, default=str)
    return beginning_of(make_storable(text), _MOST)


def make_answers(state: LoopState, evidence: Sequence[Evidence]) -> list[ToolMessage]:
    """The tool messages of the calls that people were asked about and that have ended since."""
    ended = {record["id"]: record for record in evidence}
    return [
        _make_answer(message, record)
        for message in list_unanswered(state)
        if (record := ended.get(message.additional_kwargs[EVIDENCE]))
    ]


def _make_answer(asked: AIMessage, record: Evidence) -> ToolMessage:
    text = beginning_of(record["result"], _MOST)
    return ToolMessage(
        make_storable(text) or "-",
        id=answer_name(asked),
        name=record["tool"],
        tool_call_id=str(asked.tool_calls[0]["id"]),
        status="success" if record["status"] == "success" else "error",
        additional_kwargs={EVIDENCE: record["id"]},
    )


def list_unanswered(state: LoopState) -> Iterator[AIMessage]:
    """The messages with calls that people were asked about in this turn and that have no answer."""
    turn = [*takewhile(lambda m: m.id != state.request_message, reversed(state.messages))][::-1]
    known = {str(message.id) for message in turn}
    for message in turn:
        if not (isinstance(message, AIMessage) and EVIDENCE in message.additional_kwargs):
            continue
        if str(message.id).startswith(f"{state.turn_id}.") and answer_name(message) not in known:
            yield message


def add_messages(state: LoopState, told: Sequence[AnyMessage]) -> list[Any]:
    """The writes that add the messages not in the conversation yet.

    An answer stands behind the call that people were asked about: its place never changes again.
    """
    after = list(state.messages)
    for message in told:
        if any(one.id == message.id for one in after):
            continue
        asked = [answer_name(one) for one in after]
        place = asked.index(str(message.id)) + 1 if message.id in asked else len(after)
        after.insert(place, message)
    return make_rewrite(state.messages, after)


def move_answer_last(state: LoopState, message: AIMessage) -> list[Any]:
    """The answer of the turn as its last message, also if an earlier one stood further up."""
    known = any(m.id == message.id for m in state.messages[:-1])
    return [*([RemoveMessage(id=str(message.id))] if known else []), message]


def repair_turn(state: LoopState) -> list[Any]:
    """The writes after which each call of this turn has its answer behind it; see `repairs`."""
    place = find_request(state.messages, state.request_message)
    return make_repairs(
        state.messages[max(0, place) :],
        lambda call_id: make_error_answer(call_id, say("turn_ended_first")),
    )


def make_error_answer(call_id: str, why: str, **about: Any) -> ToolMessage:
    """The message that answers a call which brought no result, and says why."""
    about = {"status": "error", "id": str(uuid.uuid4()), **about}
    return ToolMessage(why, tool_call_id=call_id, **about)
