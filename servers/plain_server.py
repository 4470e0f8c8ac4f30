"""An MCP server that answers a failed request with one sentence; examples/shop uses it too."""

import argparse
import functools
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

import anyio.to_thread
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ContentBlock, Tool, ToolAnnotations
from pydantic import ValidationError

ADDS = ToolAnnotations(
    readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False
)
READS = ADDS.model_copy(update={"readOnlyHint": True, "idempotentHint": True})

_SHOWN_CHARACTERS = 120

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Result = Sequence[ContentBlock] | dict[str, Any]


class Refused(Exception):
    """A request is refused; the text is one sentence for the client."""


def to_line(text: str) -> str:
    """Any text as one short printable line."""
    line = text if text.isprintable() else ascii(text)[1:-1]
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "…"


class PlainServer(FastMCP[None]):
    """FastMCP that answers a failed call with one sentence and refuses unknown arguments."""

    async def list_tools(self) -> list[Tool]:
        """The tools; titles that repeat names are left out of the schemas."""
        tools = await super().list_tools()
        for tool in tools:
            # Generated titles repeat the names; schemas are paid for with every model call.
            tool.inputSchema.pop("title", None)
            for argument in tool.inputSchema["properties"].values():
                argument.pop("title", None)
        return tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> _Result:
        """Call a tool; an error is one sentence."""
        await self._check_names(name, arguments)
        try:
            return await super().call_tool(name, arguments)
        except ToolError as error:
            raise ToolError(_describe_error(error)) from error

    async def _check_names(self, name: str, arguments: dict[str, Any]) -> None:
        # Unknown arguments would be dropped silently, and the call would do something else.
        known = {tool.name: tool.inputSchema["properties"] for tool in await self.list_tools()}
        if unknown := sorted(arguments.keys() - known.get(name, arguments).keys()):
            names = to_line(", ".join(unknown))
            message = f"{name} has no argument {names}; it takes {', '.join(known[name])}."
            raise ToolError(message)


def _describe_error(error: ToolError) -> str:
    cause = error.__cause__
    if isinstance(cause, Refused):
        return str(cause)
    if isinstance(cause, ValidationError):
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in cause.errors()
        ]
        return f"The arguments do not fit: {'; '.join(problems)}."
    return str(error)


def run_in_thread(tool: Callable[_P, _R]) -> Callable[_P, Awaitable[_R]]:
    """Run a blocking tool in a thread, so that the server stays responsive."""

    @functools.wraps(tool)
    async def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await anyio.to_thread.run_sync(functools.partial(tool, *args, **kwargs))

    return run


class Arguments(argparse.ArgumentParser):
    """A command line; an error is one sentence and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """End the program."""
        self.exit(2, f"{self.prog}: {message}\n")


def serve(server: FastMCP[None], changing: AbstractContextManager[Any] | None = None) -> None:
    """Serve over stdio until stdin closes, or a signal comes; that waits for `changing`."""

    def leave(signum: int, _frame: FrameType | None) -> NoReturn:
        # The thread that reads stdin cannot be woken; what is changed in others ends first.
        with changing or nullcontext():
            os._exit(128 + signum)

    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)
    try:
        server.run()
    except* BrokenPipeError:
        os._exit(0)  # the client is gone; an ordinary exit would try to flush stdout to it
