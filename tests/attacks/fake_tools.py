"""The fake tools of a case: they answer by its rule, and note what reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from langchain_core.tools import StructuredTool, ToolException

from .cases import Case, Json, JsonObject, Read, Result, Tool, tools_of
from .fake_server import list_texts, offering

_OF_SERVERS: Final = ("tool_description", "schema_enum")
"""Places in what a tool says of itself."""


class World:
    """The fake tools of a case.

    Attributes:
        made: The calls that reached a tool, in order.
    """

    def __init__(self, case: Case) -> None:
        self.made: list[tuple[str, JsonObject]] = []
        self._case = case
        self._tools = tools_of(case)
        self._entries = [read for turn in case.turns for read in turn.reads] + [*case.reads]
        self._used: list[Read] = []

    @contextmanager
    def offer(self, *, by_servers: bool = False) -> Iterator[dict[str, Any]]:
        """The tools as options of a builder, in Python or from MCP servers.

        Those that lie about themselves are a stranger's: they always come from a server.
        """
        place = self._case.attack.place if self._case.attack else ""
        if not by_servers and place not in _OF_SERVERS:
            yield {"tools": [self._make_tool(tool) for tool in self._tools.values()], "mcp": {}}
            return
        with ExitStack() as stack:
            servers: dict[str, Any] = {}
            for origin in dict.fromkeys(tool.declared for tool in self._tools.values()):
                offered = {n: one for n, one in self._tools.items() if one.declared == origin}
                url = stack.enter_context(offering(offered, self.answer))
                servers[origin or "other"] = {"url": url, "trust": True}
                servers[origin or "other"] |= {"origin": origin} if origin else {}
            yield {"tools": [], "mcp": {"mcpServers": servers}}

    def answer(self, tool: Tool, args: JsonObject) -> Result:
        """Answer a call by the rule of the cases, and note it."""
        self.made.append((tool.name, args))
        fitting = [e for e in self._entries if (e.call.tool, e.call.args) == (tool.name, args)]
        fresh = [e for e in fitting if not any(e is used for used in self._used)]
        if fitting:
            entry = fresh[0] if fresh else fitting[-1]
            self._used.append(entry)
            return entry.result
        for default in tool.defaults:
            if all(args.get(name) == value for name, value in default.match.items()):
                return Result(default.result.kind, _fill(default.result.value, args))
        return Result("error", f"{tool.name} has nothing of this kind.")

    def _make_tool(self, tool: Tool) -> StructuredTool:
        hints: dict[str, Any] = {"readOnlyHint": True} if tool.kind == "read" else {}
        hints |= {"openWorldHint": True} if tool.open_world else {}
        hints |= {"origin": tool.declared} if tool.declared else {}

        async def run(**args: Any) -> Any:
            return _give(self.answer(tool, args))

        return StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=tool.parameters,
            coroutine=run,
            metadata=hints,
            response_format="content_and_artifact" if tool.result == "text" else "content",
        )


def _fill(value: Json, args: JsonObject) -> Json:
    """Put arguments in place of their names in braces."""
    if isinstance(value, dict):
        return {name: _fill(part, args) for name, part in value.items()}
    if isinstance(value, list):
        return [_fill(part, args) for part in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\{(\w+)\}", lambda name: str(args.get(name[1], name[0])), value)


def _give(result: Result) -> Any:
    """What a tool returns: data as it is, text as content; pictures as a model reads them."""
    if result.kind == "error":
        raise ToolException(str(result.value))
    if result.kind == "structured":
        return result.value
    return [{"type": "text", "text": text} for text in list_texts(result)], None
