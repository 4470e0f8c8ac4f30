import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, field_validator

from loopwright.calls.sending import run_once
from loopwright.tools.catalog import CatalogTool
from loopwright.tools.mcp.call import ServerUnavailable
from loopwright.tools.python_tools import run_tool

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


@pytest.mark.req("P-06", "W-06")
@pytest.mark.parametrize(
    ("error", "ambiguous"),
    [
        (ToolException("no such order"), False),
        (ExceptionGroup("several", [ToolException("no"), ValueError("odd")]), True),
        (KeyError("receipt"), True),
        (ConnectTimeout(), True),
        (ServerUnavailable("it went away", sent=True), True),
        (ConnectionResetError("gone"), True),
        (ReadTimeout(), True),
        (asyncio.CancelledError(), True),
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


@pytest.mark.req("W-06")
async def test_a_write_that_may_be_repeated_is_never_in_doubt_for_an_error():
    for error in (
        ValueError("odd"),
        ConnectionResetError("gone"),
        ServerUnavailable("", sent=True),
    ):
        ended = await run_once(replace(WRITE, idempotent=True), raising(error), 5)
        assert (ended.reason, ended.result.is_error) == ("", True)


class Amount(BaseModel):
    """What `charge` takes; more than a schema can say."""

    cents: int

    @field_validator("cents")
    @classmethod
    def even(cls, cents: int) -> int:
        if cents % 2:
            raise ValueError("an even number is wanted")
        return cents


@pytest.mark.req("W-06")
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("cents", "receipt", "doubted"), [(1, 2, False), (2, 1, True), (2, "x", True)]
)
async def test_only_a_tools_reading_of_its_own_arguments_is_a_refusal(
    cents, receipt, doubted, is_async
):
    """The same kind of error from the code of the tool may come after the effect."""

    def charge(cents: int) -> str:
        Amount(cents=receipt)
        return str(cents)

    async def acharge(cents: int) -> str:
        return charge(cents)

    code = {"coroutine": acharge} if is_async else {"func": charge}
    tool = StructuredTool.from_function(
        **code, name="charge", description="Charge.", args_schema=Amount
    )
    request = {"type": "tool_call", "name": "charge", "args": {"cents": cents}, "id": "1"}
    entry = replace(WRITE, tool=tool)
    ended = await run_once(entry, run_tool(tool, request, {}), 5)
    assert ended.result.is_error
    assert (ended.reason == "uncertain") is doubted
