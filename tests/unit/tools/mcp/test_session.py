"""What must hold over stdio and over streamable HTTP alike."""

import asyncio
import contextlib
from typing import Any

import pytest

from loopwright.calls.toolbox import Toolbox
from support.mcp_servers import serving as serving_http, soon, stdio
from support.mcp_servers.calling import failure, run, text
from support.patience import PATIENCE


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


async def test_a_server_that_asks_back_is_answered(desk):
    said = await asyncio.wait_for(text(desk, "ask_back"), PATIENCE)
    assert said == ("Sampling not supported, ElicitResult, List roots not supported, EmptyResult")


async def test_fifty_calls_at_once(desk):
    records = await run(desk, *(("search", {"query": str(n)}) for n in range(50)))
    assert [r["result"] for r in records] == [f"desk:{n}" for n in range(50)]


async def test_five_megabytes(desk):
    tool = (await desk.catalog()).tools["long"]
    asked = {"text": "0123456789", "times": 500_000}
    answer = await desk.call_server(tool, asked, user_id=None, meta={})
    assert len(answer.content[0]["text"]) == 5_000_000


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
