"""Which tool does what a clause asks: the best one by words whose arguments are all there. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .arguments import Parameter, fill, read_parameters
from .clauses import is_question, stems, values, wanted, words

# Everyday words of which each may stand for the others of its group; no tool is named here.
_ALIKE: Final = [
    stems("read open show print view cat"),
    stems("list show enumerate display"),
    stems("get fetch look retrieve check"),
    stems("find search look lookup grep locate"),
    stems("write create save store put"),
    stems("create make add new"),
    stems("add append insert attach"),
    stems("delete remove erase"),
    stems("update edit change modify replace"),
    stems("send mail email message notify post"),
    stems("folder directory dir"),
    stems("file document"),
]
# What opens the name or the description of a tool that leaves something changed behind.
_CHANGES: Final = stems(
    "write create save store put make add insert append attach delete remove erase update edit "
    "change modify replace set send mail email post notify pay book buy order cancel approve move "
    "rename copy commit push reset deploy install upload start stop close assign"
)
_LEAST: Final = 0.5
"""The share of a clause's words that a tool must speak of."""


@dataclass(frozen=True)
class Tool:
    """A tool as it is offered: what it takes, and the stems of its name and of what it says."""

    name: str
    parameters: tuple[Parameter, ...]
    named: list[str]
    does: list[str]
    told: frozenset[str] = field(repr=False)

    @property
    def changes(self) -> bool:
        """Whether it says of itself that it changes something."""
        return not _CHANGES.isdisjoint([*self.named[:1], *self.does[:1]])


@dataclass(frozen=True)
class Match:
    """The calls of a tool that a clause wants, or why there are none."""

    tool: str = ""
    calls: Sequence[dict[str, Any]] = ()
    why: str = ""
    told: Sequence[str] = ()
    """What the tool says of itself."""


def read_tools(specs: Iterable[Mapping[str, Any]]) -> list[Tool]:
    """Read tools as a request offers or lists them; what is no tool is left out."""
    found = (spec.get("function", spec) for spec in specs)
    return [_tool(item) for item in found if isinstance(item, Mapping) and item.get("name")]


def _tool(spec: Mapping[str, Any]) -> Tool:
    name, description = str(spec["name"]), str(spec.get("description") or "")
    parameters = read_parameters(spec.get("parameters") or spec.get("arguments") or {})
    does = words(re.split(r"[.;]\s|\n", description, maxsplit=1)[0])
    takes = " ".join(f"{p.name} {p.schema.get('description', '')}" for p in parameters)
    told = frozenset(words(f"{name} {description} {takes}"))
    return Tool(name, parameters, words(name), does, told)


def match(clause: str, tools: Sequence[Tool], results: Sequence[str] = ()) -> Match:
    """Choose the tool for a clause and fill its arguments, also from earlier results."""
    # A question about a file or an address is first of all to read it.
    about_path = is_question(clause) and any(value.kind == "path" for value in values(clause))
    asked = ["read"] if about_path else wanted(clause)
    able = [tool for tool in tools if _may_do(asked, tool, is_question(clause))]
    if not able:
        return Match(why="no offered tool matches its words")
    best = max(able, key=lambda tool: _score(asked, tool))
    calls, lacks = fill(clause, best.parameters, best.told, results)
    if lacks:
        return Match(why=f"{best.name} matches, but {lacks}")
    return Match(best.name, calls, told=[*best.named, *best.does])


def _may_do(asked: Sequence[str], tool: Tool, question: bool) -> bool:
    """Whether the tool does this kind of work: what is no question opens with what is done."""
    spoken = sum(_related(word, tool.told) for word in asked)
    if not asked or spoken < _LEAST * len(asked):
        return False
    return not tool.changes if question else _related(asked[0], [*tool.named, *tool.does])


def _score(asked: Sequence[str], tool: Tool) -> float:
    """The overlap of words: those of the name count most, the verb half as much again."""
    score = 0.0
    for place, word in enumerate(asked):
        weights = ((tool.named, 2.0), (tool.does, 1.0), (tool.told, 0.25))
        found = (w * (1 if word in own else 0.8) for own, w in weights if _related(word, own))
        score += max(found, default=0.0) * (1 if place else 1.5)
    return score - 0.25 * sum(not _related(word, asked) for word in tool.named)


def _related(word: str, others: Iterable[str]) -> bool:
    alike = set().union({word}, *(group for group in _ALIKE if word in group))
    return not alike.isdisjoint(others)
