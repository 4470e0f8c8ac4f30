"""Fills the arguments of a tool from a clause by their schemas, and from earlier results. Pure."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from .clauses import Value, stem, stems, values, wanted, words

_MOST_CALLS: Final = 10
_PATHS: Final = stems("path file filename folder directory dir uri url link")
_INSIDE: Final = stems("in inside into under")
# The kinds of values that an argument may take, best first.
_KINDS: Final[Mapping[str, Sequence[str]]] = {
    "path": ("path", "name", "text"),
    "string": ("text", "path", "name"),
    "integer": ("number",),
    "number": ("number",),
}
_POINTS_BACK: Final = re.compile(r"\b(?:it|them|this|that|these|those|results?)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool; of a string that names a file or an address the kind is 'path'."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    kind: str


def read_parameters(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Read the parameters of a tool from the schema of its arguments."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return tuple(_parameter(name, inner, name in required) for name, inner in properties.items())


def _parameter(name: str, schema: Any, required: bool) -> Parameter:
    schema = schema if isinstance(schema, Mapping) else {}
    for branch in schema.get("anyOf", ()):  # mostly a type, or null
        schema = {**schema, **branch} if branch.get("type") != "null" else schema
    kind = str(schema.get("type", "string"))
    if kind == "string" and not _PATHS.isdisjoint(words(name)):
        kind = "path"
    return Parameter(name, schema, required and "default" not in schema, kind)


def fill(
    clause: str, parameters: Sequence[Parameter], told: Set[str], results: Sequence[str]
) -> tuple[list[dict[str, Any]], str]:
    """The argument sets for the calls of a tool, and what is wrong with them, '' if nothing is.

    Several values of a sort, 'a.md and b.md', make several calls. What the tool's own words have
    `told` of is no name of a thing.
    """
    left = [v for v in values(clause) if v.kind != "name" or stem(v.text) not in told]
    arguments: dict[str, Any] = {}
    used: dict[str, Value] = {}
    # Paths first: whatever takes any text would take them, too.
    for parameter in sorted(parameters, key=lambda p: (p.kind != "path", not p.required)):
        if (value := _best(parameter, left)) is not None:
            left.remove(value)
            used[parameter.name] = value
            arguments[parameter.name] = _typed(value, parameter, results)
        elif (said := _said(parameter, clause, results)) is not None:
            arguments[parameter.name] = said
        elif parameter.required:
            return [], f"nothing gives a value for {parameter.name!r}"
    calls = [arguments]
    for name, value in used.items():
        more = [v for v in left if v.kind == value.kind != "name"][: _MOST_CALLS - len(calls)]
        left = [v for v in left if v not in more]
        calls += [{**arguments, name: _resolved(v.text, results)} for v in more]
    unused = [repr(value.text) for value in left if value.kind != "name"]
    return calls, f"it has no place for {', '.join(unused)}" if unused else ""


def _best(parameter: Parameter, left: Sequence[Value]) -> Value | None:
    """The value for an argument; where nothing demands one, it must stand behind its name."""
    kinds = () if "enum" in parameter.schema else _KINDS.get(parameter.kind, ())
    fits = [value for kind in kinds for value in left if value.kind == kind]
    named = [value for value in fits if value.before in words(parameter.name)]
    clear = [v for v in fits if parameter.required or _is_place(v, parameter)]
    return next(iter([*named, *clear]), None)


def _is_place(value: Value, parameter: Parameter) -> bool:
    """Whether it says where, so that a path which nothing demands is given all the same."""
    inside = value.kind == "name" and value.before in _INSIDE
    return parameter.kind == "path" and (value.kind == "path" or inside)


def _typed(value: Value, parameter: Parameter, results: Sequence[str]) -> Any:
    if value.kind == "number":
        number = float(value.text)
        return int(number) if number.is_integer() else number
    return _resolved(value.text, results) if parameter.kind == "path" else value.text


def _said(parameter: Parameter, clause: str, results: Sequence[str]) -> Any:
    """What the words of a clause say of an argument: an option, a switch, or 'it'."""
    asked, options = set(wanted(clause)), parameter.schema.get("enum")
    if isinstance(options, list):
        return next((option for option in options if asked & set(words(str(option)))), None)
    if parameter.kind == "boolean":
        return True if asked and asked.issuperset(words(parameter.name)) else None
    points_back = parameter.required and parameter.kind == "string" and _POINTS_BACK.search(clause)
    return results[-1] if points_back and results else None


def _resolved(path: str, results: Sequence[str]) -> str:
    """The path under which an earlier result knows a file of this name; else as it is."""
    if "/" in path or "*" in path:
        return path
    known = re.compile(rf"(?<![\w~./-])[\w~.-]*(?:/[\w~.-]+)*/{re.escape(path)}(?![\w/-])")
    found = (known.search(result) for result in reversed(results))
    return next((match[0] for match in found if match), path)
