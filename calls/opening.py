"""The calls of a message: checked, judged, and scheduled or asked about before one of them runs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from langchain_core.messages import AIMessage

from ..turn.scope import RunScope
from .call_records import CallStatus, tell_waiting, waiting
from .gate import Gate, PendingCall, plan_calls
from .grants import is_granted
from .journal import Book, Doubt, Found, Recorded
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
    names: str = "",
    before: Sequence[str] = (),
) -> list[PendingCall]:
    """Check and judge the calls of a message, let hooks change them, and schedule or ask.

    What the human has allowed for the thread is not asked again. Every step is told as an event,
    and `Notification` hooks hear of each call that begins to wait.

    Args:
        scope: The run; its path begins the ids of the calls.
        toolbox: What can be called, and by which policy.
        message: The model's message.
        round_: The model turn, next in the ids of its calls.
        complete: False where the message was cut, so that no call in it can be trusted.
        names: Begins the calls' names in the journal where these are made again after a crash;
            without it they have new ones, and must be saved before they are run.
        before: Names under which earlier plans may have made the call.
    """
    gate = await toolbox.gate(scope)
    planned = plan_calls(message, task=scope.path, round_=round_, gate=gate, complete=complete)
    if "BeforeTool" in scope.hooks.events:
        planned = await before_tools(planned, gate, scope.hooks, emit=scope.emit)
    for call in planned:
        call["intent"] = f"{names}.{call['id']}" if names else call["intent"]
        call["before"] = list(before)
    planned = await _looked_up(scope, gate, planned)
    asked = any(_wants_approval(call) for call in planned)
    grants = await scope.journal.grants(scope.thread) if asked else []
    opened: list[PendingCall] = []
    for call in planned:
        settled = released(call, gate, grants)
        status = CallStatus(settled, scope.emit, "validating")
        status.tell()
        if settled["action"] == "allow":
            status.to("scheduled")
        elif settled["action"] == "ask":
            settled["expires_at"] = None if _in_doubt(call) else _end_of_question(settled, gate)
            status.to("awaiting_approval", **({"reason": "uncertain"} if _in_doubt(call) else {}))
            await tell_waiting(scope, settled)
        opened.append({**settled, "status": status.status})
    return opened


async def _looked_up(
    scope: RunScope, gate: Gate, calls: Sequence[PendingCall]
) -> list[PendingCall]:
    """The calls, those without an approval of their own of which the journal knows something.

    What was made asks nobody. What may have been made is one question, for the approval as well.
    """
    writes = [call for call in calls if _wants_approval(call) and not call["read_only"]]
    if not writes:
        return list(calls)
    book = Book(scope)
    tools = [gate.catalog.find(call["name"], call["server"]) for call in writes]
    intents = [book.intent(c, t, c["args"]) for c, t in zip(writes, tools, strict=True)]
    found = dict(zip((c["id"] for c in writes), await book.look(intents), strict=True))
    return [_known(scope, call, found.get(call["id"])) for call in calls]


def _known(scope: RunScope, call: PendingCall, found: Found | None) -> PendingCall:
    if isinstance(found, Recorded):
        told = {"action": "allow", "reason": "it was made before", "known": True}
        return cast("PendingCall", {**call, **told})
    if isinstance(found, Doubt) and scope.can_ask:
        return waiting(call, found.arguments(call["args"]), found.told())
    return call


def _in_doubt(call: PendingCall) -> bool:
    return bool(call.get("uncertain"))


def released(call: PendingCall, gate: Gate, grants: Collection[Mapping[str, Any]]) -> PendingCall:
    """The call, without its question if the human has allowed calls like it for the thread."""
    tool = gate.catalog.find(call["name"], call["server"])
    if not _wants_approval(call) or call.get("uncertain") or tool is None:
        return cast("PendingCall", {**call})
    if not any(is_granted(one, tool, call["args"]) for one in grants):
        return cast("PendingCall", {**call})
    return cast("PendingCall", {**call, "action": "allow", "reason": GRANTED})


def _wants_approval(call: PendingCall) -> bool:
    """Whether a question stands before the call, or would if somebody could be asked."""
    if call["action"] == "ask":
        return True
    return call["action"] == "deny" and call["reason"] == NOT_INTERACTIVE


def _end_of_question(call: PendingCall, gate: Gate) -> str | None:
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
