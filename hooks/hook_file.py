"""Files of hooks, in the format of Claude Code and gemini-cli: one command each."""

import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from ..state.errors import SettingsError
from ..state.limits import read_file
from .commands import command_hook
from .contract import EVENTS, Hook

_NAMES_OF_CLAUDE: Final = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "PreCompact": "PreCompress",
}
_MOST_SECONDS: Final = 1_000


def _read_event(name: str) -> str:
    if _NAMES_OF_CLAUDE.get(name, name) in EVENTS:
        return name
    msg = f"there is no such event; the events are {', '.join([*EVENTS, *_NAMES_OF_CLAUDE])}"
    raise ValueError(msg)


def _read_seconds(given: float) -> float:
    if given < _MOST_SECONDS:
        return given
    msg = f"a timeout is in seconds, less than {_MOST_SECONDS}, not in milliseconds"
    raise ValueError(msg)


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class _Entry(_Part):
    """One command; `on_error` and lists as commands are ours."""

    type: Literal["command"]
    command: str | list[str]
    name: str = ""
    description: str = ""
    timeout: Annotated[float, AfterValidator(_read_seconds)] = 60.0
    env: dict[str, str] = {}
    on_error: Literal["open", "closed"] = "open"


class _Group(_Part):
    """Commands that run for the same tools."""

    matcher: str = ""
    sequential: bool = False
    hooks: list[_Entry]


class _File(BaseModel):
    """All but the hooks is for other programs."""

    hooks: dict[Annotated[str, AfterValidator(_read_event)], list[_Group]]


def read_hook_file(path: str | Path) -> list[Hook]:
    """The hooks of a file, in its order.

    Raises:
        SettingsError: It cannot be read, or holds what no hook has.
    """
    where = f"The hooks file {str(path)!r}"
    try:
        given = _File.model_validate_json(read_file(Path(path), "settings"))
    except (OSError, UnicodeError) as error:
        msg = f"{where} cannot be read: {error}."
        raise SettingsError(msg) from error
    except ValidationError as error:  # of its values nothing is told: they may be secret
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        msg = f"{where} is wrong at {place or 'its beginning'}: {first['msg']}."
        raise SettingsError(msg) from None
    try:
        return [
            _make_hook(event, group, entry)
            for event, groups in given.hooks.items()
            for group in groups
            for entry in group.hooks
        ]
    except SettingsError as error:
        msg = f"{where}: {error}"
        raise SettingsError(msg) from error


def _make_hook(event: str, group: _Group, entry: _Entry) -> Hook:
    ours: Any = _NAMES_OF_CLAUDE.get(event, event)
    return command_hook(
        ours,
        entry.command,
        env={name: os.path.expandvars(value) for name, value in entry.env.items()},
        name=entry.name,
        match="" if group.matcher == "*" else group.matcher,
        timeout=entry.timeout,
        on_error=entry.on_error,
        sequential=group.sequential,
    )
