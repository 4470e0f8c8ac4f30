"""hand_off: gives the thread to a human with all they need, or makes a ticket of it.

If a tool hands over, the node is entered twice: to plan the call, and after it.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final
from zoneinfo import ZoneInfo

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.runtime import Runtime

from ...calls.approval import decision_key
from ...calls.gate import open_calls, set_call_ids
from ...policy.desk.checks import read_data
from ...policy.desk.company import Company, find_next_opening, is_open
from ...state.context import Context
from ...state.desk import AWAY, DeskState, DeskUpdate
from ...state.hand_over import HAND_OVER, build_packet, summarize_packet
from ...state.messages import PACKAGE, make_signature
from ...state.questions import Decision
from ...stream.turn_messages import make_message_id, repair_turn
from ...text.canonical import hash_of
from ...text.sentences import say, say_to
from ...turn.scope import RunScope, make_scope
from .desk import Desk
from .turn import emit_receipt


@dataclass(frozen=True)
class Staff:
    """Whether somebody is there, and else in how many hours the customer hears of them."""

    there: bool
    hours: int


async def find_staff(scope: RunScope, company: Company) -> Staff:
    """Look who is there now; a run that cannot be resumed has nobody to wait for."""
    now = datetime.now(ZoneInfo(company.timezone))
    said = await _read_absence(scope)
    back = _parse_time(said.get("until")) if said else None
    away = bool(said) and (back is None or now < back)
    opens = find_next_opening(
        company.hours, max(now, back.astimezone(now.tzinfo)) if away and back else now
    )
    there = scope.run.saved and not away and is_open(company.hours, now)
    known = opens > now
    wait = opens - now if known else timedelta()
    return Staff(there, ceil(wait / timedelta(hours=1)) + (1 if known else company.follow_up_hours))


async def _read_absence(scope: RunScope) -> dict[str, Any]:
    if scope.store is None:
        return {}
    item = await scope.store.aget(*AWAY)
    return dict(item.value) if item is not None else {}


def _parse_time(text: object) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


_SUBJECT: Final = 120
_UNNAMED: Final = "a human"
"""The issue of who has asked for nothing else yet."""


async def hand_off(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Hand over by the tool that there is for it, then tell the customer; no model is asked."""
    scope = await make_scope(state, runtime, desk.parts)
    update = DeskUpdate()
    if state.packet.get("turn") != state.turn_id:
        update = await _start_hand_off(scope, state, desk)
        state = replace(state, packet=update["packet"])
    if update.get("calls"):
        return update
    told = _tell_customer(scope, state, desk)
    if told.get("owner") == "human":
        await _notify(scope, state)
    told["messages"] = [*update.get("messages", []), *told.get("messages", [])]
    return update | told


async def _start_hand_off(scope: RunScope, state: DeskState, desk: Desk) -> DeskUpdate:
    """The packet, and the call that puts the case where humans look, if there is a tool for it."""
    why = state.why or say("desk_limit", reason=", ".join(state.unmet))
    staff = await find_staff(scope, desk.company)
    packet: dict[str, Any] = {
        "id": f"hand-over-{state.turn_id}", "turn": state.turn_id,
        "request": state.request_message, "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "why": why, "staffed": staff.there, "hours": staff.hours,
    }  # fmt: skip
    scope.emit({"type": "hand_off", "why": why})
    update = DeskUpdate(
        strategy="hand_off", packet=packet, halt=None, unmet=[], improvements=[], calls=[],
        delegations=[], messages=repair_turn(state),  # what was not run by now never is
    )  # fmt: skip
    by = desk.company.handed_over_by if staff.there else desk.company.tickets_by
    if not staff.there and _issue(state) in state.tickets:
        return update
    catalog = await desk.parts.toolbox.catalog(scope.user)
    if (tool := catalog.find(by)) is None:
        return update
    known = tool.schema.get("properties") or {}
    args = {k: v for k, v in _build_case(replace(state, packet=packet)).items() if k in known and v}
    round_, call = state.round + 1, {"name": by, "args": args, "id": "", "type": "tool_call"}
    message = AIMessage("", tool_calls=[call])
    # Whether a human may be asked is not what to ask one; what the policy denies stays denied.
    asking = replace(scope, can_ask=True)
    calls = await open_calls(asking, desk.parts.toolbox, message, round_=round_)
    yes = {
        decision_key(one): Decision(type="approve", arguments=hash_of(one["args"]))
        for one in calls
        if one["action"] == "ask" and not one.get("doubt")
    }
    named = set_call_ids(message, calls).model_copy(
        update={"id": make_message_id(state), "additional_kwargs": make_signature(HAND_OVER)}
    )
    packet["by"] = by
    messages = [*update["messages"], named]
    return update | DeskUpdate(calls=calls, decisions=yes, messages=messages, round=round_)


