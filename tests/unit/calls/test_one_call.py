import asyncio
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt

from loopwright.calls.one_call import run_once
from loopwright.tools.catalog import CatalogTool
from loopwright.tools.mcp.call import ServerUnavailable

WRITE = CatalogTool(name="pay", description="", schema={})
READ = CatalogTool(name="look", description="", schema={}, read_only=True)


class ReadTimeout(Exception):
    """As HTTP clients name it."""


class ConnectTimeout(Exception):
    """Nothing was sent."""


class Stranger(BaseException):
    """No Exception at all."""


async def raising(error) -> Any:
    raise error


@pytest.mark.req("P-06")
@pytest.mark.parametrize(
    ("error", "ambiguous"),
    [
        (ValueError("no such order"), False),
        (ConnectionRefusedError("refused"), False),
        (ConnectTimeout(), False),
        (ServerUnavailable("it is not there"), False),
        (ServerUnavailable("it went away", sent=True), True),
        (TimeoutError(), True),
        (ConnectionResetError("gone"), True),
        (BrokenPipeError(), True),
        (ReadTimeout(), True),
        (ExceptionGroup("several", [TimeoutError()]), True),
        (asyncio.CancelledError(), True),
        (SystemExit(3), True),
        (Stranger("who"), True),
    ],
)
async def test_what_may_have_taken_effect_is_told_apart_from_what_has_not(error, ambiguous):
    ended = await run_once(WRITE, raising(error), 5)
    assert ended.result.is_error
    assert (ended.reason == "uncertain") is ambiguous
    assert ("may have taken effect" in ended.result.text) is ambiguous
    read = await run_once(READ, raising(error), 5)
    assert read.reason == ""
    assert "taken effect" not in read.result.text


async def test_at_the_deadline_a_write_may_have_taken_effect():
    ended = await run_once(WRITE, asyncio.sleep(30), 0.05)
    assert ended.reason == "uncertain"
    assert "did not answer within 0.05 s; it may still be running" in ended.result.text


async def test_an_answer_is_no_doubt_and_a_question_passes_through():
    assert (await run_once(WRITE, asyncio.sleep(0, "done"), 5)).reason == ""
    with pytest.raises(GraphInterrupt):
        await run_once(WRITE, raising(GraphInterrupt(())), 5)
