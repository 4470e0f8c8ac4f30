"""Questions to a human about one call, and what an answer means for it. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # stubs are a package of their own

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
_OTHER: Final = (
    "The call of {name}{where} waits: {why}. Look for yourself before you answer: approve runs "
    "this call, whatever became of that one; respond says that the earlier one ran and stands for "
    "this one, and gives its result; reject gives both up."
)


def question(call: Mapping[str, Any], objection: str = "") -> dict[str, Any]:
    """What to interrupt with for a call that is asked about, in the shape of all questions.

    Args:
        call: The planned call.
        objection: Why the last answer could not be taken.
    """
    if call.get("form"):
        return _form(call, objection)
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
    if call.get("form"):
        return _filled(call["form"], answer.type, answer.args, answer.message)[1]
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


def _form(call: Mapping[str, Any], objection: str) -> dict[str, Any]:
    """The question that a server asks while it runs a call, with the fields of its form."""
    form = call["form"]
    fields = {name: field.get("default", "") for name, field in _fields(form).items()}
    about = f"Go to {form['url']}, then answer." if form.get("url") else _described(form)
    asked = f"{call['name']}{_where(call)} asks before it goes on: {form['message']}"
    description = "\n\n".join(filter(None, [objection, asked, about]))
    return {
        "type": "elicitation",
        "id": call["id"],
        "task": call["task"],
        "form": form,
        **questions.question("ask_user", fields, description, answers="respond"),
    }


def reply_to(call: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the server that asked is told, by a decision that `misplaced` had nothing against."""
    if not call.get("form"):
        return None
    if decision.get("type") == "reject":
        return {"action": "decline"}
    args, message = decision.get("args"), str(decision.get("message") or "")
    content, _ = _filled(call["form"], str(decision.get("type")), args, message)
    return {"action": "accept", "content": content}


def _filled(
    form: Mapping[str, Any], kind: str, args: object, message: str
) -> tuple[dict[str, Any] | None, str]:
    """The form as an answer fills it in, and what is wrong with it."""
    fields = _fields(form)
    if kind == "reject" or not fields:
        return None, ""
    wanted = f"The form wants a JSON object with {', '.join(fields)}."
    given = _given(fields, args, message)
    if given is None:
        return None, wanted
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    content = {**defaults, **{name: value for name, value in given.items() if value != ""}}
    error = next(Draft202012Validator(form.get("schema") or {}).iter_errors(content), None)
    return content, f"The answer does not fit: {error.message[:300]}. {wanted}" if error else ""


def _given(
    fields: Mapping[str, Mapping[str, Any]], args: object, message: str
) -> dict[str, Any] | None:
    """Edited fields, a JSON object in words, or the words for a form that has one field."""
    edited = dict(args) if isinstance(args, dict) else {}
    words = message or ("" if "answer" in fields else str(edited.pop("answer", "") or ""))
    if not words or any(value != "" for value in edited.values()):
        return edited
    parsed = _parsed(words)
    if isinstance(parsed, dict):
        return parsed
    if len(fields) != 1:
        return None
    ((name, field),) = fields.items()
    return {name: words if parsed is None or field.get("type") == "string" else parsed}


def _fields(form: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = (form.get("schema") or {}).get("properties")
    found = properties.items() if isinstance(properties, dict) else ()
    return {name: field if isinstance(field, dict) else {} for name, field in found}


def _described(form: Mapping[str, Any]) -> str:
    shown = json.dumps(form.get("schema") or {}, ensure_ascii=False, indent=2)
    return f"The form:\n{shown[:_SHOWN_ARGUMENTS]}" if _fields(form) else ""


def _parsed(text: str) -> Any:
    """What JSON in a text says; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _proposed(call: Mapping[str, Any]) -> str:
    asked = f"Run {call['name']}{_where(call)}? ({call['reason']})"
    lines = [asked, call["about"], _arguments(call)]
    return "\n\n".join(filter(None, lines))


def _in_doubt(call: Mapping[str, Any]) -> str:
    text = _OTHER if call.get("other") else _UNCERTAIN
    words = text.format(name=call["name"], where=_where(call), why=call["uncertain"])
    return f"{words}\n\n{_arguments(call)}"


def _where(call: Mapping[str, Any]) -> str:
    return f" of the MCP server {call['server']!r}" if call["server"] else ""


def _arguments(call: Mapping[str, Any]) -> str:
    shown = json.dumps(call["args"], ensure_ascii=False, indent=2)
    if len(shown) > _SHOWN_ARGUMENTS:
        shown = shown[:_SHOWN_ARGUMENTS] + "…"
    return f"Arguments:\n{shown}"
