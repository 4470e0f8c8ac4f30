"""A well-behaved MCP server whose tools can be told to be slow, to die, or to answer oddly."""

import argparse
import asyncio
import base64
import os
import sys

from mcp import types
from mcp.server.fastmcp import Context, FastMCP, Image

READ = types.ToolAnnotations(readOnlyHint=True)
DELETE = types.ToolAnnotations(readOnlyHint=False, destructiveHint=True)
BLOB = base64.b64encode(b"\x89PNG not really").decode()


def build(port, prefix):
    mcp = FastMCP("desk", host="127.0.0.1", port=port, log_level="ERROR")
    counted = {"calls": 0}

    @mcp.tool(annotations=READ)
    def pid() -> str:
        """The id of the server's process."""
        return str(os.getpid())

    @mcp.tool(annotations=READ)
    def search(query: str) -> str:
        """Search something."""
        return f"{prefix}:{query}"

    @mcp.tool()
    def count() -> str:
        """Count the calls of this tool."""
        counted["calls"] += 1
        return str(counted["calls"])

    @mcp.tool(annotations=READ)
    async def wait(seconds: float) -> str:
        """Wait before answering."""
        await asyncio.sleep(seconds)
        return f"waited {seconds}"

    @mcp.tool(annotations=READ)
    def crash() -> str:
        """End the process before answering."""
        os._exit(3)

    @mcp.tool()
    def crash_once(marker: str) -> str:
        """End the process at the first call, which the marker file remembers; a write."""
        if not os.path.exists(marker):
            with open(marker, "w") as file:
                file.write("1")
            os._exit(3)
        return "second time"

    @mcp.tool(annotations=READ)
    def crash_once_read(marker: str) -> str:
        """The same, declared read-only."""
        return crash_once(marker)

    @mcp.tool(annotations=READ)
    def whoami(ctx: Context) -> str:
        """The token the request came with."""
        return ctx.request_context.request.headers.get("authorization", "none")

    @mcp.tool()
    def told(ctx: Context) -> dict:
        """What the caller says of the call."""
        return dict(ctx.request_context.meta.model_extra or {})

    @mcp.tool(annotations=DELETE)
    async def note(path: str, text: str, seconds: float = 0.0) -> str:
        """Append a line to a file after a while."""
        await asyncio.sleep(seconds)
        with open(path, "a") as file:
            file.write(text + "\n")
        return "noted"

    @mcp.tool(annotations=READ)
    def look(path: str) -> str:
        """Read a file."""
        with open(path) as file:
            return file.read()

    @mcp.tool(annotations=READ)
    def long(text: str, times: int) -> str:
        """Repeat a text."""
        return text * times

    _add_shapes(mcp)
    return mcp


def _add_shapes(mcp):
    @mcp.tool(annotations=READ)
    def structured() -> dict[str, int]:
        """An object."""
        return {"apples": 3, "pears": 4}

    @mcp.tool(annotations=READ)
    def listed() -> list[str]:
        """A list of texts."""
        return ["a", "b"]

    @mcp.tool(annotations=READ)
    def picture() -> Image:
        """A picture."""
        return Image(data=base64.b64decode(BLOB), format="png")

    @mcp.tool(annotations=READ)
    def failing() -> str:
        """Always fails."""
        raise ValueError("no such order: 17")

    @mcp.tool(annotations=READ, structured_output=False)
    def linked() -> list:
        """A link and a resource."""
        return [
            types.ResourceLink(type="resource_link", uri="file:///r.pdf", name="report"),
            types.EmbeddedResource(
                type="resource",
                resource=types.TextResourceContents(uri="file:///n.txt", text="inside"),
            ),
        ]

    @mcp.tool(annotations=READ, structured_output=False)
    def hidden() -> types.CallToolResult:
        """Words in the text, the data only in the structured part."""
        content = [types.TextContent(type="text", text="see data")]
        return types.CallToolResult(content=content, structuredContent={"total": 41})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--prefix", default="desk")
    chosen = parser.parse_args()
    print("desk starts", file=sys.stderr)
    build(chosen.port, chosen.prefix).run("streamable-http" if chosen.port else "stdio")
