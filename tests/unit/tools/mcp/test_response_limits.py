"""Answers that are small on the wire and huge when unpacked, over HTTP and stdio."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from hypothesis import given, strategies as st

from loopwright.calls.toolbox import Toolbox
from loopwright.state.limits import count_values
from loopwright.tools.mcp.response_limits import Refused, read_events
from support.mcp_servers import process
from support.mcp_servers.bombs import WAYS
from support.mcp_servers.calling import run, text

ROOT = Path(__file__).parents[4]

MEASURED = """
import asyncio, json, resource, sys
from loopwright.calls.toolbox import Toolbox
from support.mcp_servers.calling import run, text

async def main(url, names):
    box = Toolbox(mcp={"mcpServers": {"bombs": {"url": url}}})
    assert await text(box, "echo") == "here"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = {}
    for name in names:
        (record,) = await run(box, (name, {}))
        told[name] = [record["status"], record["result"]]
        assert await text(box, "echo") == "here"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await box.aclose()
    print(json.dumps({"told": told, "more": (peak - before) // 1024}))

asyncio.run(main(sys.argv[1], sys.argv[2:]))
"""


EACH = [way for way in WAYS if way not in ("deflate", "plain")]


@pytest.mark.req("W-75")
def test_a_packed_answer_costs_no_more_memory_than_the_limit_allows():
    """The client alone in a process: 400 MB an answer would show."""
    server = [sys.executable, "-m", "support.mcp_servers.bombs"]
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, url, *EACH],
                capture_output=True, text=True, env=env, check=False,
            )  # fmt: skip
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr[-2_000:]
    said = json.loads(done.stdout)
    for name, (status, result) in said["told"].items():
        assert status == "error", name
        wanted = (
            f"packed as {'br' if name == 'br' else 'gzip, gzip'}"
            if name in ("br", "twice")
            else "longer than 32 MB, or of more than 500,000 values, and was not read"
        )
        assert wanted in result, (name, result)
    assert said["more"] < 300, "megabytes"


@pytest.mark.req("W-75")
@given(
    st.recursive(
        st.none() | st.integers() | st.text(alphabet='a"\\,[{\n'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='",[x'), inner),
    )
)
def test_only_what_stands_outside_of_texts_counts_as_a_value(value):
    text = json.dumps(value)
    outside = re.sub(r'"(\\.|[^"\\])*"', "", text)
    assert count_values(text.encode()) == sum(map(outside.count, ",[{"))


@pytest.mark.req("W-75")
@pytest.mark.parametrize("reversed_", [False, True])
async def test_a_line_that_is_too_long_is_that_calls_failure_and_the_session_goes_on(reversed_):
    box = Toolbox(mcp={"mcpServers": {"big": process("faulty", *(["backwards"] * reversed_))}})
    first = await text(box, "pid")
    (record,) = await run(box, ("big", {"n": 40_000_000}))
    assert record["status"] == "error"
    assert "longer than 32 MB" in record["result"]
    assert len(await text(box, "big", n=1_000_000)) > 1_000
    assert await text(box, "pid") == first, "the same process"
    await box.aclose()


@pytest.mark.req("W-75")
@pytest.mark.parametrize("layers", [2, 1_000])
def test_a_body_that_is_packed_again_and_again_is_not_unpacked(layers):
    class Packed(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield b"never read"
            raise AssertionError

    headers = {"content-encoding": ", ".join(["gzip"] * layers)}
    response = httpx.Response(200, headers=headers, stream=Packed())
    with pytest.raises(Refused, match="was packed as gzip, gzip"):
        asyncio.run(anext(read_events(response)))


@pytest.mark.req("W-75")
@given(
    st.lists(st.text(alphabet="a[\u2028", min_size=1), min_size=1),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.integers(1, 9),
)
def test_events_are_read_whole_in_any_pieces(texts, end, size):
    body = b"".join(b"data: " + text.encode() + end + end for text in texts)

    class Pieces(httpx.AsyncByteStream):
        async def __aiter__(self):
            for at in range(0, len(body), size):
                yield body[at : at + size]

    async def read():
        response = httpx.Response(
            200, headers={"content-type": "text/event-stream"}, stream=Pieces()
        )
        return [event async for event in read_events(response)]

    assert asyncio.run(read()) == [b"data: " + text.encode() + b"\n\n" for text in texts]
