"""A human's word on a call: what is asked, what an answer means, and whether the call runs then."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, Never, cast

from langgraph.types import Overwrite

from ..state import questions
from ..state.calls import GAVE_UP, NOWHERE, CallState, CallsUpdate
from ..state.questions import ANSWERED_BY, Answer, Decision, DecisionKind, TextAnswer
from ..store.journal.recorder import KNOWN_IN
from ..text.canonical import hash_of, shorten_text
from ..text.display import show_json, show_words
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from .call_records import Call, PendingCall, Reason
from .foreign import describe_foreign, follow_edit
from .forms import build_form_question, build_reply, describe_server, fill_form, list_fields
from .gate import Gate, check_edit, split_refresh
from .policy import NOT_INTERACTIVE

Calls = Sequence[Mapping[str, Any]]
Decisions = Mapping[str, Decision]
"""By `decision_key`."""

_SHOWN: Final = 2_000
"""Characters of arguments that a question shows."""

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


def find_decision(call: Mapping[str, Any], decisions: Decisions) -> Decision | None:
    """The human's answer on a call, if there is one and it was given for these arguments."""
    decision = decisions.get(decision_key(call))
    given_for = decision.get("arguments") if decision else None
    return None if given_for and given_for != hash_of(call.get("args")) else decision


def list_undecided(calls: Calls, decisions: Decisions) -> list[PendingCall]:
    """The calls a human must still decide on, in the order of the message."""
    return [cast("PendingCall", call) for call in calls if _is_waiting(call, decisions)]


def keep_waiting(state: CallState, waiting: Calls) -> Any:
    """The calls that wait, and the answers to them: an approval is good for one call only."""
    keys, update = {decision_key(call) for call in waiting}, CallsUpdate(calls=[*waiting])
    if state.known_in not in ("", KNOWN_IN.get("")):
        update["known_in"] = NOWHERE if waiting else ""
    if state.decisions or state.objections:  # every key written is a row in the database
        update["decisions"] = Overwrite({k: v for k, v in state.decisions.items() if k in keys})
        update["objections"] = Overwrite({k: v for k, v in state.objections.items() if k in keys})
    return update


def list_runnable(calls: Calls, decisions: Decisions) -> list[PendingCall]:
    """The calls that may run or be answered now, in the order of the message.

    One that waits for a human holds back every write behind it, not the reads.
    """
    now: list[PendingCall] = []
    held = False
    for call in calls:
        if _is_waiting(call, decisions):
            held = True
        elif not (held and _may_write(call, decisions)):
            now.append(cast("PendingCall", call))
    return now


def select_for_pass(calls: Calls, decisions: Decisions) -> list[PendingCall]:
    """Those of `runnable` that may run side by side: one whose tool asks for itself runs alone."""
    now = list_runnable(calls, decisions)
    return next(([call] for call in now if call.get("alone")), now)


def route_calls(calls: Calls, decisions: Decisions) -> Literal["call_tools", "approve", "done"]:
    """The next node for these calls: calls that can run come before the next question."""
    if list_runnable(calls, decisions):
        return "call_tools"
    return "approve" if list_undecided(calls, decisions) else "done"


def _is_waiting(call: Mapping[str, Any], decisions: Decisions) -> bool:
    return bool(call["action"] == "ask" and find_decision(call, decisions) is None)


def _may_write(call: Mapping[str, Any], decisions: Decisions) -> bool:
    if call.get("read_only") or call["action"] not in ("allow", "ask"):
        return False
    decision = find_decision(call, decisions)
    return decision is None or _is_permission(decision["type"])


def _is_permission(kind: DecisionKind) -> bool:
    match kind:
        case "approve" | "edit":
            return True
        case "respond" | "reject" | "expired":
            return False
        case _:
            # Routers ask this, and one that raises ends its thread without a word.
            _: Never = kind
            return False


