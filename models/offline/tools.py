"""The offered tools as the offline model reads them, and how well each suits a clause."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from .literals import literals, path_kind, without, zones
from .words import (
    CHANGES,
    LOOKS,
    STOP_STEMS,
    best_related,
    changes_something,
    content_words,
    is_question,
    is_verb_known,
    lead,
    related,
    stems,
    words,
)


@dataclass(frozen=True)
class Parameter:
    """One argument a tool takes."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def about(self) -> str:
        """Its description, lower-case."""
        return str(self.schema.get("description", "")).lower()

    @property
    def name_words(self) -> list[str]:
        """The stems of its name."""
        return words(self.name)


@dataclass(frozen=True)
class Tool:
    """One offered tool, read for matching. `name_words` lack a prefix that most tools share."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    name_words: tuple[str, ...]
    first_words: tuple[str, ...]
    more_words: frozenset[str]

    @property
    def action(self) -> str:
        """The stem of the change this tool makes; '' where it only looks."""
        names = self.name_words
        if names and names[0] in LOOKS and names[0] not in CHANGES:
            return ""
        inflected = self.name.lower().endswith(("ed", "ing", "s"))
        ends = [
            word for word in (*names[:1], *(() if inflected else names[-1:])) if word in CHANGES
        ]
        if ends:
            return ends[0]
        opening = self.first_words[0] if self.first_words else ""
        return opening if opening in CHANGES else ""

    @property
    def looks(self) -> bool:
        """Whether its name or description says that it only looks."""
        opening = (*self.name_words[:1], *self.first_words[:1])
        tells = self.description.lower().startswith("return")
        return not self.action and (tells or any(word in LOOKS for word in opening))

    @property
    def required(self) -> list[Parameter]:
        """The arguments that must be given."""
        return [parameter for parameter in self.parameters if parameter.required]


def read_tools(specs: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Read OpenAI-format tool specs; what is no tool is left out."""
    functions = [spec.get("function", spec) for spec in specs if isinstance(spec, Mapping)]
    named = [
        function for function in functions if isinstance(function, Mapping) and function.get("name")
    ]
    shared = _shared_prefix([words(str(function["name"])) for function in named])
    return [_tool(function, shared) for function in named]


def _tool(function: Mapping[str, Any], shared: str) -> Tool:
    schema = function.get("parameters")
    schema = schema if isinstance(schema, Mapping) else {}
    properties = schema.get("properties")
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    name = str(function["name"])
    description = str(function.get("description") or "")
    named = words(name)
    parameters = tuple(
        Parameter(key, _plain(value, schema), key in required)
        for key, value in (properties.items() if isinstance(properties, Mapping) else ())
    )
    first = re.split(r"(?<=[a-z)])\.\s|\n", description.strip(), maxsplit=1)[0]
    more = content_words(description) + [
        word for item in parameters for word in content_words(f"{item.name} {item.about}")
    ]
    return Tool(
        name,
        description,
        parameters,
        tuple(named[1:] if shared and named[:1] == [shared] and len(named) > 1 else named),
        tuple(word for word in words(first) if word != "return" or word in named),
        frozenset(more),
    )


def listed(value: object) -> list[Any]:
    """A value of a schema where a list belongs; anything else counts as none."""
    return value if isinstance(value, list) else []


def _shared_prefix(names: Sequence[Sequence[str]]) -> str:
    """The first word of at least three fifths of three or more tools, unless it is a verb."""
    first = Counter(name[0] for name in names if name)
    word, count = first.most_common(1)[0] if first else ("", 0)
    verb = word in LOOKS or word in CHANGES
    return word if len(names) >= 3 and count * 5 >= len(names) * 3 and not verb else ""


