"""What sort of value each argument of a tool takes."""

import re
from typing import Any, Final

from .tools import Parameter, Tool
from .words import stems

_URL: Final = stems("url uri link href website webpage")


_MAIL: Final = stems("email mail recipient recipients attendee attendees cc")


_ZONE: Final = stems("timezone tz zone")


_PATH: Final = stems("path paths file files filename filepath dir directory folder cwd root")


_ENDS: Final = stems("source destination src dest dst target")


_QUERY: Final = stems(
    "query search q keyword keywords term terms needle pattern regex phrase topic question"
)


_TEXT: Final = stems(
    "content contents body text message comment note description summary data insight reason "
    "prompt script observation observations fact feedback"
)


_DATE: Final = stems("date day since until before after timestamp deadline due start end when")


_ORDER: Final = (
    "enum",
    "url",
    "email",
    "zone",
    "sql",
    "glob",
    "path",
    "date",
    "time",
    "number",
    "boolean",
    "text",
    "query",
    "name",
    "array",
    "object",
)


def kind_of(parameter: Parameter, tool: Tool) -> str:
    """What sort of value an argument takes, by type, format, name and description."""
    schema, about = parameter.schema, parameter.about
    kind = str(schema.get("type", "string"))
    if schema.get("enum") or "const" in schema:
        return "enum"
    if kind in ("array", "object", "boolean"):
        return kind
    if kind in ("integer", "number"):
        return "number"
    return _by_format(schema) or _by_words(set(parameter.name_words), about, tool)


def _by_format(schema: Any) -> str:
    formats = {
        "uri": "url",
        "url": "url",
        "email": "email",
        "date": "date",
        "date-time": "date",
        "time": "time",
    }
    return formats.get(str(schema.get("format", "")), "")


def _by_words(named: set[str], about: str, tool: Tool) -> str:
    purpose = f"{tool.name} {tool.description}".lower()
    files = bool(
        {"file", "directory", "folder", "directories"} & set(re.findall(r"[a-z]+", purpose))
    )
    tests: tuple[tuple[bool, str], ...] = (
        (bool(named & _URL), "url"),
        (bool(named & _ZONE) or "iana" in about, "zone"),
        (bool(named & _MAIL) and "name" not in named, "email"),
        (
            "sql" in named
            or (bool(named & _QUERY | named & {"statement"}) and "sql" in f"{about} {purpose}"),
            "sql",
        ),
        (
            bool(named & {"pattern", "glob"})
            and "regular expression" not in about
            and ("glob" in f"{about} {purpose}" or "*." in about),
            "glob",
        ),
        (bool(named & _PATH) or (bool(named & _ENDS) and files), "path"),
        (bool(named & _DATE) and "time" not in named, "date"),
        (bool(named & {"time"}) or "hh:mm" in about, "time"),
        (bool(named & _TEXT) and "id" not in named and "name" not in named, "text"),
        (bool(named & _QUERY), "query"),
    )
    return next((kind for holds, kind in tests if holds), "name")


def in_order(tool: Tool) -> list[tuple[Parameter, str]]:
    """The arguments with their kinds: required before optional, particular before general."""
    kinds = [(parameter, kind_of(parameter, tool)) for parameter in tool.parameters]
    return sorted(
        kinds, key=lambda item: (not item[0].required, _ORDER.index(_inner(item[0], item[1], tool)))
    )


def _inner(parameter: Parameter, kind: str, tool: Tool) -> str:
    """For a list of texts 'text', so that it is filled before names are; else the kind itself."""
    items = parameter.schema.get("items") if kind == "array" else None
    plain = isinstance(items, dict) and items.get("type") not in ("object", "array")
    return (
        "text"
        if plain and _by_words(set(parameter.name_words), parameter.about, tool) == "text"
        else kind
    )
