"""What a tool says of itself, and how far it counts: hints, and what its server asks about."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, get_args

from ..policy.origins import Origin
from ..state.errors import SettingsError
from ..text.words import find_pattern_error
from .mcp.config import ServerConfig

Said = dict[tuple[str, str], tuple[dict[str, bool], dict[str, str]]]
"""By server and tool: the strictest hints that it gave, and what it wants to be asked about."""

_MOST_SAID: Final = 50_000
_MOST_ASKS: Final = 64
_UNSAID: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False}


def hold_to_word(
    config: ServerConfig, original: str, flags: Mapping[str, Any], asks: dict[str, str], said: Said
) -> tuple[dict[str, Any], dict[str, str]]:
    """What a server that nobody vouches for says of a tool, as far as it counts.

    Later words of it may make a tool stricter, never freer; those of one that is not believed
    never make it freer.
    """
    key, claimed = (config.name, original), dict(flags["declared"])
    hints = claimed
    if not config.is_believed or (key not in said and len(said) >= _MOST_SAID):
        hints = {name: value for name, value in claimed.items() if name == "destructiveHint"}
    if key in said:
        before, wanted = said[key]
        merged = _merge_hints([_UNSAID | before, _UNSAID | hints])
        hints = {name: value for name, value in merged.items() if value or name in hints}
        differs = {path: "" for path in wanted if asks.get(path, wanted[path]) != wanted[path]}
        asks = {**asks, **wanted, **differs}
        asks = asks if len(asks) <= _MOST_ASKS else {"": ""}  # about every call
    if key in said or len(said) < _MOST_SAID:
        said[key] = hints, asks
    counted = read_flags(hints)
    # A server that nobody vouches for may say that it reaches further, not that it does not.
    held: dict[str, Any] = {"open_world": flags["open_world"] or None}
    held |= {name: counted[name] for name in ("read_only", "destructive", "idempotent", "declared")}
    return {**flags, **held, "claimed": claimed}, asks


def read_asks(meta: object) -> dict[str, str]:
    """The arguments a server wants to be asked about; an invalid pattern asks about all."""
    asks = meta.get("loopwright/asks") if isinstance(meta, Mapping) else None
    if not isinstance(asks, Mapping):
        return {}
    patterns = {str(path): str(pattern) for path, pattern in asks.items()}
    return {
        path: "" if find_pattern_error(pattern) else pattern for path, pattern in patterns.items()
    }


_HINTS: Final = {
    "readOnlyHint": "read_only_hint",
    "destructiveHint": "destructive_hint",
    "idempotentHint": "idempotent_hint",
}


def read_flags(declared: object) -> dict[str, Any]:
    """The fields of a `CatalogTool` that a tool's MCP hints, `cacheable` and `repeatable` set.

    A tool that declares nothing is a write. Of contradicting hints the stricter one counts.
    """
    places = _find_declarations(declared)
    hints = _merge_hints(places)
    read_only = hints.get("readOnlyHint", False)
    reaches = _list_flags(places, "openWorldHint", "open_world_hint")
    return {
        "read_only": read_only,
        "destructive": hints.get("destructiveHint", False),
        "idempotent": read_only or hints.get("idempotentHint", False),
        "declared": hints,
        "cacheable": not any(place.get("cacheable") is False for place in places),
        "polls": any(place.get("repeatable") is True for place in places),
        "open_world": any(reaches) if reaches else None,
    }


def read_origin(declared: object, whose: str) -> dict[str, Any]:
    """What the operator says of a tool's results and arguments, as fields of a `CatalogTool`.

    Raises:
        SettingsError: `origin` is no such word, or `sinks` no list of names.
    """
    said = declared if isinstance(declared, Mapping) else {}
    origin, sinks = said.get("origin") or "", said.get("sinks")
    if origin not in get_args(Origin):
        msg = f"{whose}: origin is trusted or foreign, not {origin!r}."
        raise SettingsError(msg)
    if sinks is not None and (isinstance(sinks, str) or not isinstance(sinks, Sequence)):
        msg = f"{whose}: sinks is a list of names of arguments, not {sinks!r}."
        raise SettingsError(msg)
    return {
        "origin": origin,
        "sinks": None if sinks is None else tuple(map(str, sinks)),
        "confidential": said.get("confidential") is True,
    }


def _merge_hints(places: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Each hint that is declared anywhere; the stricter value wins, and destroying is no read."""
    hints: dict[str, bool] = {}
    for key, spelled in _HINTS.items():
        if flags := _list_flags(places, key, spelled):
            hints[key] = any(flags) if key == "destructiveHint" else all(flags)
    if hints.get("destructiveHint") and hints.get("readOnlyHint"):
        hints["readOnlyHint"] = False
    return hints


def _list_flags(places: Sequence[Mapping[str, Any]], *keys: str) -> list[bool]:
    """What is declared under any of these keys."""
    values = (place.get(key) for place in places for key in keys)
    return [value for value in values if isinstance(value, bool)]


def _find_declarations(declared: object) -> list[Mapping[str, Any]]:
    """The declarations of a tool, also where LangChain's two MCP adapters nest them."""
    if not isinstance(declared, Mapping):
        return []
    nested = (_find_declarations(declared.get(key)) for key in ("annotations", "mcp", "tool"))
    return [declared, *chain.from_iterable(nested)]
