"""find_tools: gives a model the definitions of tools of which it knows only the names."""

from collections.abc import Mapping
from typing import Any, Final

from ..text.told import say
from ..tools.catalog import FIND_TOOLS, CatalogTool, own_tool
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


def finder() -> CatalogTool:
    """The tool; offered where the others are too many to be shown whole."""
    query = {"type": "string", "minLength": 1, "description": say("find_tools_query")}
    told = say("find_tools_tool")
    return own_tool(FIND_TOOLS, told, {"query": query}, _find, required=["query"])
