"""What a goal says, and which tool does what it asks, by words, with which arguments. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final

READ: Final = 40_000  # characters of a text that are read: matching must stay fast on any input


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Cut the commonest English endings; rough, but the same for the same word."""
    word = word.lower()
    for ending in () if word.endswith("ss") else ("ies", "ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def stems(text: str) -> frozenset[str]:
    """The stems of a list of words."""
    return frozenset(map(stem, text.split()))


_MEANINGLESS: Final = stems(
    "a an the and or but then also please of in on at to from for by with as into under inside is "
    "are was were be am do does did has have had it its this that these those there here i me my "
    "we us our you your he she his her they them their what which who whose when where why how "
    "will would can could should shall may must yes so just only any some all every each "
    "both many much tell say know want need like one about up out well current contain contents "
    "everything"
)
_QUOTED: Final = re.compile(r"`[^`\n]+`|\"[^\"]*\"|“[^“”]*”|(?<!\w)'[^'\n]+'(?!\w)")
_CUT: Final = re.compile(r"(?i)\n|(?<=[.!?;])\s+|;\s*|,?(?<!\s)\s+(?:and then|and|then)\s+|,\s+")
_COURTESY: Final = re.compile(
    r"(?i)(?:[-*•\s]|\d+[.)](?=\s|$)|(?:please|and|then|also|first|next|finally|now|hello|hi|thanks|"
    r"i(?: want|'d like| would like)(?: you)? to|(?P<can>can|could|would|will) you)\b)+[\s,]*"
)
_QUESTION: Final = re.compile(
    r"(?i)(?:who|whose|what|which|when|where|why|how|is|are|was|were|does|did|has|tell (?:me|us))\b"
)
_NUMBER: Final = re.compile(r"[$€£]?(-?\d+(?:\.\d+)?)[%$€£]?")
_PATH: Final = re.compile(r"[\w~.*-]*/[\w/.*~-]*|[\w*-][\w.*-]*\.[a-z]\w{0,7}|https?://.+", re.I)
_CODE: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z:_-])[\w.:+-]+|[\w.+-]+@[\w.-]+")
_LEADS_TO_NAME: Final = ("in", "inside", "into", "under", "for", "at", "of")


@dataclass(frozen=True)
class Value:
    """A value in a clause: a `text` in quotes or like A-100, a `path`, a `number`, or a `name`.

    A name is a guess: it has a capital or follows 'in', 'for' and the like. `before` is the stem
    of the word in front: 'the title "Tea"'.
    """

    kind: str
    text: str
    before: str


def clauses(goal: str) -> list[str]:
    """Cut a goal at sentences, lines, commas, 'and' and 'then', but never inside quotes.

    A piece of one word asks for nothing by itself and stays with its neighbour.
    """
    text = re.sub("[\ue000\ue001]", "", goal[:READ])
    quoted = _QUOTED.findall(text)
    numbers = iter(range(len(quoted)))
    masked = _QUOTED.sub(lambda _: f"\ue000{next(numbers)}\ue001", text)
    found: list[str] = []
    for piece in map(_tidied, _CUT.split(masked)):
        if found and piece and (len(piece.split()) < 2 or len(found[-1].split(None, 1)) < 2):
            found[-1] = f"{found[-1]} and {piece}"
        elif re.search(r"[^\W_]|\ue000", piece):
            found.append(piece)
    if len(goal) > READ:
        found.append(f"… {len(goal) - READ:,} more characters, which were not read")
    whole = [re.sub("\ue000(\\d+)\ue001", lambda m: quoted[int(m[1])], p) for p in found]
    return whole or ([goal] if goal else [])


def _tidied(piece: str) -> str:
    courtesy = _COURTESY.match(piece.strip())
    bare = piece.strip()[courtesy.end() :] if courtesy else piece.strip()
    return bare.rstrip(" .!,;?" if courtesy and courtesy["can"] else " .!,;")


def is_question(clause: str) -> bool:
    """Whether it asks to be told something, rather than to have something done."""
    return _QUESTION.match(clause) is not None


def values(clause: str) -> list[Value]:
    """The values written in a clause, in its order; guessed names come last."""
    found, before = [], ""
    for token in re.findall(rf"{_QUOTED.pattern}|[^\s\"`“]+", clause[:READ]):
        found.append(_value(token, before))
        before = token.strip(".,;:!?()").lower()
    return sorted((v for v in found if v is not None), key=lambda value: value.kind == "name")


def _value(token: str, before: str) -> Value | None:
    if _QUOTED.fullmatch(token):
        return Value("text", token[1:-1], stem(before))
    bare = token.strip(",;:!?()'").rstrip(".").removesuffix("'s")
    if number := _NUMBER.fullmatch(bare):
        return Value("number", number[1], stem(before))
    for kind, pattern in (("path", _PATH), ("text", _CODE)):
        if pattern.fullmatch(bare):
            return Value(kind, bare, stem(before))
    named = before and (bare.istitle() or bare.isupper() or before in _LEADS_TO_NAME)
    return Value("name", bare, stem(before)) if named and words(bare) else None


