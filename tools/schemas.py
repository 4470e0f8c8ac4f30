"""Rewrite the schema that a tool declares so that every provider accepts it. Pure.

The rules are OpenAI's: the root is an object with `properties`; no `$ref`; arrays have `items`;
only known types; `required` names only existing properties. Keywords that providers reject
(`format`, `pattern`, …) move into the description.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

Schema = dict[str, Any]

MAX_DESCRIPTION: Final = 1024  # OpenAI refuses a longer function description
_MAX_DEPTH: Final = 24
_MAX_NODES: Final = 2_000  # a schema of references that multiply stays finite
_MAX_FOLLOWED: Final = 20_000_000  # characters behind references

_NAMES: Final = {
    "object": ("dict", "map"),
    "array": ("list", "tuple", "set"),
    "string": ("str", "text", "date", "datetime", "uuid", "file", "binary", "bytes"),
    "integer": ("int", "long"),
    "number": ("float", "double", "decimal"),
    "boolean": ("bool",),
    "null": ("none",),
}
"""The types of JSON schema, and what servers call them instead."""
_TYPES: Final = {name: kind for kind, names in _NAMES.items() for name in (kind, *names)}

_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems")
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_HINTS: Final = {"format": "Format", "pattern": "Pattern", "examples": "Examples"}


def sanitize(schema: object) -> Schema:
    """A tool's input schema with an object as its root; another schema has no known arguments."""
    root = schema if isinstance(schema, Mapping) else {}
    clean = _Rewriter(root).rewrite(root, 0)
    branches = clean.pop("anyOf", [])
    if branches:
        clean = _merge_parts([clean, _merge_branches(branches)])
    clean["type"] = "object"
    clean.setdefault("properties", {})
    for key in ("enum", "default", "items"):
        clean.pop(key, None)
    return clean


def sanitize_value(schema: Mapping[str, Any]) -> Schema:
    """The schema of any value, for use inside another one."""
    return _Rewriter(schema).rewrite(schema, 0)


def one_line(text: object, limit: int = MAX_DESCRIPTION) -> str:
    """A description of at most `limit` characters; a cut is marked."""
    words = text.strip() if isinstance(text, str) else ""
    words = words.encode("utf-8", "replace").decode()
    return words if len(words) <= limit else words[: limit - 1] + "…"


class _Rewriter:
    """Walks one schema once; holds the root for references and the budget of nodes."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left, self._room = _MAX_NODES, _MAX_FOLLOWED
        self._open: list[str] = []

    def rewrite(self, schema: object, depth: int) -> Schema:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return {}
        if isinstance(schema.get("$ref"), str):
            return self._follow(schema, depth)
        parts = [self.rewrite(part, depth + 1) for part in _as_sequence(schema.get("allOf"))]
        return _merge_parts([self._rewrite_plain(schema, depth), *parts])

    def _follow(self, schema: Mapping[str, Any], depth: int) -> Schema:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if reference in self._open or self._room < 0:  # a free value of that kind ends it
            return self.rewrite(beside, depth + 1)
        self._open.append(reference)
        meant = resolve_reference(self._root, reference)
        self._room -= len(json.dumps(meant, default=str))
        target = self.rewrite(meant, depth + 1)
        self._open.pop()
        return _merge_parts([target, self.rewrite(beside, depth + 1)])

    def _rewrite_plain(self, schema: Mapping[str, Any], depth: int) -> Schema:
        clean: Schema = {}
        kinds = _list_types(schema)
        if len(kinds) == 1:
            clean["type"] = kinds[0]
        elif kinds:  # many refuse a list under `type`; each branch keeps what belongs to its type
            keep = {key: value for key, value in schema.items() if key not in _OUTER}
            clean["anyOf"] = [self.rewrite({**keep, "type": kind}, depth + 1) for kind in kinds]
        _add_values(clean, schema)
        _add_limits(clean, schema)
        if isinstance(schema.get("contentMediaType"), str):
            clean["contentMediaType"] = schema["contentMediaType"]
        self._add_branches(clean, schema, depth)
        self._add_object(clean, schema, depth)
        self._add_array(clean, schema, depth)
        description = _describe_schema(schema)
        if description:
            clean["description"] = description
        return clean

    def _add_branches(self, clean: Schema, schema: Mapping[str, Any], depth: int) -> None:
        choices = [*_as_sequence(schema.get("anyOf")), *_as_sequence(schema.get("oneOf"))]
        branches = [self.rewrite(branch, depth + 1) for branch in choices if branch is not False]
        branches += clean.pop("anyOf", [])
        if not branches or {} in branches:  # a branch that takes anything: no limit at all
            return
        unique = [*{json_of(branch): branch for branch in branches}.values()]
        if len(unique) == 1:
            clean.update(_merge_parts([clean, unique[0]]))
        else:
            clean.pop("type", None)
            clean["anyOf"] = unique

    def _add_object(self, clean: Schema, schema: Mapping[str, Any], depth: int) -> None:
        declared = schema.get("properties")
        kind = clean.get("type", "object" if declared is not None else "")
        if kind != "object" or ("anyOf" in clean and declared is None):
            return
        named = declared if isinstance(declared, Mapping) else {}
        kept = {str(k): v for k, v in named.items() if v is not False}
        clean["type"] = "object"
        clean["properties"] = {k: self.rewrite(v, depth + 1) for k, v in kept.items()}
        required = [
            r for r in _as_sequence(schema.get("required")) if isinstance(r, str) and r in kept
        ]
        required += [
            k for k, v in kept.items() if isinstance(v, Mapping) and v.get("required") is True
        ]
        _loosen_nulls(clean["properties"], frozenset(required))
        if required:
            clean["required"] = list(dict.fromkeys(required))
        extra = schema.get("additionalProperties")
        if isinstance(extra, bool):
            clean["additionalProperties"] = extra
        elif isinstance(extra, Mapping):
            clean["additionalProperties"] = self.rewrite(extra, depth + 1) or True

    def _add_array(self, clean: Schema, schema: Mapping[str, Any], depth: int) -> None:
        kind = clean.get("type", "array" if "items" in schema else "")
        if kind != "array" or "anyOf" in clean:
            return
        clean["type"] = "array"
        tupled = [*_as_sequence(schema.get("prefixItems")), *_as_sequence(schema.get("items"))]
        items = {"anyOf": tupled} if tupled else schema.get("items")
        clean["items"] = self.rewrite(items, depth + 1)


def _as_sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def resolve_reference(root: object, reference: str) -> object:
    """The target of a `$ref` inside the schema; outside it, any value."""
    if not reference.startswith("#"):
        return {}
    node = root
    for part in filter(None, reference[1:].split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return {}
    return node


def _list_types(schema: Mapping[str, Any]) -> list[str]:
    """The JSON types a schema allows; empty if it names none."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else [*_as_sequence(declared)]
    known = [_TYPES[n.lower()] for n in names if isinstance(n, str) and n.lower() in _TYPES]
    if schema.get("nullable") is True and known:
        known.append("null")
    return list(dict.fromkeys(known))


