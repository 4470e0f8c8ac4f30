"""A process that asks an MCP server who it is, again and again, with a login that soon expires."""

import asyncio
import sys
import time

from loopwright.calls.toolbox import Toolbox
from support.mcp_servers.calling import run


async def ask(url: str, seconds: float) -> None:
    """Call until the time is over; a call that fails is an error of this process."""
    box = Toolbox(mcp={"mcpServers": {"desk": {"url": url, "auth": "oauth", "trust": True}}})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        (record,) = await run(box, ("whoami", {}))
        assert record["status"] == "success", record["result"]
    await box.aclose()


asyncio.run(ask(sys.argv[1], float(sys.argv[2])))
