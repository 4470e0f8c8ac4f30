"""Tools of the package for every agent: find_tools among many tools, read_skill with skills."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ..prompts.instructions import READ_SKILL, Instructions
from ..text.sentences import say
from ..tools.catalog import FIND_TOOLS, CatalogTool, make_own_tool
from ..tools.search import first_line
from .results import ToolResult, make_failure

_LINE: Final = 200


async def _find_tools(args: Mapping[str, Any], own: Any) -> ToolResult:
    """Find what fits; from now on the list of tools has its definitions."""
    tools = own.catalog.tools
    names, vain = own.catalog.deferred_tools.look_up(args)
    lines = [f"- {name}: {first_line(tools[name].description, _LINE)}" for name in names]
    found = say("tools_found", tools="\n".join(lines)) if names else ""
    return ToolResult("\n\n".join(filter(None, [found, vain])), update={"found": names})


def build_tool_finder() -> CatalogTool:
    """The tool; offered where the others are too many to be shown whole."""
    name = {"type": "string", "minLength": 1}
    about = {
        "names": {"type": "array", "items": name, "description": say("find_tools_names")},
        "query": {**name, "description": say("find_tools_query")},
    }
    return make_own_tool(FIND_TOOLS, say("find_tools_tool"), about, _find_tools)


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

    parameters = {
        "name": {"type": "string", "enum": [*instructions.skills]},
        "file": {"type": "string", "description": say("read_skill_file")},
    }
    about = say("read_skill_tool")
    return make_own_tool(READ_SKILL, about, parameters, read, required=["name"], read_only=True)
