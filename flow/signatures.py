"""Tools as a plan sees them: described to a planner, and checked against a plan's arguments. Pure.

References are still open at that time: a text that is one reference may become any value, a text
that contains references stays a text. Everything else must fit the tool's schema.
"""

import difflib
import json
from collections import UserString
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..text.canonical import list_names, shorten_text
from ..text.sentences import say
from ..tools.arguments import find_unsafe_part, fit, problems_of
from ..tools.catalog import Catalog, CatalogTool
from ..tools.python_tools import BUILT_IN
from ..tools.schemas import Schema, resolve_reference, sanitize
from .references import (
    OPEN,
    WHOLE,
    MissingValue,
    Reference,
    find_references,
    is_whole,
    map_texts,
    resolve_references,
)

_SHOWN_RESULT: Final = 1_500
"""Characters of a result's schema; a longer one is shown without what is inside its fields."""


def describe_tools(
    catalog: Catalog, found: Collection[str] = (), *, more: bool = False
) -> list[dict[str, Any]]:
    """The tools as a planner is told them, always in the same words.

    If there are many tools, only the built-in ones and those in `found` are described; with `more`
    only those in `found`.
    """
    tools = catalog.tools
    if more or catalog.deferred_tools.is_needed:
        built_in = [name for name, tool in tools.items() if tool.tool is BUILT_IN and not more]
        tools = {name: tools[name] for name in [*built_in, *found] if name in tools}
    own = [tool for tool in catalog.own.values() if tool.is_work and not more]
    return [_describe_tool(tool) for tool in [*tools.values(), *own]]


def _describe_tool(tool: CatalogTool) -> dict[str, Any]:
    result = _describe_result(tool.output) if tool.output else {}
    return {
        "name": tool.name,
        "description": say("llm_call_tool") if tool.tool is BUILT_IN else tool.description,
        "arguments": {
            "properties": _outline_fields(tool.schema.get("properties", {})),
            "required": list(tool.schema.get("required", ())),
        },
        **({"result": result} if result else {}),
        "changes": not tool.read_only,
        "safe_to_repeat": tool.resendable,
    }


def _describe_result(output: Schema) -> Schema:
    """A result's schema with references followed, cut to its outer fields where it is long."""
    given = _drop_titles(output)
    named = {key: given[key] for key in ("$defs", "definitions") if key in given}
    whole = sanitize({**named, "properties": {"result": given}, "required": ["result"]})
    schema: Schema = _compact_schema(whole["properties"]["result"], "")
    is_long = len(json.dumps(schema, ensure_ascii=False)) > _SHOWN_RESULT
    return _outline_schema(schema) if is_long else schema


