"""ask_user: an agent asks the user in the middle of its work, as an MCP server asks by a form."""

from collections.abc import Mapping
from typing import Any, Final

from ....calls.forms import ANSWER
from ....calls.results import ToolResult
from ....calls.sending import HandlerScope
from ....state.history import ASKED
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool
from ....tools.mcp.call import ElicitationPending

_TEXT: Final = {"type": "string", "minLength": 1}


def ask_user() -> CatalogTool:
    """The tool of an agent that may ask; reads beside it do not wait."""
    about = {
        "question": {**_TEXT, "description": say("ask_user_question")},
        "choices": {
            "type": "array", "items": _TEXT, "minItems": 2, "description": say("ask_user_choices"),
        },
    }  # fmt: skip
    return make_own_tool(
        ASKED, say("ask_user_tool"), about, _ask, required=["question"], read_only=True
    )


async def _ask(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Ask, or give the answer: in the record stand the user's words alone, and none of a model."""
    if own.reply is None:
        if not own.scope.can_ask:
            return ToolResult(say("nobody_answered"))
        field = {"type": "string"} | ({"enum": args["choices"]} if args.get("choices") else {})
        schema = {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}
        raise ElicitationPending({"message": args["question"], "schema": schema})
    if own.reply["action"] == "accept":
        return ToolResult(own.reply["content"][ANSWER])
    words = str(own.reply.get("message") or "")
    return ToolResult(
        say("question_declined_saying" if words else "question_declined", words=words)
    )
