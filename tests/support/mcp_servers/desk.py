"""A well-behaved MCP server whose tools can be told to be slow, to die, or to answer oddly."""

import argparse
import asyncio
import hashlib
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.shared.exceptions import McpError
from pydantic import BaseModel

READ = types.ToolAnnotations(readOnlyHint=True)
DELETE = types.ToolAnnotations(readOnlyHint=False, destructiveHint=True)
PNG = b"\x89PNG not really"

CALLS = itertools.count(1)
PREFIX = ["desk"]
NAMES: dict[str, str] = {}


def pid() -> str:
    """The id of the server's process."""
    return str(os.getpid())


def search(query: str) -> str:
    """Search something."""
    return f"{PREFIX[0]}:{query}"


def count() -> str:
    """Count the calls of this tool."""
    return str(next(CALLS))


async def wait(seconds: float) -> str:
    """Wait before answering."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


def crash_once(marker: str) -> str:
    """End the process at the first call, which the marker file remembers; a write."""
    if not Path(marker).exists():
        Path(marker).write_text("1")
        os._exit(3)
    return "second time"


def whoami(ctx: Context[Any, Any, Any]) -> str:
    """The token the request came with."""
    request: Any = ctx.request_context.request
    return str(request.headers.get("authorization", "none"))


def seal(ctx: Context[Any, Any, Any]) -> str:
    """The SHA-256 of the token the request came with: proof of it that gives nothing away."""
    return hashlib.sha256(whoami(ctx).encode()).hexdigest()


def told(ctx: Context[Any, Any, Any]) -> dict[str, Any]:
    """What the caller says of the call."""
    meta: Any = ctx.request_context.meta
    return dict(meta.model_extra or {})


async def note(path: str, text: str, seconds: float = 0.0, marker: str = "") -> str:
    """Append a line to a file after a while; the marker file tells that it has begun."""
    if marker:
        await asyncio.to_thread(Path(marker).touch)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(_append, path, text)
    return "noted"


def _append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text + "\n")


def look(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def long(text: str, times: int) -> str:
    """Repeat a text."""
    return text * times


def structured() -> dict[str, int]:
    """An object."""
    return {"apples": 3, "pears": 4}


def listed() -> list[str]:
    """A list of texts."""
    return ["a", "b"]


def picture() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


def failing() -> str:
    """Always fails."""
    msg = "no such order: 17"
    raise ValueError(msg)


def linked() -> Any:
    """A link and a resource."""
    link = {"type": "resource_link", "uri": "file:///r.pdf", "name": "report"}
    inside = {"type": "resource", "resource": {"uri": "file:///n.txt", "text": "inside"}}
    return types.CallToolResult.model_validate({"content": [link, inside]})


def hidden() -> Any:
    """Words in the text, the data only in the structured part."""
    content = [{"type": "text", "text": "see data"}]
    answer = {"content": content, "structuredContent": {"total": 41}}
    return types.CallToolResult.model_validate(answer)


async def ask_back(ctx: Context[Any, Any, Any]) -> str:
    """Ask the client for everything a server may ask for; tells what it said."""
    session = ctx.request_context.session
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="?"))
    questions: list[Callable[[], Any]] = [
        lambda: session.create_message([message], max_tokens=9),
        lambda: session.elicit("Your name?", {"type": "object", "properties": {}}),
        session.list_roots,
        session.send_ping,
    ]
    said = []
    for question in questions:
        try:
            said.append(type(await question()).__name__)
        except McpError as error:
            said.append(error.error.message)
    return ", ".join(said)


async def chatty(ctx: Context[Any, Any, Any]) -> str:
    """Tell of progress and log before answering."""
    for step in range(3):
        await ctx.report_progress(step, 3, "on the way")
        await ctx.info("still-here")
    return "done"


async def grow(ctx: Context[Any, Any, Any]) -> str:
    """Add a tool and tell the client."""
    ctx.fastmcp.add_tool(count, name="grown")
    await ctx.session.send_tool_list_changed()
    return "grew"


async def patient(marker: str) -> str:
    """Wait for ever; the marker file tells that it has begun, and when it is called off."""
    Path(marker).write_text("begun")  # noqa: ASYNC240 - the server has nothing else to do
    try:
        await asyncio.sleep(600)
    finally:
        Path(marker).write_text("called off")  # noqa: ASYNC240 - the server has nothing else to do
    return "never"


class Name(BaseModel):
    """What the signer is asked for."""

    name: str


async def sign(path: str, ctx: Context[Any, Any, Any]) -> str:
    """Ask who signs, then sign; a write."""
    await asyncio.to_thread(_append, path, "asked")
    said = await ctx.elicit("Who signs?", Name)
    if said.action != "accept":
        return f"not signed: {said.action}"
    await asyncio.to_thread(_append, path, f"signed by {said.data.name}")
    return f"signed by {said.data.name}"


READS: tuple[Callable[..., Any], ...] = (
    *(pid, search, wait, whoami, seal, look, long, failing),
    *(structured, listed, picture, ask_back, chatty, grow, patient),
)
UNSTRUCTURED: tuple[Callable[..., Any], ...] = (linked, hidden)
UNDECLARED: tuple[Callable[..., Any], ...] = (count, crash_once, told, sign)


def build(port: int, *, stateless: bool = False) -> FastMCP[Any]:
    mcp = FastMCP("desk", host="127.0.0.1", port=port, log_level="ERROR", stateless_http=stateless)
    for tool in READS:
        mcp.add_tool(tool, name=NAMES.get(tool.__name__), annotations=READ)
    for tool in UNSTRUCTURED:
        mcp.add_tool(tool, annotations=READ, structured_output=False)
    for tool in UNDECLARED:
        mcp.add_tool(tool)
    mcp.add_tool(note, annotations=DELETE)
    return mcp


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--prefix", default="desk")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("--stateless", action="store_true")
    parser.add_argument("--renamed", nargs=2, action="append", default=[])
    chosen = parser.parse_args()
    NAMES.update(chosen.renamed)
    PREFIX[0] = chosen.prefix
    sys.stderr.write("desk starts\n")
    server = build(chosen.port, stateless=chosen.stateless)
    if not chosen.port:
        server.run("stdio")
    elif chosen.sse:
        server.run("sse")
    else:
        server.run("streamable-http")
