"""The tools of an eval's task as tools of a graph, and the record of what they did."""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final
from uuid import uuid4

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, execute_tools
from inspect_ai.tool import Tool, ToolCall, ToolDef, ToolInfo
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import StructuredTool, ToolException

from .model import Break

_UNSURE: Final = ("timeout", "limit", "cancelled")
"""Errors after which a call may have taken effect."""


class TaskTools:
    """Runs calls by Inspect, which keeps them in the log, asks its approvers, cuts long results."""

    def __init__(self, tools: Sequence[Tool], reads: Sequence[str], fail: Break) -> None:
        """Take the tools; those whose names match one of the globs `reads` change nothing."""
        self.trace: list[ChatMessage] = []
        """The calls that ended, each with its result, and what else the sample's log is to show."""
        self.made: list[dict[str, Any]] = []
        """`id` (as evidence has it), `tool`, `arguments`, `read_only` and `error` of each."""
        self.turn = 0
        self._tools, self._reads, self._fail = [*map(_define, tools)], reads, fail

    def bridge(self) -> list[StructuredTool]:
        """The tools as LangChain has them, with their JSON schemas."""
        return [
            StructuredTool(
                name=tool.name,
                description=tool.description or tool.name,
                args_schema=tool.parameters.model_dump(exclude_none=True),
                coroutine=partial(self._run, tool),
                metadata={"readOnlyHint": self._is_read(tool)},
            )
            for tool in self._tools
        ]

    def _is_read(self, tool: ToolDef) -> bool:
        return any(fnmatchcase(tool.name, glob) for glob in self._reads)

    def name_call(self, id_: str) -> str:
        """The id of a call as evidence has it, made one that no other turn has."""
        return id_ if ":" in id_ else f"t{self.turn}:{id_}"

    async def _run(self, tool: ToolDef, /, **arguments: Any) -> Any:
        known = ensure_config().get("metadata") or {}
        call = ToolCall(id=f"call_{uuid4().hex[:12]}", function=tool.name, arguments=arguments)
        asked = ChatMessageAssistant(content="", tool_calls=[call])
        record = {
            "id": self.name_call(str(known.get("loopwright/call"))),
            "tool": tool.name,
            "arguments": json.loads(json.dumps(arguments, default=str)),
            "read_only": self._is_read(tool), "error": "unended",
        }  # fmt: skip
        self.made.append(record)
        try:
            done = await execute_tools([asked], [tool])
        except Exception as error:
            self._fail(error)  # the task's world is broken, which says nothing of a graph
            raise
        self.trace += [asked, *done.messages]
        answer = next(m for m in done.messages if isinstance(m, ChatMessageTool))
        if answer.error is None:
            record["error"] = ""
            return answer.text
        record["error"] = answer.error.type
        if answer.error.type in _UNSURE:
            raise RuntimeError(answer.error.message)
        raise ToolException(answer.error.message)


def _define(tool: Tool | ToolInfo) -> ToolDef:
    """A tool; one that is only described does nothing, for its call is what the task wants."""
    if not isinstance(tool, ToolInfo):
        return ToolDef(tool)

    async def run(**_: Any) -> str:
        return "done"

    return ToolDef(run, tool.name, tool.description, tool.parameters)
