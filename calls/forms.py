"""The form of a server that asks in the middle of a call, and an answer as it fills it in."""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # stubs are a package of their own

from ..state import questions
from ..state.history import ASKED
from ..state.questions import Decision, DecisionKind
from ..text.canonical import shorten_text
from ..text.display import show_json, show_text, show_words
from ..text.secrets import list_secret_fields
from .results import parse_json

ANSWER: Final = "answer"
"""The field of a question of an agent."""

_SHOWN: Final = 2_000
"""Characters of a form that a question shows."""


def build_form_question(call: Mapping[str, Any], objection: str) -> dict[str, Any]:
    """The question that a server asks while it runs a call, with the fields of its form."""
    form = call["form"]
    fields = {name: field.get("default", "") for name, field in list_fields(form).items()}
    own = is_of_agent(call)
    schema = shorten_text(show_json(form.get("schema") or {}, indent=2), _SHOWN)
    about = f"The form:\n{schema}" if fields else ""
    if form.get("url"):
        about = f"Go to {show_text(str(form['url']))}, then answer."
    who = f"{call['name']}{describe_server(call)}"
    asked = f"{who} asks before it goes on: {show_words(form['message'])}"
    secret = ", ".join(map(show_text, list_secret_fields(form.get("schema"))))
    warning = f"{who} wants a secret: {secret}. Reject it unless you know why." if secret else ""
    if own:
        asked = _describe_asker(call) + show_words(form["message"])
        choices = list_fields(form)[ANSWER].get("enum", ())
        about = "\n".join(f"- {show_words(choice)}" for choice in choices)
    description = "\n\n".join(filter(None, [objection, asked, warning, about]))
    kind: questions.Allowed = "respond" if fields else "confirm"
    return {
        "type": ASKED if own else "elicitation",
        "id": call["id"],
        "task": call["task"],
        "form": form,
        **questions.make_question(ASKED, fields, description, answers=kind),
    }


def is_of_agent(call: Mapping[str, Any]) -> bool:
    """Whether an agent asks by the call, and no server."""
    return call["name"] == ASKED and call["server"] is None


def _describe_asker(call: Mapping[str, Any]) -> str:
    """Which sub-agent asks; nothing of the one that the user talks with."""
    who = str(call["task"]).rpartition("/")[2]
    return "" if who == call["task"] else f"{show_text(who)}: "


def build_reply(call: Mapping[str, Any], decision: Decision) -> dict[str, Any] | None:
    """What the server that asked is told, by a decision that `check_answer` had nothing against."""
    if not call.get("form"):
        return None
    kind = decision["type"]
    match kind:
        case "reject":
            said = {"message": decision.get("message") or ""} if is_of_agent(call) else {}
            return {"action": "decline", **said}
        case "approve" | "edit" | "respond" | "expired":
            args, message = decision.get("args"), str(decision.get("message") or "")
            content, _ = fill_form(call["form"], kind, args, message)
            return {"action": "accept", "content": content}
        case _:
            assert_never(kind)


def fill_form(
    form: Mapping[str, Any], kind: DecisionKind, args: object, message: str
) -> tuple[dict[str, Any] | None, str]:
    """The form as an answer fills it in, and what is wrong with it."""
    fields = list_fields(form)
    if kind == "reject":
        return None, ""
    if not fields:  # words are no yes
        return None, "" if kind == "approve" else "There is nothing to fill in: approve or reject."
    wanted = f"The form wants a JSON object with {', '.join(fields)}."
    values = _read_fields(fields, args, message)
    if values is None:
        return None, wanted
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    content = {**defaults, **{name: value for name, value in values.items() if value != ""}}
    error = next(Draft202012Validator(form.get("schema") or {}).iter_errors(content), None)
    return content, f"The answer does not fit: {error.message[:300]}. {wanted}" if error else ""


def _read_fields(
    fields: Mapping[str, Mapping[str, Any]], args: object, message: str
) -> dict[str, Any] | None:
    """Edited fields, a JSON object in words, or the words for a form that has one field."""
    edited = dict(args) if isinstance(args, dict) else {}
    words = message or ("" if "answer" in fields else str(edited.pop("answer", "") or ""))
    if not words or any(value != "" for value in edited.values()):
        return edited
    value = parse_json(words)
    if isinstance(value, dict):
        return value
    if len(fields) != 1:
        return None
    ((name, field),) = fields.items()
    return {name: words if value is None or field.get("type") == "string" else value}


def list_fields(form: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields of a form, by name."""
    properties = (form.get("schema") or {}).get("properties")
    items = properties.items() if isinstance(properties, dict) else ()
    return {name: field if isinstance(field, dict) else {} for name, field in items}


def describe_server(call: Mapping[str, Any]) -> str:
    """Whose tool it calls, in words."""
    return f" of the MCP server {call['server']!r}" if call["server"] else ""
