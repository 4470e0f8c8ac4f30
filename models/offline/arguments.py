"""Fills the arguments of a tool from a clause, by schema; several items give several calls."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .clause import Clause
from .kinds import in_order, kind_of
from .known import Known
from .literals import Given
from .tools import Parameter, Tool
from .values import FINDERS

# Kinds whose further values in the clause mean further calls ("read a.md and b.md").
_REPEATS: Final = ("zone", "path", "url", "email", "query", "name", "enum")
# Values that are guesses; an object is never put together from them.
_LOOSE: Final = ("default", "told", "phrase", "item")
_SURE: Final = ("path", "glob", "url", "email", "zone", "date", "time", "number", "enum", "boolean")
MOST_CALLS: Final = 10


@dataclass(frozen=True)
class Filled:
    """Argument sets for one tool, what is missing, and how many literals of the clause are used."""

    calls: tuple[dict[str, Any], ...]
    missing: tuple[tuple[Parameter, str], ...] = ()
    used: int = 0
    unused: int = 0
    guessed: int = 0

    @property
    def unwritten(self) -> list[str]:
        """Missing arguments that want text or SQL, which is never made up."""
        return [
            parameter.name for parameter, kind in self.missing if kind in ("text", "sql", "object")
        ]


def fill(tool: Tool, text: str, known: Known) -> Filled:
    """Fill a tool's arguments from the text of a clause and from earlier results."""
    clause = Clause(text, known)
    arguments: dict[str, Any] = {}
    first: dict[str, tuple[Given, str]] = {}
    missing, guessed = [], 0
    for parameter, kind in in_order(tool):
        values = values_for(clause, parameter, kind, tool)
        if values:
            arguments[parameter.name] = typed(values[0].value, parameter)
            clause.used |= _places(values[0])
            guessed += _GUESSED.get(values[0].kind, 0)
            first[parameter.name] = (values[0], kind)
        elif kind in ("array", "object") and (parameter.required or kind == "array"):
            nested = _nested(clause, parameter, tool)
            if nested is not None:
                arguments[parameter.name] = nested
                continue
        if (
            parameter.required
            and parameter.name not in arguments
            and "default" not in parameter.schema
        ):
            missing.append((parameter, _wanted_kind(parameter, kind)))
    sets = [arguments, *_repeats(clause, tool, first, arguments)]
    strong = [item for item in clause.given if item.kind not in ("number", "date", "code")]
    from_types = [value for value, kind in first.values() if kind == "glob" and value.start >= 0]
    used = [item for item in {*strong, *clause.zones, *from_types} if _places(item) & clause.used]
    left = [item for item in strong if not _places(item) & clause.used]
    return Filled(tuple(sets), tuple(missing), len(used), len(left), guessed)


def _wanted_kind(parameter: Parameter, kind: str) -> str:
    """A list of objects or texts is as impossible to make up as one of them."""
    items = parameter.schema.get("items") if kind == "array" else None
    inner = isinstance(items, Mapping) and items.get("type") == "object"
    return "object" if inner else kind


_GUESSED: Final = {"default": 1, "phrase": 1, "misfit": 8}