def _drop_titles(value: Any) -> Any:
    """A schema without titles, which libraries make up from the names of types and fields."""
    if isinstance(value, list):
        return [_drop_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A field named `title` has a schema.
    return {k: _drop_titles(v) for k, v in value.items() if k != "title" or isinstance(v, dict)}


def _outline_schema(schema: Mapping[str, Any]) -> Schema:
    """The types of a schema's outer fields, of a list those of its items."""
    short = {"type": schema["type"]} if "type" in schema else {}
    if "items" in schema:
        short["items"] = _outline_schema(schema["items"])
    if "properties" in schema:
        fields = schema["properties"].items()
        short["properties"] = {k: {"type": v["type"]} if "type" in v else {} for k, v in fields}
    return short


def _outline_fields(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _compact_schema(field, name) for name, field in properties.items()}


def _compact_schema(schema: Any, name: str) -> Any:
    """A schema without defaults, empty parts, and descriptions that only say the field's name."""
    if not isinstance(schema, Mapping):
        return schema
    kept = {k: v for k, v in schema.items() if k not in ("default", "title") and v not in ({}, [])}
    if _normalize_text(kept.get("description", "")) in ("", _normalize_text(name)):
        kept.pop("description", None)
    if "properties" in kept:
        kept["properties"] = _outline_fields(kept["properties"])
    if "anyOf" in kept:
        kept["anyOf"] = [_compact_schema(branch, name) for branch in kept["anyOf"]]
    inner = kept.keys() & {"items", "additionalProperties"}
    return {k: _compact_schema(v, name) if k in inner else v for k, v in kept.items()}


def _normalize_text(text: str) -> str:
    return text.replace("_", " ").strip().casefold()


# What a call is given.


def find_open_problems(schema: Schema, args: object, *, named: bool = False) -> list[str]:
    """Everything that will not fit the schema whatever the references stand for.

    That includes arguments that the schema does not name: most tools would drop them silently.
    With `named` the tool takes only what its schema names, even if that is nothing.
    """
    if not isinstance(args, dict):
        return [say("arguments_of_step_no_object", kind=type(args).__name__)]
    if unsafe := find_unsafe_part(args):
        return [unsafe.rstrip(".")]
    fitted = fit(args, schema)
    problems = problems_of(_OpenValidator(schema).iter_errors(map_texts(fitted, _mark_references)))
    if named and not schema.get("properties") and "additionalProperties" not in schema:
        return problems + [say("argument_of_none", name=repr(shorten_text(n))) for n in fitted]
    return problems + list(_find_unnamed(fitted, schema, ""))


def _find_unnamed(value: Any, schema: Any, place: str) -> Iterator[str]:
    """What of a value its schema does not name, at any depth; of alternatives nothing is said."""
    # Of a value that may also be null, the other schema; nothing where there is a choice.
    rules = schema if isinstance(schema, Mapping) else {}
    if branches := [b for b in rules.get("anyOf", ()) if b.get("type") != "null"]:
        rules = branches[0] if len(branches) == 1 else {}
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_unnamed(item, rules.get("items"), f"{place}{index}.")
    fields = rules.get("properties")
    if not (isinstance(value, dict) and fields):
        return
    closed = "additionalProperties" not in rules
    for name, item in value.items():
        if name in fields:
            yield from _find_unnamed(item, fields[name], f"{place}{name}.")
        elif closed:
            yield explain_unknown_name("argument", f"{place}{name}", name, fields)


def explain_unknown_name(kind: str, shown: str, name: str, known: Iterable[str]) -> str:
    """The problem with a field or an argument that does not exist; names the nearest one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    told = repr(near[0]) if near else list_names(names)
    end = "near" if near else "known"
    return say(f"unknown_{kind}_{end}", name=repr(shorten_text(shown)), known=told)


class _Open(UserString):
    """A value that a whole reference stands for; no text, as far as a schema is asked."""


class _OpenText(str):
    """A text of which only parts are known."""

    __slots__ = ()


def _mark_references(value: str) -> Any:
    """A text with its references marked, and escaped braces as they will be sent."""
    if OPEN not in value:
        return value
    if is_whole(value):
        return _Open(value)
    try:  # a malformed reference is some text as well: what is wrong with it is said elsewhere
        return (
            _OpenText(value) if find_references(value) else str(resolve_references(value, {}, {}))
        )
    except MissingValue:
        return _OpenText(value)


def _is_open(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_is_open, value.values() if isinstance(value, dict) else value))
    return isinstance(value, _Open | _OpenText)


def _make_sparing_keyword(
    keyword: str, spared: Callable[[Any], bool]
) -> Callable[..., Iterable[Any] | None]:
    """A keyword of JSON schema that has nothing to say about these values."""
    check = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def check_keyword(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        return () if spared(value) else check(validator, wanted, value, schema)

    return check_keyword


# All other keywords ask for a type first, or look at each part of a value by itself.
_SPARED: Final[dict[str, Callable[[Any], bool]]] = {
    "type": lambda value: isinstance(value, _Open),
    **dict.fromkeys(
        ("minLength", "maxLength", "pattern", "format"), lambda v: isinstance(v, _OpenText)
    ),
    **dict.fromkeys(("enum", "const", "not", "if", "oneOf", "contains", "uniqueItems"), _is_open),
}
_OpenValidator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {word: _make_sparing_keyword(word, of) for word, of in _SPARED.items()},
)


# What a reference reads of a result.

_FOLLOWED: Final = 8
# A field may come from any of these, and no finding is better than a wrong one.
_OPEN_ENDED: Final = frozenset(
    {"anyOf", "oneOf", "allOf", "if", "patternProperties", "dependentSchemas", "$dynamicRef"}
)


def explain_missing_field(reference: Reference, output: Schema) -> str:
    """Why a result of this schema cannot have the field a reference reads; '' where it may.

    Only a schema that lists its fields and does not say that there may be others counts.
    """
    node: Any = output
    path = reference.path
    if path[:1] in WHOLE and path[0] not in (_follow_refs(output, output).get("properties") or {}):
        path = path[1:]
    for part in path:
        node = _follow_refs(node, output)
        named = node.get("properties")
        fields = named if isinstance(named, dict) else {}
        is_closed = fields and node.get("additionalProperties", False) is False
        if is_closed and str(part) not in fields:
            return _explain_no_field(reference, str(part), fields)
        node = follow_field(node, output, part)
    return ""


_CLOSED: Final = {"number": "number", "integer": "number", "boolean": "enum", "null": "enum"}
_DATES: Final = ("date", "date-time", "time")


def find_closed_kind(output: Schema, path: Sequence[str | int]) -> str:
    """What a part of a result can only be: enum, number, date, id; "" if it may be any text."""
    node: Any = output
    for part in path:
        node = follow_field(node, output, part)
    node = _follow_refs(node, output)
    for _ in range(_FOLLOWED):
        if {"enum", "const"} & node.keys():
            return "enum"
        if node.get("type") == "string":
            is_date, is_id = node.get("format") in _DATES, {"format", "pattern"} & node.keys()
            return "date" if is_date else "id" if is_id else ""
        if node.get("type") != "array":
            break
        node = _follow_refs(node.get("items"), output)
    return _CLOSED.get(str(node.get("type")), "")


def follow_field(node: Any, root: Schema, part: str | int) -> Any:
    """The schema of a declared field or of a list's items; None where there is none."""
    node = _follow_refs(node, root)
    fields = node.get("properties")
    if isinstance(fields, dict) and str(part) in fields:
        return fields[str(part)]
    is_list = fields is None and "prefixItems" not in node
    return node.get("items") if is_list and str(part).lstrip("-").isdigit() else None


def _follow_refs(node: Any, root: Schema) -> dict[str, Any]:
    """The schema a node stands for; nothing where it leaves open what that is."""
    for _ in range(_FOLLOWED):
        if not isinstance(node, dict) or not _OPEN_ENDED.isdisjoint(node):
            return {}
        if "$ref" not in node:
            return node
        if not isinstance(node["$ref"], str) or "properties" in node:
            return {}
        node = resolve_reference(root, node["$ref"])
    return {}


def _explain_no_field(reference: Reference, name: str, names: Iterable[str]) -> str:
    near, joint = difflib.get_close_matches(name, list(names), n=3), say("or")
    return say(
        "field_missing_near" if near else "field_missing_known",
        reference=reference, step=repr(reference.root), field=repr(name),
        near=f" {joint} ".join(map(repr, near)), known=list_names(names),
    )  # fmt: skip