def _plain(schema: object, root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """One parameter's schema with references and null alternatives resolved."""
    found = dict(schema) if isinstance(schema, Mapping) else {}
    reference = found.pop("$ref", None)
    if isinstance(reference, str) and depth < 5:
        target: Any = root
        for step in reference.lstrip("#/").split("/"):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        return {**_plain(target, root, depth + 1), **found}
    for key in ("anyOf", "oneOf", "allOf"):
        options = [item for item in listed(found.pop(key, None)) if isinstance(item, Mapping)]
        real = [item for item in options if item.get("type") != "null"]
        if real:
            found = {**_plain(real[0], root, depth + 1), **found}
    kind = found.get("type")
    if isinstance(kind, list):
        found["type"] = next((item for item in kind if item != "null"), "string")
    return found


def allowed(clause: str, tool: Tool) -> bool:
    """Whether the tool's kind of work is the kind the clause asks for.

    A clause that asks for a change needs a tool that makes that change, and a tool that makes a
    change is used only where the clause's leading verb asks for it.
    """
    wish, verb = changes_something(clause), lead(clause)
    if _speaks_sql(clause, tool):
        return True
    if wish:
        sums = tool.looks and best_related(wish, tool.name_words) > 0 and related(wish, "sum") > 0
        made = (*tool.name_words, *tool.first_words[:8])
        return sums or (not tool.looks and best_related(wish, made) > 0)
    if tool.action:
        return not is_question(clause) and best_related(verb, [tool.action, *tool.name_words]) > 0
    return is_question(clause) or is_verb_known(verb) or _speaks_of(clause, verb, tool)


def _speaks_of(clause: str, verb: str, tool: Tool) -> bool:
    """Whether the tool knows the word that opens the clause: it may be a verb nobody here does."""
    opening = verb if verb not in STOP_STEMS else next(iter(content_words(clause)), verb)
    return best_related(
        opening, [*tool.name_words, *tool.first_words, *tool.more_words]
    ) > 0 or any(path_kind(word) for word in clause[:500].split()[:1])


def _speaks_sql(clause: str, tool: Tool) -> bool:
    keyword = next(
        (item.value.split()[0].lower() for item in literals(clause) if item.kind == "sql"), ""
    )
    return bool(keyword) and bool(re.search(rf"\b{keyword}\b", tool.description.lower()))


@lru_cache(maxsize=64)
def _wanted(clause: str) -> tuple[str, ...]:
    bare = _without_values(clause)
    return tuple(dict.fromkeys([lead(clause), *content_words(bare), *_implied(clause, bare)]))


def _without_values(clause: str) -> str:
    said = [item for item in literals(clause) if item.kind not in ("sql", "number", "date", "time")]
    return without(clause, [*said, *zones(without(clause, said))])


def topic(clause: str) -> list[str]:
    """The stems that say what a clause is about, without its literals and numbers."""
    bare = without(_without_values(clause), literals(clause))
    return [word for word in content_words(bare) if not word.isdigit() and word not in _VAGUE]


_VAGUE: Final = stems(
    "written write says inside stand overview everything thing current back afterwards again"
)


def _implied(clause: str, bare: str) -> list[str]:
    """A question about a file or a page, and a bare path or link, mean that it should be read."""
    if not (is_question(clause) or not content_words(bare)):
        return []
    kinds = {
        item.kind
        for item in literals(clause)
        if item.kind == "url" or re.search(r"\w\.\w+$", item.value)
    }
    return [word for word, kind in (("read", "path"), ("get", "url")) if kind in kinds]


_NAME, _FIRST, _MORE = 2.0, 1.2, 0.5
_LEAD: Final = 1.5


def word_score(clause: str, tool: Tool, tools: Sequence[Tool]) -> float:
    """Overlap of the clause's words with the tool's, rare words counting more; 0 for none.

    The weight of a word is the usual inverse document frequency over the offered tools
    (K. Sparck Jones, 1972), as log(1 + tools / tools with the word).
    """
    wanted = _wanted(clause)
    total = sum(
        _word(word, tool, tools) * (_LEAD if place == 0 and word not in LOOKS else 1.0)
        for place, word in enumerate(wanted)
        if word
    )
    unasked = [word for word in tool.name_words if not best_related(word, wanted)]
    stale = 1.0 if "deprecated" in tool.description.lower() else 0.0
    return max(total - 0.25 * len(unasked) - stale, 0.01 if total else 0.0)


def _word(word: str, tool: Tool, tools: Sequence[Tool]) -> float:
    first = [item for item in tool.first_words if len(item) > 2]
    best = max(
        _NAME * best_related(word, tool.name_words),
        _FIRST * best_related(word, first),
        _MORE * (1.0 if word in tool.more_words else 0.0),
    )
    if not best:
        return 0.0
    having = sum(1 for other in tools if word in other.name_words or word in other.first_words)
    return best * math.log(1 + len(tools) / max(having, 1)) / math.log(1 + len(tools))
