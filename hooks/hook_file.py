"""Files of hooks, in the format of Claude Code and gemini-cli: one command each."""

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from ..state.errors import SettingsError
from ..state.limits import read_file
from .commands import command_hook
from .contract import Hook

_NAMES_OF_CLAUDE: Final[dict[str, Any]] = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "PreCompact": "PreCompress",
}


class _Entry(BaseModel, extra="forbid"):
    """One command; `onError` is ours."""

    type: Literal["command"]
    command: str
    name: str = ""
    description: str = ""
    timeout: float = Field(60.0, lt=1_000)  # seconds, not milliseconds
    on_error: Literal["open", "closed"] = Field("open", alias="onError")


class _Group(BaseModel, extra="forbid"):
    """Commands that run for the same tools."""

    matcher: str = ""
    sequential: bool = False
    hooks: list[_Entry]


class _File(BaseModel):
    """All but the hooks is for other programs."""

    hooks: dict[str, list[_Group]]


def read_hook_file(path: str | Path) -> list[Hook]:
    """The hooks of a file, in its order.

    Raises:
        SettingsError: It cannot be read, or holds what no hook has.
    """
    try:
        given = _File.model_validate_json(read_file(Path(path), "settings"))
        return [
            command_hook(
                _NAMES_OF_CLAUDE.get(event, event),
                entry.command,
                name=entry.name,
                timeout=entry.timeout,
                match="" if group.matcher == "*" else group.matcher,
                on_error=entry.on_error,
                sequential=group.sequential,
            )
            for event, groups in given.hooks.items()
            for group in groups
            for entry in group.hooks
        ]
    except ValidationError as error:  # of its values nothing is told: they may be secret
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, UnicodeError, SettingsError) as error:
        why = str(error)
    msg = f"The hooks file {str(path)!r} cannot be used: {why}"
    raise SettingsError(msg)
