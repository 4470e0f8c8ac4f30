"""Somebody else's MCP server: a wiki and a ticket system with names of their own for everything."""

from typing import Any

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

PAGE = {
    "doc_id": "wiki/returns.md",
    "headline": "Returns",
    "body": "You may return your order within 14 days.",
    "link": "https://wiki.example/returns",
    "rank": 0.9,
}
"""A page as the search gives it."""
ORDERS = [{"doc_id": "A-7", "headline": "lamp Juno", "rank": 1, "body": "Refunds take 40 days."}]
"""A list of the same shape that is no list of pages."""

server = FastMCP("wiki", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def find_pages(words: str) -> dict[str, Any]:
    """Find pages of the wiki."""
    hits = [PAGE, {**PAGE, "doc_id": "old returns", "rank": None}, "returns", 14, None, ["A-9", 30]]
    return {"hits": hits if "return" in words else [], "tags": ["returns", 14], "bought": ORDERS}


@server.tool()
def open_case(subject: str, body: str) -> dict[str, Any]:
    """Open a case of a customer."""
    return {"case": 815, "ticket_id": "", "about": [subject, body]}


if __name__ == "__main__":
    server.run()
