"""Tools as a plan sees them: told to a planner, and arguments with references in them."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.calls.toolbox import Toolbox
from loopwright.flow.signatures import describe_tools, find_open_problems
from loopwright.tools.catalog import build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.server import Listing
from loopwright.tools.schemas import sanitize
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
    assert describe_tools(served(look, {"name": "wipe"})) == [
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


@pytest.mark.req("S2-03")
async def test_what_a_real_server_declares_of_its_results_arrives():
    box = Toolbox(mcp={"mcpServers": {"desk": stdio("desk")}})
    try:
        told = {tool["name"]: tool for tool in describe_tools(await box.catalog())}
    finally:
        await box.aclose()
    assert told["structured"]["result"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert told["listed"]["result"] == {"type": "array", "items": {"type": "string"}}
    assert told["search"]["result"]["type"] == "string"
    assert "result" not in told["linked"]


SCHEMA = sanitize(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 9},
            "share": {"type": "number", "exclusiveMinimum": 0},
            "mode": {"type": "string", "enum": ["fast", "slow"]},
            "code": {"type": "string", "minLength": 3, "maxLength": 4},
            "tags": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "deep": {
                "type": "object",
                "properties": {"on": {"type": "boolean"}, "names": {"type": "array"}},
                "required": ["on"],
                "additionalProperties": False,
            },
            "either": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
)


@pytest.mark.req("S2-06")
@pytest.mark.parametrize(
    "args",
    [
        {"path": "{{s1}}"},
        {"path": "a", "limit": "{{s1.total}}", "share": "{{s1.a[0].b}}", "mode": "{{s2}}"},
        {"path": "a", "tags": ["{{s1}}", 2]},
        {"path": "a", "deep": {"on": "{{s1.on}}", "names": ["x{{s1}}", "{{s2}}"]}},
        {"path": "a", "deep": "{{s1}}"},
        {"path": "a", "code": "{{s1}}-{{s2}}-far longer than four"},
        {"path": "a", "either": ["{{s1}}"]},
        {"path": "a", "labels": {"a": "{{s1}}", "b": "x {{s1}}"}},
        {"path": "a", "limit": "5", "share": 0.5, "tags": None},
        {"path": "a", "mode": "{{never closed"},
    ],
)
def test_what_may_fit_is_no_problem(args):
    assert find_open_problems(SCHEMA, args) == []


@pytest.mark.req("S2-06")
@pytest.mark.parametrize(
    ("args", "problems"),
    [
        ({}, ["'path' is a required property"]),
        ({"path": [3]}, ["path: [3] is not of type 'string'"]),
        ({"path": "a", "limit": "5 {{s1}}"}, ["limit: '5 {{s1}}' is not of type 'integer'"]),
        ({"path": "a", "limit": 10}, ["limit: 10 is greater than the maximum of 9"]),
        ({"path": "a", "limit": True}, ["limit: True is not of type 'integer'"]),
        ({"path": "a", "share": 0}, ["share: 0 is less than or equal to the minimum of 0"]),
        ({"path": "a", "mode": "fats"}, ["mode: 'fats' is not one of ['fast', 'slow']"]),
        ({"path": "a", "code": "\\{{"}, ["code: '{{' is too short"]),
        ({"path": "a", "tags": []}, ["tags: [] should be non-empty"]),
        ({"path": "a", "tags": ["x{{s1}}"]}, ["tags.0: 'x{{s1}}' is not of type 'integer'"]),
        ({"path": "a", "tags": "[{{s1}}]"}, ["tags: '[{{s1}}]' is not of type 'array'"]),
        ({"path": "a", "deep": {"names": "{{s1}}"}}, ["deep: 'on' is a required property"]),
        (
            {"path": "a", "either": {"x": "{{s1}}"}},
            ["either: {'x': '{{s1}}'} is not valid under any of the given schemas"],
        ),
        ({"path": "a", "labels": {"a": ["{{s1}}", ""]}}, ["labels.a: ['{{s1}}', ''] is not"]),
        ({"path": "\ud83d"}, ["half of a surrogate pair"]),
        ({"path": "a", "free": float("nan")}, ["NaN"]),
        ({"path": "a", "free": {"x": 2**70}}, ["beyond 64 bits"]),
        (["a"], ["must be a JSON object, not list"]),
    ],
)
def test_what_can_never_fit_is_named(args, problems):
    found = find_open_problems(SCHEMA, args)
    assert len(found) == len(problems)
    for words, sentence in zip(problems, found, strict=True):
        assert words in sentence


def fitting(schema: Any) -> Any:
    """Values that fit a schema of this test."""
    if "anyOf" in schema:
        return st.integers(0, 3) | st.lists(st.integers(-9, 9), max_size=2)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return {
        "string": st.sampled_from(["abc", "abcd"]),
        "integer": st.integers(1, 9),
        "number": st.floats(0.5, 9.5),
        "boolean": st.booleans(),
        "array": st.lists(st.integers(0, 9), min_size=1, max_size=3),
        "object": st.just({"on": True}) if schema.get("properties") else st.just({"a": "b"}),
    }.get(schema.get("type"), st.none() | st.text("ab", max_size=4))


FITTING = st.fixed_dictionaries(
    {"path": st.just("a")},
    optional={
        name: fitting(schema) for name, schema in SCHEMA["properties"].items() if name != "path"
    },
)


@given(FITTING, st.data())
def test_any_argument_may_be_left_to_a_reference(args, data):
    assert find_open_problems(SCHEMA, args) == []
    name = data.draw(st.sampled_from(sorted(args)))
    assert find_open_problems(SCHEMA, {**args, name: "{{s1.some field[0]}}"}) == []
