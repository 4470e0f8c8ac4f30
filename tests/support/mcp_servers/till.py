"""The shop of `guarded` behind MCP: it pays back whatever is asked for, as slowly as real ones."""

import argparse
import time
from typing import Any

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

from support.guarded import Shop


def build(folder: str, port: int) -> FastMCP[Any]:
    mcp = FastMCP("till", host="127.0.0.1", port=port, log_level="ERROR")
    tools = {one.name: one for one in Shop(folder).tools()}
    for name in ("verify_identity", "get_customer", "get_order"):
        mcp.add_tool(tools[name].func, annotations=ToolAnnotations(readOnlyHint=True))

    def request_refund(order_id: str, amount: float, reason: str) -> dict[str, str]:
        """Pay back, whatever is asked for."""
        time.sleep(0.02)
        given: dict[str, str] = tools["request_refund"].func(order_id, amount, reason)
        return given

    mcp.add_tool(request_refund)
    return mcp


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--folder")
    chosen = parser.parse_args()
    build(chosen.folder, chosen.port).run("streamable-http")
