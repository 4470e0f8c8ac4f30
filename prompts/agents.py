"""Agents as Markdown files: front matter, as Claude Code, gemini-cli and deepagents have it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from ..state.agent import AgentDefinition
from ..state.errors import SettingsError
from ..state.limits import read_file
from ..state.roles import TIERS
from .instructions import read_front_matter

_OWN: Final = frozenset({
    "name", "description", "display_name", "tier", "temperature", "output_name", "output", "input",
    "lenient", "limits", "mcp", "read_only", "output_alone", "questions",
})  # fmt: skip
_LISTS: Final = frozenset({"tools", "agents"})
_LIMITS: Final[Mapping[str, tuple[str, float]]] = {
    "max_turns": ("turns", 1),
    "timeout_mins": ("seconds", 60),
    "max_time_minutes": ("seconds", 60),
}
"""Key of other systems to the limit it is, and how many of its units are one."""
_TIERS: Final = {"haiku": "fast", "flash": "fast", "sonnet": "balanced", "opus": "powerful"}
SHIPPED: Final = Path(__file__).parent / "shipped"
"""The agents that ship with the package, each in the file of its name."""
_NOT_KEPT: Final = frozenset({"disallowed_tools"})
"""What would only seem to be forbidden."""


def read_agent(path: str | Path) -> AgentDefinition:
    """The agent that a file describes; its text is the prompt.

    Keys that are not understood become `warnings`, which every outcome has.

    Raises:
        SettingsError: The file cannot be read, or describes no agent.
    """
    try:
        fields, text = read_front_matter(read_file(Path(path), "agent"))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"The agent file {path} cannot be read ({error}); check the path."
        raise SettingsError(msg) from error
    except ValueError as error:
        msg = f"The agent file {path} {error}."
        raise SettingsError(msg) from error
    found = {to_snake(key.replace("-", "_")): value for key, value in fields.items()}
    if barred := sorted(found.keys() & _NOT_KEPT):
        msg = f"The agent file {path} has {barred[0]}: list the tools it may call under tools."
        raise SettingsError(msg)
    if found.pop("kind", "local") != "local":
        msg = f"The agent file {path} is of another kind than local: such agents cannot be run."
        raise SettingsError(msg)
    given, notes = _read_fields(found)
    warnings = tuple(f"The agent file {path}: {note}." for note in notes)
    try:
        return AgentDefinition(**given, prompt=text.strip(), warnings=warnings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        msg = f"The agent file {path}: {where}: {first['msg']}."
        raise SettingsError(msg) from error


def _read_fields(found: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of a definition, and what of the file is not understood."""
    given: dict[str, Any] = {key: found.pop(key) for key in _OWN & found.keys()}
    notes: list[str] = []
    for key in _LISTS & found.keys():
        given[key] = _read_names(found.pop(key), notes.append)
    if "mcp_servers" in found:
        given["mcp"] = {"mcpServers": found.pop("mcp_servers")}
    if "model" in found and (tier := _read_tier(found.pop("model"), notes.append)):
        given.setdefault("tier", tier)
    own = given.get("limits") or {}
    given["limits"] = _read_limits(found) | own if isinstance(own, dict) else own
    return given, notes + [f"{key} is not known and counts for nothing" for key in sorted(found)]


def codebase_investigator() -> AgentDefinition:
    """The agent that ships with the package: it reads a codebase, and reports how it works.

    Of the graph's tools it has those that declare to be read-only; 15 turns, 5 minutes.
    """
    return read_agent(SHIPPED / "codebase_investigator.md")


def desk_agents() -> tuple[AgentDefinition, ...]:
    """The agents that ship for customer_service: they search and look into cases, and only read."""
    names = ("knowledge_base", "refund_expert", "technical_expert")
    return tuple(read_agent(SHIPPED / f"{name}.md") for name in names)


def load_agent(given: AgentDefinition | str | Path) -> AgentDefinition:
    """A definition, or the one that a file of this path holds; see `read_agent`."""
    return given if isinstance(given, AgentDefinition) else read_agent(given)


def _read_names(value: object, note: Callable[[str], None]) -> tuple[str, ...] | None:
    """Names as a list or with commas between; `*` or nothing means all."""
    items = value.split(",") if isinstance(value, str) else value
    if items is None:
        return None
    if not isinstance(items, list):
        return (str(items),)
    names = [str(item).strip() for item in items if str(item).strip()]
    for name in (name for name in names if "(" in name):
        note(f"of {name} only the tool's name counts; write a rule of the policy for the rest")
    bare = tuple(name.partition("(")[0] for name in names)
    return None if bare == ("*",) else bare


def _read_tier(model: object, note: Callable[[str], None]) -> str:
    """The tier that a model's name stands for; other names are the operator's to give."""
    name = str(model or "inherit")
    if name == "inherit" or name in TIERS:
        return "" if name == "inherit" else name
    for word, tier in _TIERS.items():
        if word in name:
            return tier
    note(f"model {name} counts for nothing: name models for the run, here say tier: fast, …")
    return ""


def _read_limits(found: dict[str, Any]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for key in _LIMITS.keys() & found.keys():
        name, unit = _LIMITS[key]
        value = found.pop(key)
        limits[name] = value * unit if isinstance(value, int | float) else value
    return limits
