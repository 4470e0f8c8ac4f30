"""What a planner may be told of results in which strangers may have written: kinds, no words. Pure.

Names of fields are told where the tool declares them. What the program's own tools gave, and those
of trusted servers, is told as it is: values of a later plan are checked, and it may only narrow.
"""

from collections.abc import Mapping
from typing import Any, Final

from ..state.flow import Cause, FlowStep, read_value
from ..text.canonical import canonical
from ..text.sentences import say
from ..tools.catalog import Catalog, CatalogTool
from ..tools.python_tools import find_result_schema
from ..tools.schemas import Schema
from .references import find_references
from .signatures import follow_field

_KINDS: Final = {bool: "boolean", int: "integer", float: "number", type(None): "null"}
_OURS: Final = frozenset({"tool_not_found", "refused", "budget"})
"""Failures of which only code or people tell why."""
_OF_ARGUMENTS: Final = frozenset({"bad_arguments", "missing_input"})
"""The same, where the arguments hold nothing that was read."""


def outline_step(step: FlowStep, catalog: Catalog, *, repairs: bool = False) -> FlowStep:
    """A step with an outline in place of its result, and without a stranger's words of why not.

    Whoever `repairs` a failed plan reads what the program's own tools gave.
    """
    tool = catalog.find(step["tool"])
    if may_speak(tool) and (repairs or (tool and tool.origin)):
        return step
    bare: FlowStep = {**step}
    if step["status"] == "failed":  # why one is skipped the plan says
        failure = step.get("failure") or "execution_error"
        bare["feedback"] = hide_error(failure, step["arguments"], step["feedback"])
    if step["status"] == "completed":
        shape = (find_result_schema(tool, step["arguments"]) if tool else None) or {}
        if step.get("for_each") is not None:
            shape = {"type": "array", "items": shape}
        bare["result"] = canonical(outline_value(read_value(step), shape, shape))
    return bare


def outline_value(value: Any, schema: Schema, root: Schema) -> Any:
    """The kinds and sizes of a value and its parts; fields that are not declared are counted."""
    if isinstance(value, str):
        return say("outline_text", count=len(value))
    if isinstance(value, list):
        item = follow_field(schema, root, 0)
        inner = [outline_value(one, item, root) for one in value[:1]]
        return [say("outline_list", count=len(value)), *inner] if value else []
    if not isinstance(value, Mapping):
        return _KINDS.get(type(value), "")
    known = {name: follow_field(schema, root, name) for name in value}
    shown = {
        n: outline_value(value[n], part, root) for n, part in known.items() if part is not None
    }
    more = len(value) - len(shown)
    return shown | ({"…": say("outline_fields", count=more)} if more else {})


def hide_cause(cause: Cause, catalog: Catalog) -> Cause:
    """A failure without the words of a tool that nobody vouches for."""
    if may_speak(catalog.find(cause["tool"])):
        return cause
    told = hide_error(cause["failure"], cause["arguments"], cause["error"])
    return {**cause, "error": told}


def may_speak(tool: CatalogTool | None) -> bool:
    """Whether a planner may read what a tool gave: the program's own, or one of a trusted server.

    Strangers may have written in it all the same, so the plan that is made then may only narrow.
    """
    if tool is None or tool.origin:
        return tool is not None and tool.origin == "trusted"
    return tool.is_vouched and not tool.open_world


def hide_error(failure: str, arguments: Mapping[str, Any], error: str) -> str:
    """Why a step failed, if code alone has told that; else that it is not told."""
    is_own = failure in _OF_ARGUMENTS and not find_references(arguments)
    return error if failure in _OURS or is_own else say("error_hidden")
