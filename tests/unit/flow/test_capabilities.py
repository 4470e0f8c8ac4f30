"""What a planner is told of the tools, and what tools say of their results."""

import json
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from loopwright.calls.toolbox import Toolbox
from loopwright.flow.capabilities import capabilities
from loopwright.tools.catalog import build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.servers import Listing
from loopwright.tools.python_tools import read_tools
from support.mcp_servers import stdio

ROWS = {
    "type": "object",
    "title": "Rows",
    "properties": {
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "row_count": {"type": "integer", "title": "Row Count", "default": 0},
    },
    "required": ["rows"],
    "$defs": {"Row": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def served(*tools: dict[str, Any]) -> Any:
    return build_catalog([], [Listing(ServerConfig(name="disk"), tools, "")])


def output_of(schema: object) -> Any:
    return served({"name": "look", "outputSchema": schema}).tools["look"].output


def python_output(schema: object) -> Any:
    tool = StructuredTool.from_function(
        lambda: 1, name="look", description="Look.", metadata={"outputSchema": schema}
    )
    return read_tools([tool])[0].output


@pytest.mark.req("S2-03", "S2-43")
def test_a_tool_is_described_by_what_it_does_takes_gives_and_changes():
    look = {
        "name": "look",
        "description": "Look at rows.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "title": "Path", "description": "Where."},
                "row_limit": {"type": "integer", "title": "Row Limit", "default": 10},
            },
            "required": ["path"],
        },
        "outputSchema": ROWS,
        "annotations": {"readOnlyHint": True},
    }
    rows = {
        "type": "array",
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    assert capabilities(served(look, {"name": "wipe"})) == [
        {
            "name": "look",
            "description": "Look at rows.",
            "arguments": {
                "properties": {
                    "path": {"type": "string", "description": "Where."},
                    "row_limit": {"type": "integer"},
                },
                "required": ["path"],
            },
            "result": {
                "type": "object",
                "properties": {"rows": rows, "row_count": {"type": "integer"}},
                "required": ["rows"],
            },
            "changes": False,
            "safe_to_repeat": True,
        },
        {
            "name": "wipe",
            "description": "wipe",
            "arguments": {"properties": {}, "required": []},
            "changes": True,
            "safe_to_repeat": False,
        },
    ]


def test_a_write_that_may_be_repeated_says_so():
    (put,) = capabilities(served({"name": "put", "annotations": {"idempotentHint": True}}))
    assert (put["changes"], put["safe_to_repeat"]) == (True, True)


def test_a_field_may_be_named_like_a_keyword():
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "default": {}}}
    (tool,) = capabilities(served({"name": "look", "inputSchema": schema, "outputSchema": schema}))
    assert tool["arguments"]["properties"] == {"title": {"type": "string"}, "default": {}}
    assert set(tool["result"]["properties"]) == {"title", "default"}


def test_a_result_may_be_one_of_several():
    branches = [{"type": "array", "title": "L", "items": {"type": "string"}}, {"type": "null"}]
    schema = {"type": "object", "properties": {"a": {"anyOf": branches}}, "required": ["a"]}
    (tool,) = capabilities(served({"name": "look", "outputSchema": schema}))
    told = [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]
    assert tool["result"]["properties"]["a"] == {"anyOf": told}


def test_a_long_result_is_told_by_its_outer_fields():
    field = {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(30)}}
    wide = {"type": "object", "properties": {f"part{i}": field for i in range(10)}}
    (tool,) = capabilities(served({"name": "look", "outputSchema": wide}))
    assert tool["result"]["properties"]["part9"] == {"type": "object"}
    assert len(json.dumps(tool)) < 2_000
    (listing,) = capabilities(
        served(
            {
                "name": "l",
                "outputSchema": {"properties": {"result": {"type": "array", "items": wide}}},
            }
        )
    )
    assert listing["result"] == {"type": "array", "items": tool["result"]}


def test_the_words_are_the_same_each_time():
    first, second = (capabilities(served({"name": "a"}, {"name": "b"})) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ({"properties": {"result": {"type": "string"}}}, {"type": "string"}),
        ({"properties": {"result": {"type": ["integer", "null"]}}}, {"type": ["integer", "null"]}),
        (
            {"properties": {"result": {"$ref": "#/$defs/L"}}, "$defs": {"L": {"type": "array"}}},
            {"$ref": "#/$defs/L", "$defs": {"L": {"type": "array"}}},
        ),
        (
            {"properties": {"result": {"anyOf": [{"type": "array"}, {"type": "null"}]}}},
            {"anyOf": [{"type": "array"}, {"type": "null"}]},
        ),
    ],
)
def test_the_wrapper_around_results_that_are_no_objects_is_taken_off(declared, read):
    assert output_of(declared) == read
    assert python_output(declared) == declared


@pytest.mark.parametrize(
    "declared",
    [
        {"properties": {"result": {"type": "object"}}},
        {"properties": {"result": {"type": "string"}, "more": {}}},
        {"type": "object", "properties": {"total": {"type": "integer"}}},
    ],
)
def test_a_result_without_a_wrapper_stays_as_declared(declared):
    assert output_of(declared) == declared


@pytest.mark.parametrize(
    "declared",
    [
        None, {}, "object", [], 3, True, {"type": "thing"}, {"type": 5}, {"properties": []},
        {"properties": {"result": {}}},
        {"properties": {"result": {"anyOf": [{"type": "object"}, {"type": "null"}]}}},
        {"properties": {"result": {"$ref": "#/$defs/none"}}},
        {"properties": {"result": True}},
    ],
)  # fmt: skip
def test_a_schema_that_does_not_say_what_comes_counts_as_none(declared):
    assert output_of(declared) is None


def test_what_a_program_declares_and_is_no_json_counts_as_none():
    assert python_output({"type": "object", "properties": {"a": object()}}) is None
    assert python_output({"type": "array"}) == {"type": "array"}


@pytest.mark.req("S2-03")
async def test_what_a_real_server_declares_of_its_results_arrives():
    box = Toolbox(mcp={"mcpServers": {"desk": stdio("desk")}})
    try:
        told = {tool["name"]: tool for tool in capabilities(await box.catalog())}
    finally:
        await box.aclose()
    assert told["structured"]["result"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert told["listed"]["result"] == {"type": "array", "items": {"type": "string"}}
    assert told["search"]["result"]["type"] == "string"
    assert "result" not in told["linked"]
