"""What the user has approved for the rest of a thread, and how arguments are matched. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import TypedDict

from ..state.canonical import canonical
from ..state.questions import Remembered
from ..tools.catalog import CatalogTool

WHOLE: Final = ""
"""The argument path that stands for all arguments together, as canonical JSON."""


class Grant(TypedDict):
    """Which calls need no further question; JSON only, so it can be kept with the thread.

    `arguments` maps argument paths to regular expressions searched in their values; all must fit,
    and an empty mapping fits every call of the tool.
    """

    tool: str
    server: str | None
    arguments: dict[str, str]


def grant(
    tool: str, server: str | None, args: Mapping[str, Any], remember: Remembered
) -> Grant | None:
    """What an approval of this call covers from now on; None where only this one call.

    Args:
        tool: The tool's name as the model sees it.
        server: Its MCP server; None for a tool of the program.
        args: The arguments that were approved.
        remember: What the user's answer says, see `Answer.remember`.
    """
    if not remember:
        return None
    patterns = dict(remember) if isinstance(remember, Mapping) else {}
    if remember == "call":
        patterns = {WHOLE: rf"\A{re.escape(canonical(args))}\Z"}
    return Grant(tool=tool, server=server, arguments=patterns)


def is_granted(given: Mapping[str, Any], tool: CatalogTool, args: Mapping[str, Any]) -> bool:
    """Whether a grant covers a call.

    Names get or lose their server's prefix when another server comes or goes, so the tool's own
    name on its server counts as well. What cannot be read covers nothing.
    """
    if given.get("server") != tool.server or given.get("tool") not in (tool.name, tool.original):
        return False
    patterns = given.get("arguments")
    if not isinstance(patterns, Mapping):
        return False
    try:
        return all(found(pattern, args, path) for path, pattern in patterns.items())
    except (re.error, TypeError, AttributeError):
        return False


def found(pattern: str, args: Mapping[str, Any], path: str) -> bool:
    """Whether a pattern is found in the argument a path leads to; a missing one has no match.

    Texts are searched as they are, everything else as JSON.
    """
    if path == WHOLE:
        return re.search(pattern, canonical(args)) is not None
    value: object = args
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return re.search(pattern, text) is not None