def build_call_question(call: Mapping[str, Any], objection: str = "") -> dict[str, Any]:
    """What to interrupt with for a call that is asked about, in the shape of all questions.

    It begins with the objection: why the last answer could not be taken.
    """
    more = {key: call[key] for key in ("expires_at", ANSWERED_BY, "foreign") if call.get(key)}
    more |= {"objection": objection} if objection else {}
    if call.get("form"):
        return build_form_question(call, objection) | more
    call_id, uncertain = call["call_id"], bool(call.get("doubt"))
    lines = _render_doubt(call) if uncertain else _render_proposal(call)
    description = "\n\n".join(filter(None, [objection, *lines, _render_arguments(call)]))
    return {
        "type": "uncertain_call" if uncertain else "tool_approval",
        "id": call["id"],
        "tool_call_id": call_id,
        "task": call["task"],
        "reason": call["reason"],
        **more,
        **questions.make_question(
            call["name"], call["args"], description,
            answers="settle" if uncertain else "decide", tool_call_id=call_id,
        ),
    }  # fmt: skip


def answer_schema(call: Mapping[str, Any]) -> type[Answer]:
    """What the question about a call can be answered with; a form's one field takes plain text."""
    kinds = [field.get("type") for field in list_fields(call.get("form") or {}).values()]
    return TextAnswer if kinds in (["string"], ["number"], ["integer"]) else Answer


def check_answer(call: Mapping[str, Any], answer: Answer) -> str:
    """Why an answer cannot belong to the question about this call; "" where it does."""
    if answer.tool_call_id not in ("", call["call_id"]):
        return f"The answer was for the call {answer.tool_call_id!r}, not for {call['call_id']!r}."
    if call.get("form"):
        return fill_form(call["form"], answer.type, answer.args, answer.message)[1]
    if answer.type == "edit" and call.get("doubt"):
        return "A call that may have run cannot be edited: approve, respond or reject."
    return ""


def check_permission(call: PendingCall, answer: Answer, gate: Gate) -> str:
    """Why a human's approval or edit is no answer; "" where it is one, be it one policy denies."""
    tool, is_edit = gate.find_tool(call), answer.type == "edit"
    if is_edit and answer.name not in ("", call["name"]):
        return f"An edit may change the arguments of {call['name']}, not the tool."
    if tool is None:  # else the permission would be spent, and nothing done
        return say("stays_open", why=gate.catalog.explain_unknown(call["name"]))
    _, action, reason = gate.judge(tool, answer.args) if is_edit else (None, "", "")
    return f"The edit cannot run. {reason}" if action == "error" else ""


def make_decision(call: Mapping[str, Any], answer: Answer, now: datetime) -> Decision:
    """The decision to keep: the answer, bound to the arguments it was given for.

    An answer that comes too late counts as expired; a rejection counts at any time.
    """
    expires_at = call.get("expires_at")
    late = bool(expires_at) and now > datetime.fromisoformat(str(expires_at))
    kind: DecisionKind = "expired" if late and answer.type != "reject" else answer.type
    return Decision(
        type=kind, message=answer.message, name=answer.name, args=answer.args,
        tool_call_id=answer.tool_call_id, remember=answer.remember,
        arguments=hash_of(call["args"]),
    )  # fmt: skip


def _render_proposal(call: Mapping[str, Any]) -> list[str]:
    asked = f"Run {call['name']}{describe_server(call)}? ({call['reason']})"
    return [asked, _render_foreign(call), show_words(call["about"])]


def _render_foreign(call: Mapping[str, Any]) -> str:
    return "\n".join(show_words(line) for line in describe_foreign(call.get("foreign") or ()))


def _render_doubt(call: Mapping[str, Any]) -> list[str]:
    text = _OTHER if call["doubt"]["other"] else _UNCERTAIN
    where, why = describe_server(call), call["doubt"]["why"]
    return [text.format(name=call["name"], where=where, why=why), _render_foreign(call)]


def _render_arguments(call: Mapping[str, Any]) -> str:
    return f"Arguments:\n{shorten_text(show_json(call['args'], indent=2), _SHOWN)}"


async def apply_decision(gate: Gate, call: Call, decision: Decision | None) -> None:
    """Say whether a call runs: one that does not is answered, one that does has its arguments.

    Catalog and policy may have changed since it was planned.
    """
    pending = call.pending
    if pending["action"] == "error":
        _answer_invalid(call, pending["reason"])
    elif pending["action"] == "deny":
        call.deny(pending["reason"])
    elif pending["action"] == "ask":
        await _settle_asked(gate, call, decision)
    elif call.tool is None:
        _answer_invalid(call, gate.catalog.explain_unknown(pending["name"]))
    else:
        if gate.judge(call.tool, pending["args"], pending.get("origins"))[1] in ("ask", "deny"):
            # Perhaps it went without a question because the human had allowed it for the thread.
            gate = replace(gate, grants=await gate.scope.journal.grants(gate.scope.thread))
        if (args := _judge_arguments(gate, call, pending["args"], asked=False)) is not None:
            call.args, call.again = args, bool(pending.get("again"))


