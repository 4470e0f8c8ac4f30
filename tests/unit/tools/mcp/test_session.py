"""What must hold over stdio and over streamable HTTP alike."""

import asyncio
import contextlib
from typing import Any

import pytest

from loopwright.calls.toolbox import Toolbox
from support.mcp_servers import serving as serving_http, soon, stdio
from support.mcp_servers.calling import failure, run, text


@pytest.fixture(scope="module", params=["stdio", "http"])
def desk(request) -> Any:
    """A toolbox with one well-behaved server."""
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            _, url = stack.enter_context(serving_http())
            entry = {"url": url}
        else:
            entry = stdio("desk")
        box = Toolbox(mcp={"mcpServers": {"desk": entry}})
        stack.callback(box.close)
        yield box


async def says(marker, words) -> Any:
    return await soon(lambda: marker.exists() and marker.read_text() == words)


@pytest.mark.req("P-12")
async def test_a_call_at_its_deadline_is_called_off_on_the_server(desk, tmp_path):
    marker = tmp_path / "marker"
    pid = await text(desk, "pid")
    assert "did not answer" in await failure(desk, "patient", marker=str(marker), deadline=1.5)
    assert await says(marker, "called off")
    assert await text(desk, "pid") == pid


async def test_a_cancelled_run_calls_its_call_off(desk, tmp_path):
    marker = tmp_path / "marker"
    running = asyncio.create_task(run(desk, ("patient", {"marker": str(marker)})))
    assert await says(marker, "begun")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await says(marker, "called off")
    assert await text(desk, "search", query="x") == "desk:x"


async def test_a_tool_that_a_server_adds_is_found(desk):
    assert "grown" not in (await desk.catalog()).tools
    assert await text(desk, "grow") == "grew"
    for _ in range(15_000):
        if "grown" in (await desk.catalog()).tools:
            break
        await asyncio.sleep(0.02)
    assert int(await text(desk, "grown")) > 0
