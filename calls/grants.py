"""What a human approved for the rest of a thread, and which calls it covers. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import TypedDict

from ..state.questions import Remembered
from ..text.canonical import canonical
from ..text.words import PatternError, is_found
from ..tools.catalog import CatalogTool

WHOLE: Final = ""
"""The argument path that stands for all arguments together, as canonical JSON."""


class Grant(TypedDict):
    """Which calls need no further question; JSON only, so it can be kept with the thread.

    `arguments` maps argument paths to patterns of their values. All must fit; an empty mapping fits
    every call of the tool. Whoever answers a question gives values, never a pattern.
    `definition` is the digest of the tool as it was approved: another one was not.
    """

    tool: str
    server: str | None
    arguments: dict[str, str]
    definition: str


def make_grant(
    tool: str, server: str | None, args: Mapping[str, Any], remember: Remembered, definition: str
) -> Grant | None:
    """What an approval of this call covers from now on, see `Answer.remember`; None: nothing."""
    if not remember:
        return None
    values = dict(remember) if isinstance(remember, Mapping) else {}
    if remember == "call":
        values = {WHOLE: canonical(args)}
    patterns = {path: rf"\A{re.escape(value)}\Z" for path, value in values.items()}
    return Grant(tool=tool, server=server, arguments=patterns, definition=definition)


def is_granted(grant: Mapping[str, Any], tool: CatalogTool, args: Mapping[str, Any]) -> bool:
    """Whether a grant covers a call.

    Names get or lose their server's prefix when another server comes or goes, so the tool's own
    name on its server counts as well. What cannot be read covers nothing.
    """
    if grant.get("server") != tool.server or grant.get("tool") not in (tool.name, tool.original):
        return False
    if grant.get("definition") != tool.definition:
        return False
    try:
        patterns = grant["arguments"].items()
        return all(matches_pattern(pattern, args, path) for path, pattern in patterns)
    except (PatternError, TimeoutError, TypeError, AttributeError, KeyError):
        return False


def matches_pattern(pattern: str, args: Mapping[str, Any], path: str) -> bool:
    """Whether a pattern is found in the argument a path leads to; a missing one has no match.

    Texts are searched as they are, everything else as JSON.
    """
    if path == WHOLE:
        return is_found(pattern, canonical(args))
    value: object = args
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return is_found(pattern, text)
