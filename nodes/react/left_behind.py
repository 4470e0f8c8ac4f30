"""Calls that a turn left without an answer, because a new message or a crash came first.

This is for a conversation of calls, which a model takes only with an answer to each of them. What
a plan had done by then is for `cut_off`: its tasks go on.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from ...state.calls import ToolStatus
from ...state.journal import Row
from ...state.messages import repairs
from ...state.told import say
from ...turn.scope import RunScope


async def answered(
    scope: RunScope,
    messages: Sequence[AnyMessage],
    calls: Sequence[Mapping[str, Any]],
    *,
    told: bool,
) -> list[Any]:
    """The writes after which every call in a conversation has an answer of ours.

    Args:
        scope: The run; its turn is the one the calls belong to.
        messages: The conversation.
        calls: The pending calls that wait for an answer.
        told: The turn came to its outcome, which told of its doubts.
    """
    thread = scope.journaled
    if scope.turn:
        await scope.journal.release(
            thread, turn=scope.turn, place=scope.place, keeps=lambda _: False, ended=True,
            told=told, fence=scope.fence,
        )  # fmt: skip
    names = [call["intent"] for call in calls]
    rows = {row.name: row for row in await scope.journal.rows(thread, names)} if names else {}
    answers = {call["call_id"]: _answer(call, rows.get(call["intent"])) for call in calls}
    for call in calls:
        scope.emit(_event(call, answers[call["call_id"]]))
    return repairs(
        messages,
        lambda call_id: answers.pop(call_id, None) or _message(call_id, say("superseded")),
        open_calls=list(answers),
    )


def _answer(call: Mapping[str, Any], row: Row | None) -> ToolMessage:
    if row is None or row.paused:
        return _message(call["call_id"], say("superseded"), call)
    if row.result is None or row.in_doubt:
        return _message(call["call_id"], say("cut_off_under_way"), call)
    found = row.result or {}
    answer = _message(call["call_id"], str(found.get("text", "")), call)
    return answer if found.get("is_error") else answer.model_copy(update={"status": "success"})


def _message(call_id: str, text: str, call: Mapping[str, Any] | None = None) -> ToolMessage:
    about = {"evidence": call["id"]} if call else {}
    return ToolMessage(
        text,
        id=str(uuid.uuid4()),
        name=call["name"] if call else None,
        tool_call_id=call_id,
        status="error",
        additional_kwargs=about,
    )


def _event(call: Mapping[str, Any], answer: ToolMessage) -> dict[str, Any]:
    unknown = answer.text in (say("superseded"), say("cut_off_under_way"))
    status: ToolStatus = "cancelled" if unknown else answer.status
    reason = "uncertain" if answer.text == say("cut_off_under_way") else "superseded"
    return {
        "type": "tool_call",
        "id": call["id"],
        "task": call["task"],
        "tool": call["name"],
        "arguments": call["args"],
        "status": status,
        "result": answer.text,
        **({"reason": reason} if unknown else {}),
    }
