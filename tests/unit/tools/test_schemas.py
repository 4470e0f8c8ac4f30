import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
from hypothesis import given, strategies as st

from loopwright.tools.schemas import sanitize
from support.mcp_servers.odd_schemas import SCHEMAS
from support.openai_rules import problems


def spec(schema) -> Any:
    function = {"name": "tool", "description": "A tool.", "parameters": schema}
    return {"type": "function", "function": function}


@pytest.mark.req("P-09")
@pytest.mark.parametrize("name", SCHEMAS)
def test_bad_schemas_pass_the_providers_rules(name):
    before = json.dumps(SCHEMAS[name])
    clean = sanitize(SCHEMAS[name])
    assert problems(spec(clean)) == []
    jsonschema.Draft202012Validator.check_schema(clean)
    assert json.dumps(SCHEMAS[name]) == before
    assert sanitize(clean) == clean


def test_references_that_multiply_end():
    definitions = {
        f"N{i}": {
            "type": "object",
            "properties": {k: {"$ref": f"#/$defs/N{i + 1}"} for k in "abcdefgh"},
        }
        for i in range(12)
    }
    schema = {"$ref": "#/$defs/N0", "$defs": definitions}
    assert len(json.dumps(sanitize(schema))) < 300_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(
        ["string", "object", "array", "int", "#", "#/properties/a", "#/$defs/x", "x", "\ud800"]
    ),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["type", "properties", "items", "required", "enum", "anyOf", "oneOf", "allOf", "$ref",
             "$defs", "x", "a", "const", "default", "nullable", "description", "minimum", "format",
             "additionalProperties", "minLength", "prefixItems", "title"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@given(JSON)
def test_no_schema_gets_through_bad(schema):
    clean = sanitize(schema)
    assert problems(spec(clean)) == []
    jsonschema.Draft202012Validator.check_schema(clean)