async def _settle_asked(gate: Gate, call: Call, decision: Decision | None) -> None:
    pending = call.pending
    if decision is None:
        call.deny(say("unapproved"))
    elif not pending.get("form") and _answer_by_word(call, decision):
        return
    elif call.tool is None:
        _answer_invalid(call, gate.catalog.explain_unknown(pending["name"]))
    elif decision["type"] == "edit" and not pending.get("form"):
        await _settle_edited(gate, call, call.tool, decision)
    elif (args := _judge_arguments(gate, call, pending["args"], asked=True)) is not None:
        call.args, call.again = args, bool(pending.get("again"))
        call.reply = build_reply(pending, decision)


async def settle_tail(gate: Gate, call: Call) -> None:
    """Say whether a call runs that one hook asks for: all the others may still block it."""
    await apply_decision(gate, call, None)
    if call.result is None and call.tool is not None:
        blocked = await check_edit(gate.scope, call.tool, call.args)
        if blocked:
            call.deny(blocked)


async def _settle_edited(gate: Gate, call: Call, tool: CatalogTool, said: Decision) -> None:
    if said.get("name") not in (None, "", call.pending["name"]):
        call.deny(say("edit_of_the_tool"))
        return
    edited, again = split_refresh(tool.schema, said.get("args"))
    args = _judge_arguments(gate, call, edited, asked=True)
    if args is None:
        return
    if blocked := await check_edit(gate.scope, tool, args):
        call.deny(blocked)
        return
    call.args, call.again = args, again


def _judge_arguments(gate: Gate, call: Call, args: object, *, asked: bool) -> dict[str, Any] | None:
    """The final arguments of a call; None where it is answered instead.

    The policy may be stricter by now than when the call was planned.
    """
    origins = follow_edit(call.pending, args)
    fitted, action, reason = gate.judge(call.known_tool, args, origins)
    if action == "error":
        _answer_invalid(call, reason)
    elif action == "ask" and not asked:
        call.deny(say("unapproved"))
    elif action == "deny" and not (asked and reason == NOT_INTERACTIVE):  # somebody has answered
        call.deny(reason)
    else:
        return fitted
    return None


def _answer_by_word(call: Call, said: Decision) -> bool:
    """Whether a human's word alone answers a call, whatever became of its tool."""
    words, doubt = str(said.get("message") or "").strip(), call.pending.get("doubt")
    match kind := said["type"]:
        case "approve":
            return False
        case "edit" if not doubt:
            return False
        case "edit":
            call.deny(say("unapproved"))
        case "respond":
            call.answer(words or say("no_output"), "success", "answered by the user")
        case "reject" if doubt and not doubt["other"]:
            _answer_no(call, "gave_up", words, say("report_doubt"), GAVE_UP)
        case "reject":
            _answer_no(call, "rejected", words, say("do_without"), "rejected")
        case "expired":
            told = say("expired", advice=say("send_anew"))
            call.answer(say("call_expired"), "cancelled", "expired", to_model=told)
        case _:
            # What was saved by somebody else allows nothing, and ends no run.
            _: Never = kind
            call.deny(say("unapproved"))
    return True


def _answer_no(call: Call, name: str, words: str, advice: str, reason: Reason) -> None:
    """Answer a call that a human rejected or gave up, perhaps with words."""
    saying = "_saying" if words else ""
    told = say(f"user_{name}{saying}", words=words.rstrip("."), advice=advice)
    call.answer(say(f"you_{name}{saying}", words=words), "cancelled", reason, to_model=told)


def _answer_invalid(call: Call, why: str) -> None:
    """Answer a call that cannot run as it was sent."""
    told = say("failed_call", why=why.rstrip("."), advice=say("correct_it"))
    call.answer(why, "error", to_model=told)
