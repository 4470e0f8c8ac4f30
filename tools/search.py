"""A keyword search (BM25) over named texts, and how a model finds one tool among many. Pure.

The definitions of 300 tools would be sent with each request. So a model is told only the
names, with a short line on each, and looks up the tools that it needs. That costs calls, and what
is found is new to a provider's cache: it pays above some 60 tools (`benchmarks/many_tools.py`).
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from ..text.sentences import say
from ..text.words import words_in

if TYPE_CHECKING:
    from .catalog import CatalogTool

MOST_BYTES: Final = 240_000
"""Of definitions, however few they are: more than most models read at once."""

_LISTED: Final = 3_200
"""Bytes of the list of names, at most."""
_ALL_LISTED: Final = 8_000
"""Bytes of the list that answers a search in vain."""
_WIDTHS: Final = (100, 60, 30, 0)
"""Characters of each description; the longest that fits is used."""
_NOTE: Final = 12
"""Bytes that say how many are left out."""
_LIKELY_BYTES: Final = 1_400
_LIKELY: Final = 5
_READ: Final = 2_000
"""Characters of a request that are searched for."""
_FITS: Final = 0.4
"""The share of the best score that a tool needs."""

# The usual constants of BM25: the weight of repeated words, and of the length of a text.
_ENOUGH: Final = 1.2
_LENGTH: Final = 0.75
_TITLE: Final = 3
"""How often a word of a title counts."""


class Search:
    """Texts by their ids, each found by its words; more can be added at any time."""

    def __init__(self) -> None:
        """Begin without a text."""
        self._ids: list[str] = []
        self._lengths: list[int] = []
        self._places: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def add(self, id_: str, text: str, title: str = "") -> None:
        """Add a text; a word of its title counts more than one of the text."""
        counts = Counter(words_in(text, asked=False))
        for word in words_in(title, asked=False):
            counts[word] += _TITLE
        place = len(self._ids)
        self._ids.append(id_)
        self._lengths.append(counts.total())
        for word, count in counts.items():
            self._places[word][place] = count

    def find(self, query: str, most: int = 5) -> list[tuple[str, float]]:
        """The ids of the best matching texts with their scores; of equal ones the first added."""
        scores: defaultdict[int, float] = defaultdict(float)
        mean = sum(self._lengths) / max(len(self._lengths), 1)
        for word in dict.fromkeys(words_in(query, asked=True)):
            places = self._places.get(word, {})
            rare = math.log(1 + (len(self._ids) - len(places) + 0.5) / (len(places) + 0.5))
            for place, count in places.items():
                held_back = 1 - _LENGTH + _LENGTH * self._lengths[place] / mean
                scores[place] += rare * count * (_ENOUGH + 1) / (count + _ENOUGH * held_back)
        best = sorted(scores, key=lambda place: (-scores[place], place))[:most]
        return [(self._ids[place], scores[place]) for place in best]

    def knows(self, query: str) -> bool:
        """Whether most words of a query stand in some text; if not, what is found may be chance."""
        words = {*words_in(query, asked=True)}
        return 2 * sum(word in self._places for word in words) > len(words)


def build_search(texts: Iterable[tuple[str, str, str]]) -> Search:
    """A search over texts given as id, title and text."""
    search = Search()
    for id_, title, text in texts:
        search.add(id_, text, title)
    return search


class DeferredTools:
    """The tools of one catalog that are too many to be shown whole."""

    def __init__(self, tools: "Mapping[str, CatalogTool]", most: int) -> None:
        """Keep the tools by the names a model knows; `most` of them are shown whole."""
        self._tools, self._most = tools, most

    @cached_property
    def is_needed(self) -> bool:
        """Whether the tools are so many, or their definitions so long."""
        if len(self._tools) > self._most:
            return True
        return sum(map(_weigh_tool, self._tools.values())) > MOST_BYTES

    @cached_property
    def _search(self) -> Search:
        return build_search(
            (
                name,
                f"{name} {tool.server or ''}",
                " ".join([tool.description, *tool.schema.get("properties", {})]),
            )
            for name, tool in self._tools.items()
        )

    def find(self, query: str, most: int = _LIKELY) -> list[str]:
        """The names of the tools that fit what is needed, best first."""
        hits = self._search.find(query, most)
        return [name for name, score in hits if score >= _FITS * hits[0][1]]

    def look_up(self, args: Mapping[str, Any]) -> tuple[list[str], str]:
        """What find_tools is asked for: `names`, each as it is or what fits it best, or a `query`.

        Returns:
            The names of the tools, and what to say where something is not among them, or "".
        """
        found: dict[str, None] = {}
        vain: list[str] = []
        for asked in [*args.get("names", ()), *filter(None, [args.get("query")])]:
            is_name = asked in self._tools
            fits = [asked] if is_name else self.find(asked)
            found |= dict.fromkeys(fits)
            vain += [] if is_name or (fits and self._search.knows(asked)) else [asked]
        if found and not vain:
            return [*found], ""
        missed = ", ".join(map(repr, vain or [""]))
        return [*found], say("no_tool_fits", asked=missed, names=self.list_names(_ALL_LISTED))

    def find_likely(self, request: str) -> list[str]:
        """Of many tools the few that a request probably needs and that are short."""
        names: list[str] = []
        room = _LIKELY_BYTES
        for name in self.find(request[:_READ]) if self.is_needed else ():
            if (weight := _weigh_tool(self._tools[name])) <= room:
                names.append(name)
                room -= weight
        return names

    def render_listing(self, sentence: str = "tools_listed") -> str:
        """The list of tools for a model, if they are too many to define; else ""."""
        return say(sentence, names=self.names) if self.is_needed else ""

    @cached_property
    def names(self) -> str:
        """The names as each request has them."""
        return self.list_names(_LISTED)

    def list_names(self, room: int) -> str:
        """The names by server, with as much of the descriptions as fits into so many bytes."""
        for width in _WIDTHS:
            text = "\n".join(self._list_tools(width))
            if len(text.encode()) <= room:
                return text
        return "\n".join(_fit_lines(room, [*self._list_short(room)]))

    @cached_property
    def _by_server(self) -> "dict[str, list[CatalogTool]]":
        groups: dict[str, list[CatalogTool]] = {}
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

    def _list_short(self, room: int) -> Iterable[str]:
        """Of each server as many names as its share of the room holds."""
        for server, tools in self._by_server.items():
            share = (room - 2 * _NOTE) * len(tools) // len(self._tools)
            shown: list[str] = []
            for name in (tool.name for tool in tools):
                share -= len(name.encode()) + 2
                if shown and share < len(server.encode()) + _NOTE:
                    break
                shown.append(name)
            rest = len(tools) - len(shown)
            yield _prefix_server(server, ", ".join([*shown, *([f"… +{rest}"] if rest else [])]))


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


def _weigh_tool(tool: "CatalogTool") -> int:
    return len(json.dumps(tool.spec(), ensure_ascii=False).encode())
