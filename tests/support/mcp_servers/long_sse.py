"""A server over the older SSE transport whose tool answers as long as it is told."""

import sys

from mcp.server.fastmcp import FastMCP


def long(n: int) -> str:
    """Answer with so many characters."""
    return "x" * n


if __name__ == "__main__":
    server = FastMCP("long", host="127.0.0.1", port=int(sys.argv[1]), log_level="ERROR")
    server.add_tool(long, structured_output=False)
    server.run("sse")
