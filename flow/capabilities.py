"""What a planner is told of the tools: what each does, takes and gives. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from ..state.told import say
from ..tools.catalog import Catalog, CatalogTool
from ..tools.llm_call import BUILT_IN
from ..tools.schemas import Schema, sanitise

_SHOWN_RESULT: Final = 1_500
"""Characters of a result's schema; a longer one is shown without what is inside its fields."""

_PLACES: Final = ("items", "additionalProperties")


def capabilities(catalog: Catalog) -> list[dict[str, Any]]:
    """Describe every tool of the catalog, always in the same order and the same words.

    Returns:
        For each tool `name`, `description`, `arguments` (`properties` and `required` of its
        schema), `result` (the schema of what references read; left out where nobody declared
        one), `changes` (it may change something outside) and `safe_to_repeat` (running it
        twice leaves the world as running it once).
    """
    return [_described(tool) for tool in catalog.tools.values()]


def _described(tool: CatalogTool) -> dict[str, Any]:
    properties = tool.schema.get("properties", {})
    result = _result(tool.output)
    return {
        "name": tool.name,
        "description": say("llm_call_tool") if tool.tool is BUILT_IN else tool.description,
        "arguments": {
            "properties": _fields(properties),
            "required": list(tool.schema.get("required", ())),
        },
        **({"result": result} if result else {}),
        "changes": not tool.read_only,
        "safe_to_repeat": tool.resendable,
    }


def _result(output: Schema | None) -> Schema:
    """A result's schema with references followed, cut to its outer fields where it is long."""
    if output is None:
        return {}
    given = _untitled(output)
    named = {key: given[key] for key in ("$defs", "definitions") if key in given}
    whole = sanitise({**named, "properties": {"result": given}, "required": ["result"]})
    schema: Schema = _compact(whole["properties"]["result"], "")
    if len(json.dumps(schema, ensure_ascii=False)) <= _SHOWN_RESULT:
        return schema
    return _outline(schema, inside=True)


def _untitled(value: Any) -> Any:
    """A schema without titles, which libraries make up from the names of types and fields."""
    if isinstance(value, list):
        return [_untitled(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A field named `title` has a schema.
    return {k: _untitled(v) for k, v in value.items() if k != "title" or isinstance(v, dict)}


def _outline(schema: Mapping[str, Any], *, inside: bool) -> Schema:
    """The types of a schema's outer fields, of a list those of its items."""
    short = {"type": schema["type"]} if "type" in schema else {}
    if inside and "items" in schema:
        short["items"] = _outline(schema["items"], inside=True)
    if inside and "properties" in schema:
        fields = schema["properties"].items()
        short["properties"] = {name: _outline(field, inside=False) for name, field in fields}
    return short


def _fields(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _compact(field, name) for name, field in properties.items()}


def _compact(schema: Any, name: str) -> Any:
    """A schema without defaults, empty parts, and descriptions that only say the field's name."""
    if not isinstance(schema, Mapping):
        return schema
    kept = {k: v for k, v in schema.items() if k not in ("default", "title") and v not in ({}, [])}
    if _plain(kept.get("description", "")) in ("", _plain(name)):
        kept.pop("description", None)
    if "properties" in kept:
        kept["properties"] = _fields(kept["properties"])
    if "anyOf" in kept:
        kept["anyOf"] = [_compact(branch, name) for branch in kept["anyOf"]]
    return kept | {key: _compact(kept[key], name) for key in _PLACES if key in kept}


def _plain(text: str) -> str:
    return text.replace("_", " ").strip().casefold()
