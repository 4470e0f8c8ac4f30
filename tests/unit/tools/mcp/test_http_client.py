"""Servers that break the rules, over streamable HTTP."""

import asyncio
from typing import Any

import pytest

from loopwright.calls.toolbox import Toolbox
from loopwright.tools.mcp.call import ServerUnavailable
from support.mcp_servers import soon
from support.mcp_servers.calling import failure, text
from support.mcp_servers.faulty_http import serving_faults
from support.patience import PATIENCE


@pytest.fixture
async def served() -> Any:
    """A toolbox, and the world of its one server."""
    with serving_faults() as (url, world):
        box = Toolbox(mcp={"mcpServers": {"faulty": {"url": url, "trust": True}}})
        yield box, world
        await box.aclose()


async def loss(box, name, **args) -> Any:
    tool = (await box.catalog()).tools[name]
    with pytest.raises(ServerUnavailable) as lost:
        await box.call_server(tool, args, user_id=None, meta={})
    return lost.value


@pytest.mark.parametrize("name", ["short", "cut", "junk", "page"])
async def test_an_answer_that_breaks_off_is_not_waited_for(served, name):
    box, world = served
    said = await asyncio.wait_for(failure(box, name), PATIENCE)
    assert "'faulty' is not available: its answer broke off or was no valid message" in said
    assert world.calls == [name, name]  # a read is tried once more
    assert await text(box, "echo", n=1) == "1"
    assert world.sessions == 1


@pytest.mark.parametrize("name", ["lose", "unresumed"])
async def test_a_broken_answer_to_a_write_is_in_doubt_and_not_sent_again(served, name):
    """Also where its stream could be resumed, and the server says that it knows nothing of it."""
    box, world = served
    lost = await asyncio.wait_for(loss(box, name), PATIENCE)
    assert lost.sent
    assert world.calls == [name]


async def test_a_call_nobody_waits_for_is_withdrawn_and_its_connection_freed(served):
    box, world = served
    assert "did not answer within 0.5 s" in await failure(box, "hang", deadline=0.5)
    assert await soon(lambda: world.cancelled)
    assert await text(box, "echo", n=1) == "1"
    assert world.sessions == 1
    assert await soon(lambda: "hang was freed" in world.calls)


async def test_a_frozen_server_cannot_hold_up_the_end(served):
    box, world = served
    await text(box, "echo", n=1)
    world.frozen = True
    assert "did not answer within 0.5 s" in await failure(box, "echo", n=1, deadline=0.5)
    await asyncio.wait_for(box.aclose(), PATIENCE)