def words(text: str) -> list[str]:
    """The stems of the words that mean something, each once, in their order."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text[:READ])
    found = (word.lower() for word in re.findall(r"[^\W_]+", apart))
    kept = (stem(word) for word in found if len(word) > 1 or not word.isascii())
    return [word for word in dict.fromkeys(kept) if word not in _MEANINGLESS]


def wanted(clause: str) -> list[str]:
    """The stems of what is asked, first the verb, without the values written in it."""
    bare = (token for token in _QUOTED.sub(" ", clause).split() if _value(token, "") is None)
    return words(" ".join(bare))


# Which tool does what a clause asks, and with which arguments.

# Everyday words of which each may stand for the others of its group; no tool is named here.
_ALIKE: Final = [*map(stems, (
    "read open show print view cat", "list show enumerate display", "get fetch look retrieve check",
    "find search look lookup grep locate", "write create save store put", "create make add new",
    "add append insert attach", "delete remove erase", "update edit change modify replace",
    "send mail email message notify post", "folder directory dir", "file document",
))]  # fmt: skip
# What opens the name or the description of a tool that leaves something changed behind.
_CHANGES: Final = stems(
    "write create save store put make add insert append attach delete remove erase update edit "
    "change modify replace set send mail email post notify pay book buy order cancel approve move "
    "rename copy commit push reset deploy install upload start stop close assign"
)
_MOST_CALLS: Final = 10
_PATHS: Final = stems("path file filename folder directory dir uri url link")
_INSIDE: Final = stems("in inside into under")
# The kinds of values that an argument may take, best first.
_KINDS: Final[Mapping[str, Sequence[str]]] = {
    "path": ("path", "name", "text"),
    "string": ("text", "path", "name"),
    "integer": ("number",),
    "number": ("number",),
}
POINTS_BACK: Final = re.compile(
    r"\b(?:it|its|them|their|this|that|these|those|results?)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool; of a string that names a file or an address the kind is 'path'."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    kind: str


@dataclass(frozen=True)
class Tool:
    """A tool: what it takes, as far as that is told, what it says first, and its words' stems."""

    name: str
    parameters: tuple[Parameter, ...]
    about: str
    named: list[str]
    does: list[str]
    changes: bool
    told: frozenset[str] = field(repr=False)


@dataclass(frozen=True)
class Match:
    """The calls that a clause wants and the tool they are of, or why there are none."""

    tool: str = ""
    calls: Sequence[dict[str, Any]] = ()
    why: str = ""
    by: Tool | None = None


def read_tools(specs: Iterable[Mapping[str, Any]]) -> list[Tool]:
    """Read tools as a request offers or lists them."""
    return [_tool(spec.get("function", spec)) for spec in specs]


def _tool(spec: Mapping[str, Any]) -> Tool:
    name, description = str(spec["name"]), str(spec.get("description") or "")
    schema = spec.get("parameters") or spec.get("arguments") or {}
    given, required = schema.get("properties", {}), schema.get("required", ())
    parameters = tuple(_parameter(name, one, name in required) for name, one in given.items())
    about = re.split(r"[.;](?:\s|$)|\n", description, maxsplit=1)[0]
    said = ((p.name, *map(p.schema.get, ("description", "enum"))) for p in parameters)
    takes = " ".join(map(str, chain.from_iterable(said)))
    told = frozenset(words(f"{name} {description} {takes}"))
    named, does = words(name), words(about)
    changes = not _CHANGES.isdisjoint([*named[:1], *does[:1]])
    return Tool(name, parameters, about, named, does, changes, told)


def match(clause: str, tools: Sequence[Tool], results: Sequence[str] = ()) -> Match:
    """Choose the tool for a clause and fill its arguments, also from earlier results."""
    asks, given = is_question(clause), values(clause)
    # A question about a file or an address is first of all to read it.
    about_path = asks and any(value.kind == "path" for value in given)
    asked = ["read"] if about_path else wanted(clause)
    known = frozenset(words(" ".join(value.text for value in given)))
    asks = asks or clause.endswith("?")
    # "Do not write it" is no wish to write it, nor is "Should I write it?".
    opens = asked and (asks or words(clause.partition(" ")[0])[:1] == asked[:1])
    if not (able := [tool for tool in tools if opens and _may_do(asked, tool, known, asks)]):
        return Match(why="no offered tool matches all of its words")
    best = max(able, key=lambda tool: _score(asked, given, tool))
    calls, lacks = fill(clause, best.parameters, best.told, results)
    if lacks:
        return Match(why=f"{best.name} matches, but {lacks}", by=best)
    return Match(best.name, calls, by=best)


