"""One better argument set after a call failed, from the words of its error."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .arguments import typed, values_for
from .clause import Clause
from .kinds import in_order
from .tools import Parameter, Tool


def corrected(
    tool: Tool, arguments: Mapping[str, Any], error: str, clause: Clause
) -> dict[str, Any] | None:
    """One better argument set that the error's own words suggest, or None."""
    error = error[:4_000]
    for change in (_allowed_value, _suggested_path, _named_argument, _other_type):
        better = change(tool, arguments, error, clause)
        if better is not None and better != arguments:
            return better
    return None


def _allowed_value(
    _tool: Tool, arguments: Mapping[str, Any], error: str, clause: Clause
) -> dict[str, Any] | None:
    listed = re.search(
        r"(?is)(?:one of|allowed|valid|available|known|expected|did you mean|choose|supported|"
        r"options)\b(.*)",
        error,
    )
    if not listed:
        return None
    options = re.findall(r"['\"`]([^'\"`\n]{1,80})['\"`]", listed[1]) or re.findall(
        r"[\w./-]{2,80}", listed[1]
    )
    for name, value in arguments.items():
        if not isinstance(value, str) or not re.search(
            rf"(?i){re.escape(value)}|\b{re.escape(name)}\b", error
        ):
            continue
        others = [
            option for option in options if option != value and option.lower() != name.lower()
        ]
        said = [
            option
            for option in others
            if re.search(rf"(?i)(?<!\w){re.escape(option)}(?!\w)", clause.text)
        ]
        choice = said[0] if said else closest(value, others)
        if choice:
            return {**arguments, name: choice}
    return None


def _suggested_path(
    tool: Tool, arguments: Mapping[str, Any], error: str, _clause: Clause
) -> dict[str, Any] | None:
    told = [
        match.rstrip(".,:")
        for match in re.findall(r"(?<![\w.])(?:/[\w.@+-]+)+|[A-Z]:\\[\w.\\-]+", error)
    ]
    for parameter, kind in in_order(tool):
        value = arguments.get(parameter.name)
        if kind != "path" or not isinstance(value, str):
            continue
        for path in told:
            inner = value.removeprefix("./").strip("/")
            if path in (value, f"/{inner}") or (
                path.endswith(f"/{inner}") and inner not in (".", "")
            ):
                continue
            ends_here = inner in (".", "") and any(
                other != path and other.endswith("/") for other in told
            )
            if not ends_here and not _is_own_folder(path, error, value):
                return {
                    **arguments,
                    parameter.name: path if inner in (".", "") else f"{path.rstrip('/')}/{inner}",
                }
    return None


def _is_own_folder(path: str, error: str, value: str) -> bool:
    """Whether an error's path only spells out the one that was refused."""
    outside = re.search(
        rf"(?i)(?:outside|not in|not within|allowed)[^\n]*?{re.escape(path)}", error
    )
    before = error.split(path)[0].lower()
    refused = re.search(r"(?:access denied|denied|outside)[^/]*$", before) and not re.search(
        r"(?:not in|allowed \S+|under|within)[^/]*$", before
    )
    return not outside or bool(refused and value in (".", ""))


def _named_argument(
    tool: Tool, arguments: Mapping[str, Any], error: str, clause: Clause
) -> dict[str, Any] | None:
    """An optional argument the error asks for, if the clause gives one."""
    if not re.search(r"(?i)required|missing|must (?:give|provide|be given|specify)", error):
        return None
    for parameter, kind in in_order(tool):
        if parameter.name in arguments or not re.search(rf"\b{re.escape(parameter.name)}\b", error):
            continue
        wanted = Parameter(parameter.name, parameter.schema, required=True)
        found = values_for(Clause(clause.text, clause.known), wanted, kind, tool)
        if found:
            return {**arguments, parameter.name: typed(found[0].value, parameter)}
    return None


def _other_type(
    _tool: Tool, arguments: Mapping[str, Any], error: str, _clause: Clause
) -> dict[str, Any] | None:
    """A number as text or a text as number, where the error says which it wants."""
    for name, value in arguments.items():
        if not re.search(rf"\b{re.escape(name)}\b", error):
            continue
        if isinstance(value, int | float) and re.search(r"(?i)\bstring\b", error):
            return {**arguments, name: str(value)}
        if (
            isinstance(value, str)
            and re.fullmatch(r"-?\d+", value)
            and re.search(r"(?i)\b(?:integer|number)\b", error)
        ):
            return {**arguments, name: int(value)}
        if isinstance(value, str) and re.search(r"(?i)\b(?:array|list)\b", error):
            return {**arguments, name: [value]}
    return None


def closest(wanted: str, options: Iterable[str]) -> str | None:
    """The option nearest in spelling to a value that was refused."""
    lowered = {option.lower(): option for option in options}
    near = difflib.get_close_matches(wanted.lower(), list(lowered), n=1, cutoff=0.5)
    return lowered[near[0]] if near else None
