"""find_tools: gives a model the definitions of tools of which it knows only the names."""

from collections.abc import Mapping
from typing import Any, Final

from ..state.told import say
from ..tools.catalog import FIND_TOOLS, own_tool
from ..tools.shelf import first_line
from .results import ToolResult

_LINE: Final = 200


async def _find(args: Mapping[str, Any], own: Any) -> ToolResult:
    """Find what fits; from now on the list of tools has its definitions."""
    tools, query = own.catalog.tools, str(args["query"])
    names = own.catalog.shelf.find(query)
    if not names:
        return ToolResult(say("no_tool_fits", query=repr(query), count=len(tools)))
    lines = [f"- {name}: {first_line(tools[name].description, _LINE)}" for name in names]
    return ToolResult(say("tools_found", tools="\n".join(lines)), update={"found": names})


FINDER: Final = own_tool(
    FIND_TOOLS,
    say("find_tools_tool"),
    {"query": {"type": "string", "minLength": 1, "description": say("find_tools_query")}},
    _find,
    required=["query"],
)
"""Offered where the tools are too many to be shown whole."""
