"""Tools of the package for every agent: find_tools among many tools, read_skill with skills."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ..prompts.instructions import READ_SKILL, Instructions
from ..text.sentences import say
from ..tools.catalog import FIND_TOOLS, CatalogTool, make_own_tool
from ..tools.deferred_tools import first_line
from .results import ToolResult, make_failure

_LINE: Final = 200


async def _find_tools(args: Mapping[str, Any], own: Any) -> ToolResult:
    """Find what fits; from now on the list of tools has its definitions."""
    tools, query = own.catalog.tools, str(args["query"])
    names = own.catalog.deferred_tools.find(query)
    if not names:
        return ToolResult(say("no_tool_fits", query=repr(query), count=len(tools)))
    lines = [f"- {name}: {first_line(tools[name].description, _LINE)}" for name in names]
    return ToolResult(say("tools_found", tools="\n".join(lines)), update={"found": names})


def build_tool_finder() -> CatalogTool:
    """The tool; offered where the others are too many to be shown whole."""
    query = {"type": "string", "minLength": 1, "description": say("find_tools_query")}
    told = say("find_tools_tool")
    return make_own_tool(FIND_TOOLS, told, {"query": query}, _find_tools, required=["query"])


def build_skill_reader(instructions: Instructions) -> CatalogTool:
    """The tool for the skills of these instructions."""

    async def read(args: Mapping[str, Any], own: Any) -> ToolResult:
        name, file = str(args["name"]), str(args.get("file") or "")
        try:
            text = await asyncio.to_thread(instructions.read_skill, name, file)
        except ValueError as error:
            return make_failure(str(error))
        shown: ToolResult
        shown, _ = await own.results.shorten(ToolResult(text), own.scope.context.result_cap)
        return shown

    about = {
        "name": {"type": "string", "enum": [*instructions.skills]},
        "file": {"type": "string", "description": say("read_skill_file")},
    }
    told = say("read_skill_tool")
    return make_own_tool(READ_SKILL, told, about, read, required=["name"], read_only=True)