def has_valid_types(schema: Schema) -> bool:
    """Whether a schema names no type, or a known one."""
    return "type" not in schema or bool(_list_types(schema))


_OUTER: Final = frozenset(
    {"type", "nullable", "description", "default", "enum", "const", "anyOf", "oneOf", "allOf"}
    | {"format", "pattern", "examples", "title"}
)


def _add_values(clean: Schema, schema: Mapping[str, Any]) -> None:
    choices = [schema["const"]] if "const" in schema else _as_sequence(schema.get("enum"))
    choices = [*{text: c for c in choices if (text := json_of(c))}.values()]
    if choices:
        clean["enum"] = choices
        kinds = {_find_type(choice) for choice in choices}
        if len(kinds) == 1:
            clean["type"] = kinds.pop()
        elif clean.get("type") not in (None, *kinds):
            del clean["type"]
        clean.pop("anyOf", None)
    if schema.get("default") is not None and json_of(schema["default"]):
        clean["default"] = schema["default"]


def _find_type(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    kinds: dict[type, str] = {int: "integer", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "object")


def json_of(value: object) -> bytes:
    """A value as JSON that everybody reads; nothing for one that has none."""
    try:
        return _JSON.encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return b""


_JSON: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True)


def _add_limits(clean: Schema, schema: Mapping[str, Any]) -> None:
    limits = {key: v for key, v in schema.items() if not isinstance(v, bool)}
    for key in _COUNTS:
        if isinstance(value := limits.get(key), int) and value >= 0:
            clean[key] = value
    for key in _BOUNDS:
        if isinstance(value := limits.get(key), int | float) and math.isfinite(value):
            clean[key] = value
    if clean.get("multipleOf", 1) <= 0:
        del clean["multipleOf"]


def _describe_schema(schema: Mapping[str, Any]) -> str:
    text = one_line(schema.get("description")) or one_line(schema.get("title"))
    for key, word in _HINTS.items():
        value = schema.get(key)
        shown = value if isinstance(value, str) else ", ".join(map(str, _as_sequence(value)[:3]))
        if shown and shown not in text:
            text = f"{text} {word}: {shown}.".strip()
    return one_line(text)


def _loosen_nulls(properties: dict[str, Schema], required: frozenset[str]) -> None:
    """Drop `null` from optional properties: a model can leave them out."""
    for name, schema in properties.items():
        if name in required:
            continue
        branches = [b for b in schema.get("anyOf", ()) if b.get("type") != "null"]
        if branches and len(branches) < len(schema["anyOf"]):
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            properties[name] = (
                _merge_parts([branches[0], rest])
                if len(branches) == 1
                else {**rest, "anyOf": branches}
            )
        choices = [choice for choice in schema.get("enum", ()) if choice is not None]
        if choices and len(choices) < len(schema["enum"]):
            properties[name] = {k: v for k, v in schema.items() if k != "type"} | {"enum": choices}
            if len(kinds := {_find_type(choice) for choice in choices}) == 1:
                properties[name]["type"] = kinds.pop()


def _merge_parts(parts: Sequence[Schema]) -> Schema:
    """One schema for all parts: properties and `required` are united, else later parts win."""
    whole: Schema = {}
    properties: dict[str, Schema] = {}
    required: dict[str, None] = {}
    for part in parts:
        properties |= part.get("properties", {})
        required |= dict.fromkeys(part.get("required", ()))
        whole.update(part)
    united = {"properties": properties, "required": [*required]}
    return whole | {key: both for key, both in united.items() if both}


def _merge_branches(branches: Sequence[Schema]) -> Schema:
    """One object for a choice of objects: all properties, the common `required`."""
    whole: Schema = {"properties": {}}
    required: list[set[str]] = []
    for branch in branches:
        inner = _merge_branches(branch["anyOf"]) if "anyOf" in branch else branch
        if inner.get("type", "object") == "object":
            whole["properties"].update(inner.get("properties", {}))
            required.append(set(inner.get("required", ())))
    common = set.intersection(*required) if required else set()
    if common:
        whole["required"] = sorted(common)
    return whole


def read_output(declared: object) -> Schema | None:
    """The schema a tool declares for its result; None if it cannot be used."""
    if not isinstance(declared, Mapping) or not json_of(declared):
        return None
    schema: Schema = json.loads(json.dumps(declared))
    has_fields = isinstance(schema.get("properties", {}), dict)
    return schema if schema and has_fields and has_valid_types(schema) else None
