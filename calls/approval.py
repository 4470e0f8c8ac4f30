"""A human's word on a call: what is asked, what an answer means, and whether the call runs then."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, Never, cast

from langgraph.types import Overwrite

from ..state import questions
from ..state.calls import GAVE_UP, CallState, CallsUpdate
from ..state.questions import ANSWERED_BY, Answer, Decision, DecisionKind, Said
from ..text.canonical import hash_of
from ..text.told import say
from ..tools.catalog import CatalogTool
from .call_records import Answered, PendingCall, unrun
from .forms import SHOWN, fields_of, filled, form_question, reply_to, where_of
from .gate import Gate, check_edit
from .policy import NOT_INTERACTIVE
from .reuse import asked_again
from .toolbox import unknown_tool

Calls = Sequence[Mapping[str, Any]]
Decisions = Mapping[str, Decision]
"""By `decision_key`."""

_UNCERTAIN: Final = (
    "The call of {name}{where} may have run already: {why}. Nobody knows whether it took effect, "
    "so look for yourself before you answer: approve runs it again, respond says that it ran and "
    "gives its result, reject gives it up."
)
_OTHER: Final = (
    "The call of {name}{where} waits: {why}. Look for yourself before you answer: approve runs "
    "this call, whatever became of that one; respond says that the earlier one ran and stands for "
    "this one, and gives its result; reject gives both up."
)


def decision_key(call: Mapping[str, Any]) -> str:
    """Under which key a human's answer on a call is kept; another one each time it is in doubt."""
    return str(call["id"]) + "?" * int(call.get("doubts", 0))


def decision_on(call: Mapping[str, Any], decisions: Decisions) -> Decision | None:
    """The human's answer on a call, if there is one and it was given for these arguments."""
    decision = decisions.get(decision_key(call))
    given_for = decision.get("arguments") if decision else None
    return None if given_for and given_for != hash_of(call.get("args")) else decision


def undecided(calls: Calls, decisions: Decisions) -> list[PendingCall]:
    """The calls a human must still decide on, in the order of the message."""
    return [cast("PendingCall", call) for call in calls if _waits(call, decisions)]


def still_open(state: CallState, waiting: Calls) -> Any:
    """The calls that wait, and the answers to them: an approval is good for one call only."""
    keys, update = {decision_key(call) for call in waiting}, CallsUpdate(calls=[*waiting])
    if state.decisions or state.objections:  # every key written is a row in the database
        update["decisions"] = Overwrite({k: v for k, v in state.decisions.items() if k in keys})
        update["objections"] = Overwrite({k: v for k, v in state.objections.items() if k in keys})
    return update


def runnable(calls: Calls, decisions: Decisions) -> list[PendingCall]:
    """The calls that may run or be answered now, in the order of the message.

    One that waits for a human holds back every write behind it, not the reads.
    """
    now: list[PendingCall] = []
    held = False
    for call in calls:
        if _waits(call, decisions):
            held = True
        elif not (held and _would_write(call, decisions)):
            now.append(cast("PendingCall", call))
    return now


def in_one_pass(calls: Calls, decisions: Decisions) -> list[PendingCall]:
    """Those of `runnable` that may run side by side: one whose tool asks for itself runs alone."""
    now = runnable(calls, decisions)
    return next(([call] for call in now if call.get("alone")), now)


def next_step(calls: Calls, decisions: Decisions) -> Literal["call_tools", "approve", "done"]:
    """Where a graph goes with these calls: what can go on comes before the next question."""
    if runnable(calls, decisions):
        return "call_tools"
    return "approve" if undecided(calls, decisions) else "done"


def _waits(call: Mapping[str, Any], decisions: Decisions) -> bool:
    return bool(call["action"] == "ask" and decision_on(call, decisions) is None)


def _would_write(call: Mapping[str, Any], decisions: Decisions) -> bool:
    if call.get("read_only") or call["action"] not in ("allow", "ask"):
        return False
    decision = decision_on(call, decisions)
    return decision is None or _runs(decision["type"])


def _runs(kind: DecisionKind) -> bool:
    match kind:
        case "approve" | "edit":
            return True
        case "respond" | "reject" | "expired":
            return False
        case _:
            # Routers ask this, and one that raises ends its thread without a word.
            _: Never = kind
            return False


