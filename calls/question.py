"""Questions to a human about one call, and what an answer means for it. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ..state import questions
from ..state.canonical import hash_of
from ..state.questions import Answer
from .gate import Gate, unknown_tool

EXPIRED: Final = "expired"
"""The decision on a call whose answer came too late."""

_SHOWN_ARGUMENTS: Final = 2_000
_UNCERTAIN: Final = (
    "The call of {name}{where} may have run already: {why}. Nobody knows whether it took effect, "
    "so look for yourself before you answer: approve runs it again, respond says that it ran and "
    "gives its result, reject gives it up."
)


def question(call: Mapping[str, Any], objection: str = "") -> dict[str, Any]:
    """What to interrupt with for a call that is asked about, in the shape of all questions.

    Args:
        call: The planned call.
        objection: Why the last answer could not be taken.
    """
    call_id, uncertain = call["call_id"], bool(call.get("uncertain"))
    described = _in_doubt(call) if uncertain else _proposed(call)
    description = "\n\n".join(filter(None, [objection, described]))
    expires_at = call.get("expires_at")
    return {
        "type": "uncertain_call" if uncertain else "tool_approval",
        "id": call["id"],
        "tool_call_id": call_id,
        "task": call["task"],
        "reason": call["reason"],
        **({"expires_at": expires_at} if expires_at else {}),
        **questions.question(
            call["name"], call["args"], description,
            answers="settle" if uncertain else "decide", tool_call_id=call_id,
        ),
    }  # fmt: skip


def misplaced(call: Mapping[str, Any], answer: Answer) -> str:
    """Why an answer cannot belong to the question about this call; "" where it does."""
    if answer.tool_call_id not in ("", call["call_id"]):
        return (
            f"The answer was for the call {answer.tool_call_id!r}, but this question is about "
            f"{call['call_id']!r}."
        )
    if answer.type == "edit" and call.get("uncertain"):
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


def decided(call: Mapping[str, Any], answer: Answer, now: datetime) -> dict[str, Any]:
    """The decision to keep: the answer, bound to the arguments it was given for.

    An answer that comes too late decides nothing but that time is up; a rejection is never late.
    """
    expires_at = call.get("expires_at")
    late = bool(expires_at) and now > datetime.fromisoformat(str(expires_at))
    kind = EXPIRED if late and answer.type != "reject" else answer.type
    return {**answer.model_dump(), "type": kind, "arguments": hash_of(call["args"])}


def _proposed(call: Mapping[str, Any]) -> str:
    about = call.get("about", "")  # a call planned by an earlier version has none
    lines = [f"Run {call['name']}{_where(call)}? ({call['reason']})", about, _arguments(call)]
    return "\n\n".join(filter(None, lines))


def _in_doubt(call: Mapping[str, Any]) -> str:
    words = _UNCERTAIN.format(name=call["name"], where=_where(call), why=call["uncertain"])
    return f"{words}\n\n{_arguments(call)}"


def _where(call: Mapping[str, Any]) -> str:
    return f" of the MCP server {call['server']!r}" if call["server"] else ""


def _arguments(call: Mapping[str, Any]) -> str:
    shown = json.dumps(call["args"], ensure_ascii=False, indent=2)
    if len(shown) > _SHOWN_ARGUMENTS:
        shown = shown[:_SHOWN_ARGUMENTS] + "…"
    return f"Arguments:\n{shown}"
