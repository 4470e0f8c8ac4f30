"""read_skill: gives a model what a skill says, when it is about to do what the skill is for."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ..prompts.instructions import READ_SKILL, Instructions
from ..text.told import say
from ..tools.catalog import CatalogTool, own_tool
from .results import ToolResult, failure


def skill_reader(instructions: Instructions) -> CatalogTool:
    """The tool for the skills of these instructions."""

    async def read(args: Mapping[str, Any], own: Any) -> ToolResult:
        name, file = str(args["name"]), str(args.get("file") or "")
        try:
            text = await asyncio.to_thread(instructions.read, name, file)
        except ValueError as error:
            return failure(str(error))
        shown: ToolResult
        shown, _ = await own.results.shorten(ToolResult(text), own.scope.context.result_cap)
        return shown

    about = {
        "name": {"type": "string", "enum": [*instructions.skills]},
        "file": {"type": "string", "description": say("read_skill_file")},
    }
    told = say("read_skill_tool")
    return own_tool(READ_SKILL, told, about, read, required=["name"], read_only=True)