def question(call: Mapping[str, Any], objection: str = "") -> dict[str, Any]:
    """What to interrupt with for a call that is asked about, in the shape of all questions.

    It begins with the objection: why the last answer could not be taken.
    """
    more = {key: call[key] for key in ("expires_at", ANSWERED_BY) if call.get(key)}
    if call.get("form"):
        return form_question(call, objection) | more
    call_id, uncertain = call["call_id"], bool(call.get("doubt"))
    described = _in_doubt(call) if uncertain else _proposed(call)
    description = "\n\n".join(filter(None, [objection, described]))
    return {
        "type": "uncertain_call" if uncertain else "tool_approval",
        "id": call["id"],
        "tool_call_id": call_id,
        "task": call["task"],
        "reason": call["reason"],
        **more,
        **questions.question(
            call["name"], call["args"], description,
            answers="settle" if uncertain else "decide", tool_call_id=call_id,
        ),
    }  # fmt: skip


def answer_schema(call: Mapping[str, Any]) -> type[Answer]:
    """What the question about a call can be answered with; a form's one field takes plain text."""
    kinds = [field.get("type") for field in fields_of(call.get("form") or {}).values()]
    return Said if kinds in (["string"], ["number"], ["integer"]) else Answer


def misplaced(call: Mapping[str, Any], answer: Answer) -> str:
    """Why an answer cannot belong to the question about this call; "" where it does."""
    if answer.tool_call_id not in ("", call["call_id"]):
        return (
            f"The answer was for the call {answer.tool_call_id!r}, but this question is about "
            f"{call['call_id']!r}."
        )
    if call.get("form"):
        return filled(call["form"], answer.type, answer.args, answer.message)[1]
    if answer.type == "edit" and call.get("doubt"):
        return "A call that may have run cannot be edited: approve, respond or reject."
    return ""


def objection_to(call: Mapping[str, Any], name: str, args: object, gate: Gate) -> str:
    """Why a human's edit of a call is no answer; "" where it is one, be it one policy denies."""
    if name not in ("", call["name"]):
        return f"An edit may change the arguments of {call['name']}, not the tool."
    tool = gate.catalog.find(call["name"], call["server"])
    if tool is None:
        return unknown_tool(call["name"], gate.catalog)
    _, action, reason = gate.judge(tool, args)
    return f"The edit cannot run. {reason}" if action == "error" else ""


def decided(call: Mapping[str, Any], answer: Answer, now: datetime) -> Decision:
    """The decision to keep: the answer, bound to the arguments it was given for.

    An answer that comes too late decides nothing but that time is up; a rejection is never late.
    """
    expires_at = call.get("expires_at")
    late = bool(expires_at) and now > datetime.fromisoformat(str(expires_at))
    kind: DecisionKind = "expired" if late and answer.type != "reject" else answer.type
    return Decision(
        type=kind, message=answer.message, name=answer.name, args=answer.args,
        tool_call_id=answer.tool_call_id, remember=answer.remember,
        arguments=hash_of(call["args"]),
    )  # fmt: skip


def _proposed(call: Mapping[str, Any]) -> str:
    asked = f"Run {call['name']}{where_of(call)}? ({call['reason']})"
    lines = [asked, call["about"], _arguments(call)]
    return "\n\n".join(filter(None, lines))


def _in_doubt(call: Mapping[str, Any]) -> str:
    doubt = call["doubt"]
    text = _OTHER if doubt["other"] else _UNCERTAIN
    words = text.format(name=call["name"], where=where_of(call), why=doubt["why"])
    return f"{words}\n\n{_arguments(call)}"


def _arguments(call: Mapping[str, Any]) -> str:
    shown = json.dumps(call["args"], ensure_ascii=False, indent=2)
    if len(shown) > SHOWN:
        shown = shown[:SHOWN] + "…"
    return f"Arguments:\n{shown}"


@dataclass(frozen=True)
class Ready:
    """A call that may run, with its final arguments; `reply` is for a server that asked in it."""

    tool: CatalogTool
    args: dict[str, Any]
    again: bool = False
    reply: Mapping[str, Any] | None = None


