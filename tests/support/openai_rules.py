"""What OpenAI and compatible providers refuse in a function tool, as a checker."""

import json
import re
from typing import Any

TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}
REFUSED = {
    "$ref", "$defs", "$schema", "$id", "definitions", "allOf", "oneOf", "not", "if", "then", "else",
    "format", "pattern", "patternProperties", "prefixItems", "const", "nullable",
    "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties", "examples",
}  # fmt: skip


def problems(spec) -> Any:
    """Everything wrong with one tool spec, as a list of texts."""
    function = spec.get("function", {})
    found = []
    if spec.get("type") != "function":
        found.append("no function")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function.get("name", "")):
        found.append(f"name {function.get('name')!r}")
    description = function.get("description")
    if not isinstance(description, str) or not 0 < len(description) <= 1024:
        found.append("description")
    if function.get("strict"):
        found.append("strict")
    json.dumps(function, allow_nan=False)
    parameters = function.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        return [*found, "root is no object schema"]
    if {"anyOf", "enum"} & set(parameters):
        found.append("root has a choice")
    return found + _schema("", parameters)


def _schema(path, schema) -> Any:
    if not isinstance(schema, dict):
        return [f"{path}: no schema"]
    found = [f"{path}: {key}" for key in REFUSED & set(schema)]
    kind = schema.get("type")
    if kind is not None and (not isinstance(kind, str) or kind not in TYPES):
        found.append(f"{path}: type {kind!r}")
    if kind == "array":
        found += _schema(f"{path}[]", schema.get("items"))
    if kind == "object":
        found += _object(path, schema)
    if "anyOf" in schema:
        found += [] if len(schema["anyOf"]) > 1 else [f"{path}: anyOf of one"]
        for branch in schema["anyOf"]:
            found += _schema(f"{path}|", branch)
    return found + _values(path, schema)


def _object(path, schema) -> Any:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return [f"{path}: no properties"]
    found = []
    required = schema.get("required", [])
    if not isinstance(required, list) or any(required.count(r) > 1 for r in required):
        return [f"{path}: required {required}"]
    if any(name not in properties for name in required):
        found.append(f"{path}: required {required}")
    for name, child in properties.items():
        found += _schema(f"{path}.{name}", child)
    extra = schema.get("additionalProperties", True)
    return found if isinstance(extra, bool) else found + _schema(f"{path}.*", extra)


def _values(path, schema) -> Any:
    found = []
    if "enum" in schema and (
        not schema["enum"] or len({json.dumps(v) for v in schema["enum"]}) < len(schema["enum"])
    ):
        found.append(f"{path}: enum")
    if not isinstance(schema.get("description", ""), str):
        found.append(f"{path}: description")
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(schema.get(key), bool) or not isinstance(schema.get(key, 0), int | float):
            found.append(f"{path}: {key}")
    return found