def _may_do(asked: Sequence[str], tool: Tool, known: frozenset[str], question: bool) -> bool:
    """Whether the tool does this kind of work; of a question it speaks of half the words.

    Else it does what is asked first, and speaks of the rest: a call would leave that undone.
    """
    unspoken = [word for word in asked if not _related(word, tool.told)]
    if question:
        return 2 * len(unspoken) <= len(asked) and not tool.changes
    return known.issuperset(unspoken) and _related(asked[0], [*tool.named, *tool.does])


def _score(asked: Sequence[str], given: Sequence[Value], tool: Tool) -> tuple[float, bool]:
    """The overlap of words, first of name and verb; of equal tools the one that needs a value."""
    weights = [2 * _related(word, tool.named) or _related(word, tool.does) for word in asked]
    others = sum(not _related(word, asked) for word in tool.named)
    needed = any(p.required and _best(p, given) for p in tool.parameters)
    return sum(weights) + 0.5 * weights[0] - 0.25 * others, needed


def _related(word: str, others: Iterable[str]) -> bool:
    alike = set().union({word}, *(group for group in _ALIKE if word in group))
    return not alike.isdisjoint(others)


def _parameter(name: str, schema: Any, required: bool) -> Parameter:
    schema = schema if isinstance(schema, Mapping) else {}
    for branch in schema.get("anyOf", ()):  # mostly a type, or null
        schema = {**schema, **branch} if branch.get("type") != "null" else schema
    kind = str(schema.get("type", "string"))
    if kind == "string" and not _PATHS.isdisjoint(words(name)):
        kind = "path"
    return Parameter(name, schema, required and "default" not in schema, kind)


def fill(
    clause: str, parameters: Sequence[Parameter], told: Set[str], results: Sequence[str]
) -> tuple[list[dict[str, Any]], str]:
    """The argument sets for the calls of a tool, and what is wrong with them, '' if nothing is."""
    # What the tool speaks of is no name of a thing.
    left = [v for v in values(clause) if v.kind != "name" or stem(v.text) not in told]
    arguments: dict[str, Any] = {}
    used: dict[str, Value] = {}
    takes_path = any(parameter.kind == "path" for parameter in parameters)
    # Paths first: whatever takes any text would take them, too.
    for parameter in sorted(parameters, key=lambda p: (p.kind != "path", not p.required)):
        fit = [v for v in left if v.kind != "path" or parameter.kind == "path" or not takes_path]
        if (value := _best(parameter, fit)) is not None:
            left.remove(value)
            used[parameter.name] = value
            arguments[parameter.name] = _typed(value, parameter, results)
        elif (said := _said(parameter, clause, results)) is not None:
            arguments[parameter.name] = said
        elif parameter.required:
            return [], f"nothing gives a value for {parameter.name!r}"
    calls = [arguments]  # and one more for each further value of a sort: 'read a.md and b.md'
    for name, value in used.items():
        more = [v for v in left if v.kind == value.kind != "name"][: _MOST_CALLS - len(calls)]
        left = [v for v in left if v not in more]
        calls += [{**arguments, name: _resolved(v.text, results)} for v in more]
    # A name is a guess, and a question may be asked around it.
    unused = [repr(v.text) for v in left if v.kind != "name" or not is_question(clause)]
    return calls, f"it has no place for {', '.join(unused)}" if unused else ""


def _best(parameter: Parameter, left: Sequence[Value]) -> Value | None:
    """The value for an argument; where nothing demands one, behind its name or as a place."""
    kinds = () if "enum" in parameter.schema else _KINDS.get(parameter.kind, ())
    fits = [value for kind in kinds for value in left if value.kind == kind]
    named = [value for value in fits if value.before in words(parameter.name)]
    places = [v for v in fits if v.kind == "path" or v.before in _INSIDE]
    clear = fits if parameter.required else places if parameter.kind == "path" else []
    return next(iter([*named, *clear]), None)


def _typed(value: Value, parameter: Parameter, results: Sequence[str]) -> Any:
    if value.kind == "number":
        number = float(value.text)
        return int(number) if number.is_integer() else number
    return _resolved(value.text, results) if parameter.kind == "path" else value.text


def _said(parameter: Parameter, clause: str, results: Sequence[str]) -> Any:
    """What the words of a clause say of an argument: an option, a switch, or 'it'."""
    asked, options = set(wanted(clause)), parameter.schema.get("enum")
    if isinstance(options, list):
        return next((option for option in options if asked & set(words(str(option)))), None)
    if parameter.kind == "boolean":
        return True if asked and asked.issuperset(words(parameter.name)) else None
    points_back = parameter.required and parameter.kind == "string" and POINTS_BACK.search(clause)
    return results[-1] if points_back and results else None


def _resolved(path: str, results: Sequence[str]) -> str:
    """The path under which an earlier result knows a file of this name; else as it is."""
    if "/" in path or "*" in path:
        return path
    known = re.compile(rf"(?<![\w~./-])[\w~.-]*(?:/[\w~.-]+)*/{re.escape(path)}(?![\w/-])")
    found = (known.search(result) for result in reversed(results))
    return next((match[0] for match in found if match), path)
