"""The commands and their options as lists of the manual, made from the command line itself."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import typer

from loopwright.cli import app
from loopwright.cli.chat_commands import COMMANDS
from loopwright.cli.settings import Settings

_SHARED = [field.name for field in fields(Settings) if field.name != "environ"]


def commands() -> dict[str, Any]:
    """Every command that `--help` shows, by its name, such as `threads dismiss`."""
    return dict(_walk(typer.main.get_command(app)))


def _walk(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        if not command.hidden and (not inner or command.invoke_without_command):
            yield f"{before}{name}", command
        if inner:
            yield from _walk(command, f"{before}{name} ")


def commands_list() -> str:
    """Every command with its arguments, what it does, and the options that only it has."""
    rows = []
    for name, command in commands().items():
        own = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
        told = ", ".join(f"`{option.opts[-1]}`" for option in own if option.name not in _SHARED)
        rows.append(
            f"- `{name}{_arguments(command)}`: {command.help}" + (f" ({told})" if told else "")
        )
    return "\n".join(rows)


def _arguments(command: Any) -> str:
    """The arguments as a usage line has them: in brackets if they may be left out."""
    words = ""
    for argument in command.params:
        if argument.param_type_name == "argument":
            name = argument.name.upper()
            word = f"{name.removesuffix('S')}…" if argument.nargs < 0 else name
            words += f" {word}" if argument.required else f" [{word}]"
    return words


def options_list() -> str:
    """Every option that several commands share, and what it means."""
    every = reversed(commands().values())  # what the first command says of an option holds
    found = {option.name: option for one in every for option in one.params}
    return "\n".join(f"- `{found[name].opts[-1]}`: {found[name].help}" for name in _SHARED)


def chat_list() -> str:
    """Every command of a conversation."""
    return "\n".join(f"- `{name}`: {about}" for name, about in COMMANDS.items())
