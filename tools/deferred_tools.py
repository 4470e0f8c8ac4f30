"""Many tools: a model is told their names, and finds the definitions of those it needs. Pure.

Definitions of 300 tools would be read anew in each request. So only the names are listed, with a
line on each as long as that is short, and a search says what fits a need.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Protocol

from ..text.sentences import say
from ..text.words import words_of
from .search import Search, build_search

MOST_TOOLS: Final = 30
MOST_BYTES: Final = 8_000
"""More tools, or longer definitions, and only their names are listed."""

_LISTED: Final = 3_200
"""Bytes of the list of names, whatever there is."""
_WIDTHS: Final = (100, 60, 30, 0)
"""Characters told of each tool, the most that fits into the list."""
_NOTE: Final = 12
"""Bytes that say how many are left out."""
_LIKELY_BYTES: Final = 1_400
_LIKELY: Final = 5
_READ: Final = 2_000
"""Characters of a request that are searched for."""
_FITS: Final = 0.4
"""How well a tool must fit, beside the one that fits best."""


class Tool(Protocol):
    """What is told of a tool."""

    @property
    def name(self) -> str: ...  # noqa: D102 - as the class says
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def server(self) -> str | None: ...  # noqa: D102
    @property
    def schema(self) -> Mapping[str, Any]: ...  # noqa: D102
    def spec(self) -> dict[str, Any]: ...  # noqa: D102


class DeferredTools:
    """The tools of one catalog that are too many to be shown whole."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        """Keep the tools by the names a model knows."""
        self._tools = tools

    @cached_property
    def is_needed(self) -> bool:
        """Whether the tools are so many, or their definitions so long."""
        if len(self._tools) > MOST_TOOLS:
            return True
        return sum(map(_weigh_tool, self._tools.values())) > MOST_BYTES

    @cached_property
    def _search(self) -> Search:
        return build_search(
            (
                name,
                f"{name} {tool.server or ''}",
                " ".join([tool.description, *_list_arguments(tool)]),
            )
            for name, tool in self._tools.items()
        )

    def find(self, query: str, most: int = _LIKELY) -> list[str]:
        """The names of the tools that fit what is needed, best first."""
        hits = self._search.find(query, most)
        return [name for name, score in hits if score >= _FITS * hits[0][1]]

    def find_likely(self, request: str) -> list[str]:
        """Of many tools those a request is likely to need, as far as they are cheap to show."""
        names: list[str] = []
        room = _LIKELY_BYTES
        for name in self.find(request[:_READ]) if self.is_needed else ():
            if (weight := _weigh_tool(self._tools[name])) <= room:
                names.append(name)
                room -= weight
        return names

    def render_listing(self, sentence: str = "tools_listed") -> str:
        """What a model is told of many tools that are not defined for it; else ""."""
        return say(sentence, names=self.names) if self.is_needed else ""

    @cached_property
    def names(self) -> str:
        """The names by server, each with as much of its description as there is room for."""
        for width in _WIDTHS:
            text = "\n".join(self._list_tools(width))
            if len(text.encode()) <= _LISTED:
                return text
        return "\n".join(_fit_lines(_LISTED, [*self._list_short()]))

    @cached_property
    def _by_server(self) -> dict[str, list[Tool]]:
        groups: dict[str, list[Tool]] = {}
        for tool in self._tools.values():
            groups.setdefault(tool.server or "", []).append(tool)
        return groups

    def _list_tools(self, width: int) -> Iterable[str]:
        for server, tools in self._by_server.items():
            if not width:
                yield _prefix_server(server, ", ".join(tool.name for tool in tools))
                continue
            yield from [f"{server}:"] if server else []
            yield from (f"- {tool.name}: {first_line(tool.description, width)}" for tool in tools)

    def _list_short(self) -> Iterable[str]:
        """Of each server the names that tell most, as many as its share of the room holds."""
        for server, tools in self._by_server.items():
            share = (_LISTED - 2 * _NOTE) * len(tools) // len(self._tools)
            told: list[str] = []
            for name in _sort_by_new_words([tool.name for tool in tools]):
                share -= len(name.encode()) + 2
                if told and share < len(server.encode()) + _NOTE:
                    break
                told.append(name)
            rest = len(tools) - len(told)
            yield _prefix_server(server, ", ".join([*told, *([f"… +{rest}"] if rest else [])]))


def _fit_lines(room: int, lines: Sequence[str]) -> list[str]:
    """As many lines as there is room for, and how many there are besides."""
    ends = accumulate(len(line.encode()) + 1 for line in lines)
    fits = sum(end <= room - _NOTE for end in ends)
    rest = len(lines) - fits
    return [*lines[:fits], *([f"… +{rest}"] if rest else [])]


def _prefix_server(server: str, text: str) -> str:
    return f"{server}: {text}" if server else text


def first_line(text: str, width: int) -> str:
    """The beginning of a description in one line; the cut is marked."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _sort_by_new_words(names: Sequence[str]) -> list[str]:
    """The names, first those that hold a word which none before has."""
    seen: set[str] = set()
    first, rest = list[str](), list[str]()
    for name in names:
        words = set().union(*map(words_of, re.split("[_-]", name)))
        (first if words - seen else rest).append(name)
        seen |= words
    return first + rest


def _list_arguments(tool: Tool) -> list[str]:
    return [*tool.schema.get("properties", {})]


def _weigh_tool(tool: Tool) -> int:
    return len(json.dumps(tool.spec(), ensure_ascii=False).encode())
