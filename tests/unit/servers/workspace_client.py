"""A client of the workspace server for ordinary test functions, over stdio or in memory."""

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import CallToolResult, TextContent, Tool

from loopwright.servers.root_folder import Root
from loopwright.servers.workspace import build_server

SECRET = "the-secret-outside"
COMMAND = [sys.executable, "-m", "loopwright.servers.workspace"]


@dataclass
class Client:
    """A session on one workspace, called from ordinary test functions."""

    portal: BlockingPortal
    session: ClientSession
    root: Path

    def raw(self, tool: str, **arguments: Any) -> CallToolResult:
        result: CallToolResult = self.portal.call(self.session.call_tool, tool, arguments)
        return result

    def ok(self, tool: str, **arguments: Any) -> str:
        result = self.raw(tool, **arguments)
        assert not result.isError, text_of(result)
        return text_of(result)

    def refused(self, tool: str, **arguments: Any) -> str:
        result = self.raw(tool, **arguments)
        text = text_of(result)
        assert result.isError, text
        assert text.endswith(".")
        assert "\n" not in text
        assert "Traceback" not in text
        return text

    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self.portal.call(self.session.list_tools).tools}


def text_of(result: CallToolResult) -> str:
    assert len(result.content) == 1
    assert result.structuredContent is None
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def over_stdio(root: Path) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "--root", str(root)])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


def in_memory(root: Path) -> AbstractAsyncContextManager[ClientSession]:
    return create_connected_server_and_client_session(build_server(Root(str(root))))


def fill(client: Client) -> None:
    (client.root / "a.md").write_text("alpha\n")
    (client.root / "sub" / "deep").mkdir(parents=True)
    (client.root / "sub" / "b.py").write_text("beta\n")
    (client.root / "sub" / "deep" / "c.py").write_text("gamma\n")
    (client.root / ".git").mkdir()
    (client.root / ".git" / "config").write_text("alpha beta gamma\n")