async def _notify(scope: RunScope, state: DeskState) -> None:
    """Tell `Notification` hooks that somebody waits for a human."""
    packet = build_packet(state)
    about = {"id": packet["id"], "thread": scope.thread, "why": packet["why"]}
    await scope.notify("HandOver", summarize_packet(packet), about)


def _build_case(state: DeskState) -> dict[str, Any]:
    """What a tool that hands over may want to know, under the names that ours has for it."""
    urgent = state.intent == "sensitive" or bool(state.mood and state.mood[-1]["mood"] == "angry")
    packet = build_packet(state)
    summary = summarize_packet(packet)
    return {
        "reason": packet["why"], "summary": summary, "subject": packet["why"][:_SUBJECT],
        "body": summary, "issue": _issue(state), "priority": "high" if urgent else "normal",
        "follow_up_hours": packet["hours"], "customer_id": state.identity.get("customer_id"),
        "ticket_id": state.tickets.get(_issue(state)),
    }  # fmt: skip


def _issue(state: DeskState) -> str:
    return state.issue or _UNNAMED


def _tell_customer(scope: RunScope, state: DeskState, desk: Desk) -> DeskUpdate:
    """What came of it, to the customer and in the state: a human has the thread, or a ticket."""
    packet, hours = state.packet, state.packet["hours"]
    result, tickets = _read_result(state), state.tickets
    if ticket := str(result.get(desk.company.ticket_as, "")):
        tickets = {**tickets, _issue(state): ticket}
    ticket = tickets.get(_issue(state), "")
    language = state.language or desk.company.languages[0]
    must_wait = state.intent == "sensitive" or bool(state.proposal and state.proposal.get("why"))
    if ticket and not (packet["staffed"] or must_wait):
        promise = say("desk_ticket_promised", ticket=ticket, hours=hours)
        return DeskUpdate(
            packet={}, tickets=tickets, task_completed=True, answer=say_to(
                language, "desk_ticket_made", ticket=ticket, hours=hours
            ), promises=list(dict.fromkeys([*state.promises, promise])),
        )  # fmt: skip
    upset = bool(state.mood) and state.mood[-1]["mood"] in ("angry", "upset")
    which = "desk_handed_off_sorry" if upset else "desk_handed_off"
    name = f"{state.turn_id}.handed_off"
    told = say_to(language, which if packet["staffed"] else "desk_colleague_later", hours=hours)
    text = "\n\n".join(filter(None, [told, emit_receipt(scope, state, desk, name)]))
    words = AIMessage(text, id=name, additional_kwargs=make_signature(PACKAGE))
    promises = list(dict.fromkeys([*state.promises, say("desk_colleague_promised")]))
    packet = {**packet, "handed_over": result}
    return DeskUpdate(
        owner="human",
        packet=packet,
        tickets=tickets,
        promises=promises,
        messages=[words],
        answer="",
    )


def _read_result(state: DeskState) -> dict[str, Any]:
    """The answer of the tool that hands over; nothing if it failed or there is none."""
    last = state.messages[-1]
    if not (state.packet.get("by") and isinstance(last, ToolMessage) and last.status == "success"):
        return {}
    data = read_data(last)
    return data if isinstance(data, dict) else {}