def _repeats(
    clause: Clause, tool: Tool, first: Mapping[str, tuple[Given, str]], arguments: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Argument sets for further values of one argument that nothing else used."""
    for parameter in tool.parameters:
        value, kind = first.get(parameter.name, (None, ""))
        if value is None or not (parameter.required or kind in ("path", "zone")):
            continue
        more = _further([value, *values_for(clause, parameter, kind, tool)], kind)[: MOST_CALLS - 1]
        for other in more:
            clause.used |= _places(other)
        if more:
            return [{**arguments, parameter.name: other.value} for other in more]
    return []


def _places(value: Given) -> set[int]:
    return (
        set(range(value.start, min(value.end, value.start + 2_000))) if value.start >= 0 else set()
    )


def values_for(clause: Clause, parameter: Parameter, kind: str, tool: Tool) -> list[Given]:
    """Unused values for one argument, best first; optional arguments take only what is clear."""
    finder = FINDERS.get(kind)
    if finder is None:
        return []
    if parameter.required and kind in ("path", "url", "email", "name") and refers_back(clause.bare):
        meant = _meant(clause, parameter, kind, tool)
        if meant:
            return meant
    found = [value for value in finder(clause, parameter, tool) if not _places(value) & clause.used]
    if parameter.required:
        return found
    if kind in _SURE:
        return [value for value in found if value.kind != "default"]
    if kind == "name":
        return [value for value in found if value.kind in ("labelled", "shaped", "option")]
    return [value for value in found if _introduced(clause, parameter, value)]


_REFERS: Final = re.compile(
    r"(?i)\b(?:it|that one|this one|(?:the|that|this) (?:same )?(?:file|page|one)|the same)\b"
)


def refers_back(text: str) -> bool:
    """Whether a clause speaks of a thing that an earlier one named: 'show it', 'the same file'."""
    return bool(_REFERS.search(text))


def _meant(clause: Clause, parameter: Parameter, kind: str, tool: Tool) -> list[Given]:
    """For 'it': the value the newest earlier clause gives for such an argument."""
    if (
        any(item.kind in ("path", "url", "email", "quoted", "id") for item in clause.given)
        or not clause.known.results
    ):
        return []
    about = Clause(clause.known.results[-1][0], Known(clause.known.results[:-1]))
    found = [
        value
        for value in FINDERS[kind](about, parameter, tool)
        if value.kind not in _LOOSE and value.start >= 0
    ]
    return [Given("meant", found[0].value, -1, -1)] if found else []


def _introduced(clause: Clause, parameter: Parameter, value: Given) -> bool:
    """Whether the clause names the argument just before the value."""
    return value.start >= 0 and bool(set(parameter.name_words) & set(clause.before(value, 3)))


def _further(values: list[Given], kind: str) -> list[Given]:
    """Other values of the same sort as the first one: each wants a call of its own."""
    first = values[0]
    if kind not in _REPEATS or first.kind not in _REPEATED:
        return []
    others = {
        value.value: value
        for value in values[1:]
        if value.kind == first.kind and value.value != first.value
    }
    return list(others.values())


_REPEATED: Final = (
    "zone",
    "path",
    "url",
    "email",
    "quoted",
    "code",
    "id",
    "proper",
    "shaped",
    "option",
    "number",
    "item",
)


def typed(value: str, parameter: Parameter) -> Any:
    """A text as the JSON type that the argument's schema names."""
    kind = parameter.schema.get("type")
    if kind == "boolean":
        return value == "true"
    if kind in ("integer", "number"):
        number = float(value.replace("\N{MINUS SIGN}", "-"))
        return int(number) if number.is_integer() else number
    return value


def _nested(clause: Clause, parameter: Parameter, tool: Tool) -> Any:
    """A list or an object from the clause, or None where it gives too little."""
    schema = parameter.schema
    if schema.get("type") == "object":
        return _object(clause, schema, tool)
    items = schema.get("items")
    item = Parameter(
        parameter.name, items if isinstance(items, Mapping) else {}, parameter.required
    )
    if item.schema.get("type") in ("object", "array"):
        value = _nested(clause, item, tool)
        return None if value is None else [value]
    about = Parameter(
        item.name, {**item.schema, "description": schema.get("description", "")}, parameter.required
    )
    values = values_for(clause, about, kind_of(about, tool), tool)
    values = [value for value in values if value.kind != "default"]
    firm = [value for value in values if value.kind != "phrase"] or values[:1]
    named = [
        value
        for value in firm
        if value.kind in ("quoted", "code") and _introduced(clause, about, value)
    ]
    firm = named or firm
    for value in firm:
        clause.used |= _places(value)
    return list(dict.fromkeys(typed(value.value, item) for value in firm)) or None


def _object(clause: Clause, schema: Mapping[str, Any], tool: Tool) -> dict[str, Any] | None:
    """An object as JSON in the clause, or put together from its values; None if not whole."""
    properties = schema.get("properties")
    literal = _json_object(clause)
    if literal is not None or not isinstance(properties, Mapping):
        return literal
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    parameters = tuple(
        Parameter(name, value if isinstance(value, Mapping) else {}, name in required)
        for name, value in properties.items()
    )
    part = replace(tool, parameters=parameters)
    found = {
        parameter.name: _part(clause, parameter, kind, part) for parameter, kind in in_order(part)
    }
    found = {name: value for name, value in found.items() if value is not None}
    return found if found and all(name in found for name in required) else None


def _part(clause: Clause, parameter: Parameter, kind: str, part: Tool) -> Any:
    """One value inside an object, or None; guesses do not count."""
    found = [v for v in values_for(clause, parameter, kind, part) if v.kind not in _LOOSE]
    if found:
        clause.used |= _places(found[0])
        return typed(found[0].value, parameter)
    return _nested(clause, parameter, part) if kind in ("array", "object") else None


def _json_object(clause: Clause) -> dict[str, Any] | None:
    for item in clause.of("code", "quoted"):
        if item.value.strip().startswith("{"):
            try:
                value = json.loads(item.value)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
    return None
