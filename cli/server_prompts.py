"""Prompts of MCP servers in a conversation: listed, and filled as the user's next message."""

import shlex
from typing import Any

from ..state.errors import SettingsError
from ..tools.mcp.call import ServerUnavailable
from .settings import Settings
from .show import open_toolbox
from .terminal import Output, clean, shorten_line


def list_prompts(settings: Settings, output: Output) -> None:
    """Write a line for each prompt: its name, its arguments, and what it is for."""
    with open_toolbox(settings) as toolbox:
        for server in toolbox.servers:
            try:
                prompts = toolbox.ask_server(server, lambda c: c.list_all("prompts"))
            except ServerUnavailable as error:
                output.write_line(shorten_line(f"! {server}: {error}", 400))
                continue
            for one in prompts:
                words = [f"{server}/{one['name']}"]
                for known in one.get("arguments") or ():
                    words.append(
                        ("{}=…" if known.get("required") else "[{}=…]").format(known["name"])
                    )
                output.write_line(shorten_line(f"{' '.join(words)}  {one.get('description')}", 200))


def fill_prompt(settings: Settings, output: Output, words: str) -> str:
    """The text of a prompt, named as `SERVER/NAME key=value`, as it was shown to the user.

    Raises:
        SettingsError: There is no such prompt, it lacks arguments, or it is no text.
    """
    try:
        name, *given = shlex.split(words)
        server, prompt = name.split("/", 1)
        params = {"name": prompt, "arguments": dict(part.split("=", 1) for part in given)}
        with open_toolbox(settings) as toolbox:
            found = toolbox.ask_server(server, lambda c: c.fetch("prompts/get", params))
            text = clean(_read_text(toolbox.secrets.mask_json(found)))
    except (ValueError, KeyError, ServerUnavailable) as error:
        msg = f"No prompt came of {words!r} ({error}): /prompts lists them, and their arguments."
        raise SettingsError(msg) from error
    output.write_line(f"> {text}")
    return text


def _read_text(found: Any) -> str:
    """The words of a filled prompt, those of the assistant marked as such; else a ValueError."""
    messages = [(one["role"], one["content"]) for one in found.get("messages") or ()]
    texts = [(role, (one.get("resource") or one).get("text")) for role, one in messages]
    if not texts or not all(isinstance(text, str) for _, text in texts):
        msg = "it is no text"
        raise ValueError(msg)
    return "\n\n".join(text if role == "user" else f"{role}: {text}" for role, text in texts)
