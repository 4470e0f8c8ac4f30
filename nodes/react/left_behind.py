"""Calls that a turn left without an answer, because a new message or a crash came first.

This is for a conversation of calls, which a model takes only with an answer to each of them. What
a plan had done by then is for `cut_off`: its tasks go on.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from ...doors.journal import CallRow, Journal
from ...state.events import Emit
from ...state.repair import repairs
from ...state.statuses import ToolStatus

NOT_RUN: Final = "Not run: a new message of the user came first."
IN_DOUBT: Final = (
    "No result: the run ended while this call was under way. It may have taken effect; check "
    "before you repeat it."
)


async def answered(
    messages: Sequence[AnyMessage],
    calls: Sequence[Mapping[str, Any]],
    *,
    journal: Journal,
    thread: str,
    turn: str,
    emit: Emit,
) -> list[Any]:
    """The writes after which every call in a conversation has an answer of ours.

    Args:
        messages: The conversation.
        calls: The planned calls that wait for an answer.
        journal: Knows what became of writes in a run that was cut off.
        thread: The thread.
        turn: The turn the calls belong to.
        emit: Takes the last event of each call.
    """
    rows: dict[str, CallRow] = {}
    if calls:
        await journal.at_rest(thread, turn)
        rows = {row.key.call: row for row in await journal.rows(thread, turn=turn)}
    answers = {call["call_id"]: _answer(call, rows.get(call["id"])) for call in calls}
    for call in calls:
        emit(_event(call, answers[call["call_id"]]))
    return repairs(
        messages,
        lambda call_id: answers.pop(call_id, None) or _message(call_id, NOT_RUN),
        open_calls=list(answers),
    )


def _answer(call: Mapping[str, Any], row: CallRow | None) -> ToolMessage:
    if row is None:
        return _message(call["call_id"], NOT_RUN, call)
    if row.state not in ("finished", "failed"):
        return _message(call["call_id"], IN_DOUBT, call)
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
    unknown = answer.text in (NOT_RUN, IN_DOUBT)
    status: ToolStatus = "cancelled" if unknown else answer.status
    reason = "uncertain" if answer.text == IN_DOUBT else "superseded"
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
