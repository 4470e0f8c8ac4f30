"""Server processes that break the rules, over stdio."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loopwright.calls.toolbox import Toolbox
from loopwright.tools.mcp.call import ServerUnavailable
from support.mcp_servers import children, gone, process, soon
from support.mcp_servers.calling import failure, run, text
from support.patience import PATIENCE


@pytest.fixture
async def box(request) -> Any:
    """A toolbox with one faulty server, which is gone after the test."""
    before = children()
    made = Toolbox(mcp={"mcpServers": {"faulty": process("faulty", *request.param)}})
    yield made
    await made.aclose()
    assert await gone(before) == set()


modes = pytest.mark.parametrize("box", [("plain",)], indirect=True)


def alive(pid) -> Any:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@modes
async def test_a_withdrawn_call_is_told_to_the_server_and_the_session_stays(box):
    await text(box, "echo", n=1)
    assert "did not answer within 1.5 s" in await failure(box, "hang", deadline=1.5)
    (withdrawn,) = (await text(box, "cancelled")).strip("[]").split(",")
    assert int(withdrawn) > 1  # the number of the call that hung
    assert await text(box, "echo", n=2) == "2"


@modes
async def test_a_death_says_whether_the_call_had_left(box):
    tools = (await box.catalog()).tools
    with pytest.raises(ServerUnavailable) as death:
        await box.call_server(tools["die"], {}, user_id=None, meta={})
    assert death.value.sent
    assert await text(box, "echo", n=1) == "1"
    box.close()


async def test_what_a_server_has_started_ends_with_it():
    box = Toolbox(mcp={"mcpServers": {"faulty": process("faulty", "fork")}})
    child = int(await text(box, "child"))
    assert alive(child)
    await box.aclose()
    assert await soon(lambda: not alive(child))


async def test_a_server_that_dies_while_its_child_holds_the_pipe_is_noticed():
    box = Toolbox(mcp={"mcpServers": {"faulty": process("faulty", "fork")}})
    child = int(await text(box, "child"))
    said = await asyncio.wait_for(failure(box, "die"), PATIENCE)
    assert "closed the connection" in said
    assert await text(box, "echo", n=1) == "1"
    assert await soon(lambda: not alive(child))
    await box.aclose()


async def test_a_server_that_ignores_every_polite_ending_is_killed():
    before = children()
    box = Toolbox(mcp={"mcpServers": {"faulty": process("faulty", "stubborn")}})
    await text(box, "echo", n=1)
    assert children() - before
    await box.aclose()
    assert await gone(before) == set()


@modes
async def test_fifty_calls_at_once_on_a_dying_server_all_end(box):
    calls = [("echo", {"n": n}) for n in range(25)] + [("die", {})]
    records = await asyncio.wait_for(run(box, *calls, *calls[:25]), PATIENCE)
    assert len(records) == 51
    assert {r["status"] for r in records[:25]} == {"success"}
