"""What a policy's table says of tools before any call is known; the guard judges each call."""

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from ..policy.rules import select_language
from ..policy.table import PolicyTable
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from ..tools.python_tools import BUILT_IN


def decide_by_table(table: PolicyTable, tool: CatalogTool) -> tuple[Literal["allow", "deny"], str]:
    """Whether calls of a tool may come before the guard, and why."""
    if table.is_verifier(tool.original, tool.server):
        return "allow", "it verifies who the customer is"
    if tool.tool is BUILT_IN:
        return "allow", "it asks a model"
    governed = table.find_governed(tool.original, tool.server)
    if governed is None:
        if tool.read_only and table.reads:
            return "allow", "read-only"
        return "deny", say("policy_unlisted", tool=tool.name)
    if governed.section is None and governed.verdict == "forbidden":
        return "deny", select_language(governed.article) or say("policy_forbidden", tool=tool.name)
    if governed.reads:
        return "allow", "the policy says that it only reads"
    return "allow", say("policy_by_table", rows=governed.section or governed.verdict)


def mark_read_only(table: PolicyTable, tool: CatalogTool) -> CatalogTool:
    """The tool as the operator knows it: a table may say of one that it only reads."""
    governed = table.find_governed(tool.original, tool.server)
    return replace(tool, read_only=True, idempotent=True) if governed and governed.reads else tool


def list_missing_tools(table: PolicyTable, tools: Collection[CatalogTool]) -> list[str]:
    """What to say of tools that a table names and nobody has; without tools there is no word.

    A change that is named wrongly is forbidden as one that is not named.
    """
    if not tools:
        return []
    names = {name for t in tools for name in (t.original, f"{t.server}/{t.original}")}
    lost = ", ".join(name for name in table.tool_names if name not in names)
    told = "but the policy names it: mend the name there, or give the tool."
    return [f"There is no tool {lost}, {told}"] if lost else []
