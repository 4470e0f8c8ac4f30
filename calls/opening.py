"""What happens between planning the calls of a message and their first step."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from ..doors.journal import Journal
from ..hooks.registry import Hooks
from ..state.events import Emit
from .call_records import Course, tell_waiting
from .gate import Gate, PlannedCall
from .grants import is_granted
from .policy import GRANTED, NOT_INTERACTIVE

_NO_HOOKS: Final = Hooks()


async def open_calls(
    planned: Sequence[PlannedCall],
    gate: Gate,
    *,
    journal: Journal,
    thread_id: str,
    emit: Emit,
    hooks: Hooks = _NO_HOOKS,
) -> list[PlannedCall]:
    """Schedule the calls of a message, or put them on the list of those a human must approve.

    What the human has allowed for the thread is not asked again. Every step is told as an event,
    and `Notification` hooks hear of each call that begins to wait.

    Args:
        planned: What `plan_calls` gave, after the hooks that may change it.
        gate: What they were judged by.
        journal: Keeps what the human has allowed.
        thread_id: The thread; "" where the graph runs without one.
        emit: Takes the `tool_call` events.
        hooks: The graph's hooks.
    """
    asked = any(_wants_approval(call) for call in planned)
    grants = await journal.grants(thread_id) if asked else []
    opened: list[PlannedCall] = []
    for call in planned:
        settled = released(call, gate, grants)
        course = Course(settled, emit, "validating")
        course.tell()
        if settled["action"] == "allow":
            course.to("scheduled")
        elif settled["action"] == "ask":
            settled["expires_at"] = _end_of_question(settled, gate)
            course.to("awaiting_approval")
            await tell_waiting(settled, hooks, emit, thread_id)
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
