"""The calls of a message: checked, judged, and scheduled or asked about before one of them runs."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from langchain_core.messages import AIMessage

from ..turn.scope import RunScope
from .call_records import Course, tell_waiting
from .gate import Gate, PlannedCall, plan_calls
from .grants import is_granted
from .policy import GRANTED, NOT_INTERACTIVE
from .tool_hooks import before_tools
from .toolbox import Toolbox


async def open_calls(
    scope: RunScope,
    toolbox: Toolbox,
    message: AIMessage,
    *,
    round_: int,
    complete: bool = True,
) -> list[PlannedCall]:
    """Check and judge the calls of a message, let hooks change them, and schedule or ask.

    What the human has allowed for the thread is not asked again. Every step is told as an event,
    and `Notification` hooks hear of each call that begins to wait.

    Args:
        scope: The run; its path begins the ids of the calls.
        toolbox: What can be called, and by which policy.
        message: The model's message.
        round_: The model turn, next in the ids of its calls.
        complete: False where the message was cut, so that no call in it can be trusted.
    """
    gate = await toolbox.gate(scope)
    calls = plan_calls(message, task=scope.path, round_=round_, gate=gate, complete=complete)
    planned = await before_tools(calls, gate, scope.hooks, emit=scope.emit)
    asked = any(_wants_approval(call) for call in planned)
    grants = await scope.journal.grants(scope.thread) if asked else []
    opened: list[PlannedCall] = []
    for call in planned:
        settled = released(call, gate, grants)
        course = Course(settled, scope.emit, "validating")
        course.tell()
        if settled["action"] == "allow":
            course.to("scheduled")
        elif settled["action"] == "ask":
            settled["expires_at"] = _end_of_question(settled, gate)
            course.to("awaiting_approval")
            await tell_waiting(scope, settled)
        opened.append({**settled, "status": course.status})
    return opened


def released(call: PlannedCall, gate: Gate, grants: Collection[Mapping[str, Any]]) -> PlannedCall:
    """The call, without its question if the human has allowed calls like it for the thread."""
    tool = gate.catalog.find(call["name"], call["server"])
    if not _wants_approval(call) or call.get("uncertain") or tool is None:
        return cast("PlannedCall", {**call})
    if not any(is_granted(one, tool, call["args"]) for one in grants):
        return cast("PlannedCall", {**call})
    return cast("PlannedCall", {**call, "action": "allow", "reason": GRANTED})


def _wants_approval(call: PlannedCall) -> bool:
    """Whether a question stands before the call, or would if somebody could be asked."""
    if call["action"] == "ask":
        return True
    return call["action"] == "deny" and call["reason"] == NOT_INTERACTIVE


def _end_of_question(call: PlannedCall, gate: Gate) -> str | None:
    """When the question about a call ends, as ISO 8601; None where it never does."""
    tool = gate.catalog.find(call["name"], call["server"])
    if tool is None:
        return None
    decision = gate.policy.decide(
        tool, call["args"], context=gate.context, can_ask=gate.can_ask, agent=gate.agent
    )
    # A hook may ask about a call that policy allows.
    seconds = decision.expires_in or gate.context.question_expires_in
    if seconds is None:
        return None
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
