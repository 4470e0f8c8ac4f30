"""Servers over streamable HTTP: real ones on 127.0.0.1."""

import asyncio
from typing import Any

import pytest

from loopwright.calls.toolbox import Toolbox
from loopwright.run.background import await_in_background
from loopwright.tools.mcp.call import ServerUnavailable
from loopwright.tools.mcp.config import read_servers
from loopwright.tools.mcp.server import Servers
from support.mcp_servers import free_port, refusing, serving, soon
from support.mcp_servers.calling import run as run_all
from support.patience import PATIENCE


async def run(box, name, args=None, **how) -> Any:
    (record,) = await run_all(box, (name, args or {}), **how)
    return record


@pytest.fixture(scope="module")
def url() -> Any:
    """One server for the tests that leave it in peace."""
    with serving() as (_, url):
        yield url


@pytest.mark.req("P-16")
async def test_two_users_in_parallel_are_seen_with_their_own_tokens(url):
    issued = {"ann": 0, "bob": 0}

    async def headers(user) -> Any:
        issued[user] = number = issued[user] + 1
        await asyncio.sleep(0.01)
        return {"Authorization": f"Bearer {user}-{number}"}

    box = Toolbox(mcp={"mcpServers": {"desk": {"url": url, "headers": headers}}})
    users = ["ann", "bob"] * 10
    records = await asyncio.gather(*(run(box, "whoami", user=user) for user in users))
    seen = [record["result"] for record in records]
    for user, token in zip(users, seen, strict=True):
        assert token.startswith(f"Bearer {user}-")
    assert len(set(seen)) == 20  # asked for anew with every request
    later = (await run(box, "whoami", user="ann"))["result"]
    assert int(later.rsplit("-")[-1]) > 10
    assert "Bearer" not in str(await box.catalog("ann"))
    await box.aclose()


@pytest.mark.req("P-10")
async def test_a_server_killed_under_a_call_ends_the_call_at_once(tmp_path):
    read, written = tmp_path / "read", tmp_path / "written"
    port = free_port()
    box = Toolbox(mcp={"mcpServers": {"desk": {"url": f"http://127.0.0.1:{port}/mcp"}}})
    with serving(port) as (process, _):
        note = (await box.catalog()).tools["note"]
        write = {"path": "/nowhere", "text": "x", "seconds": 600.0, "marker": str(written)}
        call = asyncio.create_task(run(box, "patient", {"marker": str(read)}))
        lost = asyncio.create_task(box.call_server(note, write, user_id=None, meta={}))
        assert await soon(lambda: read.exists() and written.exists())
        process.kill()
        record = await asyncio.wait_for(call, PATIENCE)
        assert record["status"] == "error"
        with pytest.raises(ServerUnavailable) as doubt:
            await lost
        assert doubt.value.sent
        with pytest.raises(ServerUnavailable, match="is not reachable") as unsent:
            await box.call_server(note, write, user_id=None, meta={})
        assert not unsent.value.sent
        gone = await run(box, "search", {"query": "x"})
        assert gone["status"] == "error"
        assert "'desk' is not available" in gone["result"]
    with serving(port):
        back = await run(box, "search", {"query": "x"})
        assert back["result"] == "desk:x"
    await box.aclose()


@pytest.mark.req("P-10")
async def test_a_server_that_has_forgotten_the_session_gets_a_new_one(tmp_path):
    port = free_port()
    box = Toolbox(mcp={"mcpServers": {"desk": {"url": f"http://127.0.0.1:{port}/mcp"}}})
    with serving(port):
        assert (await run(box, "count"))["result"] == "1"
    with serving(port):
        count = (await box.catalog()).tools["count"]
        calls = (box.call_server(count, {}, user_id=None, meta={}) for _ in range(50))
        answers = await asyncio.gather(*calls)  # writes: each refused unseen, so each sent again
        counted = sorted(int(answer.content[0]["text"]) for answer in answers)
        assert counted == list(range(1, 51))
    await box.aclose()


@pytest.mark.req("P-12")
async def test_a_server_that_was_down_is_found_later_without_waiting_for_it():
    port = free_port()
    (config,) = read_servers({"mcpServers": {"desk": {"url": f"http://127.0.0.1:{port}/mcp"}}})
    servers = Servers([config], retry_after=0)
    try:
        (down,) = await await_in_background(servers.load_listings(None, ["desk"]))
        assert "is not reachable" in down.warning
        with serving(port):
            for _ in range(3_000):
                (found,) = await await_in_background(servers.load_listings(None, ["desk"]))
                if found.tools:
                    break
                await asyncio.sleep(0.1)
        assert found.tools
        assert found.warning == ""
    finally:
        await await_in_background(servers.close())


async def test_a_refused_token_is_asked_for_once_more():
    asked = []

    def headers(user: str | None) -> dict[str, str]:
        asked.append(user)
        return {"Authorization": f"Bearer {len(asked)}"}

    with refusing() as url:
        box = Toolbox(mcp={"mcpServers": {"desk": {"url": url, "headers": headers}}})
        assert (await box.catalog("ann")).warnings
        assert asked == ["ann", "ann"]
        await box.aclose()


async def test_the_older_transport_works_too(tmp_path):
    marker = tmp_path / "marker"
    port = free_port()
    entry = {"type": "sse", "url": f"http://127.0.0.1:{port}/sse"}
    with serving(port, "--sse") as (process, _):
        box = Toolbox(mcp={"mcpServers": {"desk": entry}})
        assert (await run(box, "search", {"query": "x"}))["result"] == "desk:x"
        call = asyncio.create_task(run(box, "patient", {"marker": str(marker)}))
        assert await soon(marker.exists)
        process.kill()
        record = await asyncio.wait_for(call, PATIENCE)
        assert "'desk' is not available" in record["result"]
    await box.aclose()
