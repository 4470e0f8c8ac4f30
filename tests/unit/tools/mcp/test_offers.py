"""What a server has besides tools that can be called: resources, prompts, tools for tasks alone."""

import contextlib
from typing import Any

import pytest

from loopwright.calls.toolbox import Toolbox
from support.mcp_servers import serving, stdio


@pytest.fixture(params=["stdio", "http"])
def entry(request) -> Any:
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            yield {"url": stack.enter_context(serving(program="library"))[1]}
        else:
            yield stdio("library")


@pytest.fixture
async def make_box():
    boxes = []

    def make(**entries: Any) -> Any:
        boxes.append(Toolbox(mcp={"mcpServers": entries}))
        return boxes[-1]

    yield make
    for box in boxes:
        await box.aclose()


async def test_a_tool_that_runs_as_a_task_alone_is_not_offered(entry, make_box):
    catalog = await make_box(library=entry).catalog()
    assert "scan" not in catalog.tools
    assert "sum_up" in catalog.tools
    assert catalog.warnings == (
        "The tool 'scan' of MCP server 'library' is left out: it runs as an MCP task alone.",
    )


async def test_prompts_and_resources_are_listed(entry, make_box):
    box = make_box(library=entry)
    assert [one["name"] for one in box.list_offers("library", "prompts")] == ["review", "greet"]
    (book,) = box.list_offers("library", "resources")
    assert book["uri"] == "books://juno"
