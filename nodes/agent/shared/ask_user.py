"""ask_user: an agent asks the user in the middle of its work, as an MCP server asks by a form."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from ....calls.forms import ANSWER
from ....calls.results import ToolResult
from ....calls.sending import HandlerScope
from ....state.agent import AgentState
from ....state.history import ASKED
from ....text.canonical import canonical
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool
from ....tools.mcp.call import ElicitationPending

_KINDS: Final = ("string", "number", "integer")
_TEXT: Final = {"type": "string", "minLength": 1}
_MOST_FIELDS: Final = 12


def ask_user(most: int) -> CatalogTool:
    """The tool of an agent that may ask so often in one turn; reads beside it do not wait."""
    choices = {"type": "array", "items": _TEXT, "minItems": 2}
    field = {
        "name": _TEXT, "description": _TEXT, "choices": choices,
        "type": {"type": "string", "enum": [*_KINDS], "default": "string"},
    }  # fmt: skip
    listed = {"type": "object", "properties": field, "required": ["name"]}
    about = {
        "question": {**_TEXT, "description": say("ask_user_question")},
        "choices": {**choices, "description": say("ask_user_choices")},
        "fields": {
            "type": "array", "items": listed, "minItems": 1, "maxItems": _MOST_FIELDS,
            "description": say("ask_user_fields"),
        },
    }  # fmt: skip
    told, ask = say("ask_user_tool", most=most), partial(_ask, most)
    return make_own_tool(ASKED, told, about, ask, required=["question"], read_only=True)


async def _ask(most: int, args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Ask, or give the answer: in the record stand the user's words alone, and none of a model."""
    schema = _build_schema(args)
    if own.reply is None:
        if not own.scope.can_ask:
            return ToolResult(say("nobody_answered"))
        if _count_asked(own) >= most:
            return ToolResult(say("asked_enough", most=most))
        raise ElicitationPending({"message": args["question"], "schema": schema})
    if own.reply["action"] != "accept":
        words = str(own.reply.get("message") or "")
        return ToolResult(
            say("question_declined_saying" if words else "question_declined", words=words)
        )
    values = [own.reply["content"].get(name) for name in schema["properties"]]
    alone = values[0] if len(values) == 1 else values
    return ToolResult(alone if isinstance(alone, str) else canonical(alone))


def _count_asked(own: HandlerScope) -> int:
    """The questions before this one: those of earlier messages, and of its own."""
    state = cast("AgentState", own.state)
    earlier = [record["id"] for record in state.own_evidence if record["tool"] == ASKED]
    names = [call["id"] for call in state.calls if call["name"] == ASKED]
    return len(earlier) + (names.index(own.call["id"]) if own.call["id"] in names else 0)


def _build_schema(args: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer must fit. A model can preset nothing, for the answer is the user's word."""
    fields = args.get("fields") or [{"name": ANSWER, "choices": args.get("choices")}]
    properties: dict[str, Any] = {}
    for field in fields:
        about: dict[str, Any] = {"type": field.get("type", "string")}
        about |= {"description": field["description"]} if field.get("description") else {}
        about |= {"enum": field["choices"], "type": "string"} if field.get("choices") else {}
        properties[field["name"]] = about
    return {"type": "object", "properties": properties, "required": [*properties]}