async def settle(gate: Gate, call: PendingCall, decision: Decision | None) -> Ready | Answered:
    """Say whether a call runs. Catalog and policy may have changed since it was planned."""
    if call["action"] == "error":
        return unrun(call["reason"], "error")
    if call["action"] == "deny":
        return denied(call["reason"])
    if call["action"] == "ask":
        return await _asked_about(gate, call, decision)
    tool = gate.tool_of(call)
    if tool is None:
        return unrun(unknown_tool(call["name"], gate.catalog), "error")
    if gate.judge(tool, call["args"])[1] in ("ask", "deny"):
        # Perhaps it went without a question because the human had allowed it for the thread.
        gate = replace(gate, grants=await gate.scope.journal.grants(gate.scope.thread))
    return _judged(gate, call, tool, call["args"], asked=False)


async def _asked_about(gate: Gate, call: PendingCall, said: Decision | None) -> Ready | Answered:
    if said is None:
        return denied(say("unapproved"))
    if not call.get("form") and (answered := _answered(call, said)) is not None:
        return answered
    tool = gate.tool_of(call)
    if tool is None:
        return unrun(unknown_tool(call["name"], gate.catalog), "error")
    if said["type"] == "edit" and not call.get("form"):
        return await _edited(gate, call, tool, said)
    step = _judged(gate, call, tool, call["args"], asked=True)
    return replace(step, reply=reply_to(call, said)) if isinstance(step, Ready) else step


async def settle_tail(gate: Gate, call: PendingCall) -> Ready | Answered:
    """Say whether a call runs that one hook asks for: all the others may still block it."""
    step = await settle(gate, call, None)
    if isinstance(step, Answered):
        return step
    blocked = await check_edit(gate.scope, step.tool, step.args)
    return denied(blocked) if blocked else step


async def _edited(
    gate: Gate, call: PendingCall, tool: CatalogTool, said: Decision
) -> Ready | Answered:
    if said.get("name") not in (None, "", call["name"]):
        return denied(say("edit_of_the_tool"))
    args, again = asked_again(tool.schema, said.get("args"))
    step = _judged(gate, call, tool, args, asked=True)
    if isinstance(step, Answered):
        return step
    blocked = await check_edit(gate.scope, tool, step.args)
    return denied(blocked) if blocked else replace(step, again=again)


def _judged(
    gate: Gate, call: PendingCall, tool: CatalogTool, args: object, *, asked: bool
) -> Ready | Answered:
    """A call with its final arguments; the policy may be stricter by now than when planned."""
    fitted, action, reason = gate.judge(tool, args)
    if action == "error":
        return unrun(reason, "error")
    if action == "ask" and not asked:
        return denied(say("unapproved"))
    if action == "deny" and not (asked and reason == NOT_INTERACTIVE):  # somebody has answered
        return denied(reason)
    return Ready(tool, fitted, bool(call.get("again")))


def _answered(call: PendingCall, said: Decision) -> Answered | None:
    """What a human's word alone makes of a call, whatever became of its tool; None if it runs."""
    words = str(said.get("message") or "").strip()
    match kind := said["type"]:
        case "approve":
            return None
        case "edit":
            return denied(say("unapproved")) if call.get("doubt") else None
        case "respond":
            return unrun(words or say("no_output"), "success", "answered by the user")
        case "reject" if (doubt := call.get("doubt")) and not doubt["other"]:
            name = "user_gave_up_saying" if words else "user_gave_up"
            told = say(name, words=words.rstrip("."), advice=say("report_doubt"))
            return unrun(told, "cancelled", GAVE_UP)
        case "reject":
            name = "user_rejected_saying" if words else "user_rejected"
            told = say(name, words=words.rstrip("."), advice=say("do_without"))
            return unrun(told, "cancelled", "rejected")
        case "expired":
            return unrun(say("expired", advice=say("send_anew")), "cancelled", "expired")
        case _:
            # What was saved by somebody else allows nothing, and ends no run.
            _: Never = kind
            return denied(say("unapproved"))


def denied(why: str) -> Answered:
    """The answer to a call that policy, a hook or the lack of a human forbids."""
    nobody = why == NOT_INTERACTIVE
    if nobody:
        why = say("nobody_to_approve", code=NOT_INTERACTIVE)
    text = say("refused_call", why=why.rstrip("."), advice=say("report_it"))
    return unrun(text, "cancelled", NOT_INTERACTIVE if nobody else "denied")
