"""A server whose tools declare what providers refuse."""

import json
import sys
from typing import Any

OBJECT = {"type": "object"}

SCHEMAS = {
    "nothing": {},
    "no_properties": {"type": "object"},
    "no_type": {"properties": {"a": {"type": "string"}}},
    "properties_list": {"type": "object", "properties": []},
    "array_no_items": {**OBJECT, "properties": {"a": {"type": "array"}}},
    "array_in_array": {
        **OBJECT,
        "properties": {"a": {"type": "array", "items": {"type": "array"}}},
    },
    "tuple_items": {
        **OBJECT,
        "properties": {"a": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    },
    "prefix_items": {
        **OBJECT,
        "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}], "items": False}},
    },
    "with_format": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/x",
        **OBJECT,
        "properties": {"a": {"type": "string", "format": "uri", "pattern": "(?<!x)(?i)y"}},
    },
    "references": {
        **OBJECT,
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/definitions/B"}},
        "$defs": {"A": {"type": "string"}},
        "definitions": {"B": {"type": "array"}},
    },
    "recursive": {
        **OBJECT,
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": "string"}},
            }
        },
    },
    "dangling": {**OBJECT, "properties": {"a": {"$ref": "#/nowhere/at/all"}}},
    "foreign_ref": {**OBJECT, "properties": {"a": {"$ref": "https://example.com/s.json"}}},
    "root_one_of": {
        "oneOf": [
            {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        ]
    },
    "root_all_of": {
        "allOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "integer"}}},
        ]
    },
    "root_ref": {
        "$ref": "#/$defs/Args",
        "$defs": {"Args": {"type": "object", "properties": {"q": {"type": "string"}}}},
    },
    "type_list": {**OBJECT, "properties": {"a": {"type": ["string", "integer", "null"]}}},
    "nullable": {**OBJECT, "properties": {"a": {"type": "string", "nullable": True}}},
    "required_lies": {
        **OBJECT,
        "properties": {"a": {"type": "string"}},
        "required": ["a", "b", "a", 3],
    },
    "required_bool": {
        **OBJECT,
        "properties": {"a": {"type": "string", "required": True}},
        "required": True,
    },
    "odd_types": {
        **OBJECT,
        "properties": {
            "a": {"type": "int"},
            "b": {"type": "file"},
            "c": {"type": "any"},
            "d": {"type": 7},
        },
    },
    "constants": {
        **OBJECT,
        "properties": {"a": {"const": "x"}, "b": {"enum": []}, "c": {"enum": ["p", "p", None]}},
    },
    "boolean_schemas": {**OBJECT, "properties": {"a": True, "b": False, "c": "string"}},
    "conditions": {
        **OBJECT,
        "properties": {"a": {"type": "string", "not": {"const": "b"}}},
        "if": {"properties": {"a": {"const": "x"}}},
        "then": {"required": ["b"]},
        "patternProperties": {"^x": {"type": "string"}},
        "dependentRequired": {"a": ["b"]},
    },
    "bad_limits": {
        **OBJECT,
        "properties": {
            "a": {"type": "integer", "minimum": "1", "exclusiveMinimum": True, "multipleOf": 0},
            "b": {"type": "string", "minLength": -1, "description": ["no", "text"]},
        },
    },
    "not_an_object": {"type": "array", "items": {"type": "string"}},
}

TOOLS = [{"name": name, "inputSchema": schema} for name, schema in SCHEMAS.items()]
TOOLS += [
    {"name": "dotted.name/with spaces", "inputSchema": {"type": "object"}},
    {"name": "x" * 90, "inputSchema": {"type": "object"}},
    {"name": "wordy", "description": "word " * 1_000, "inputSchema": {"type": "object"}},
    {"name": "schemaless"},
    {"name": "schema_is_null", "inputSchema": None, "annotations": {"readOnlyHint": "yes"}},
    {"description": "a tool without a name"},
]


def answer(request) -> Any:
    if request["method"] == "initialize":
        return {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }
    if request["method"] == "tools/list":
        start = int((request.get("params") or {}).get("cursor") or 0)
        page = {"tools": TOOLS[start : start + 10]}
        return page | ({"nextCursor": str(start + 10)} if start + 10 < len(TOOLS) else {})
    return {"content": [{"type": "novel", "words": "new block", "id": "lc_1"}, {"type": "text"}]}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            reply = {"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked)}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
