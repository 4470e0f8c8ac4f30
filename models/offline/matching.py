"""What a goal says, and which tool does it, with which arguments. Pure.

There is one rule: each word of a clause is a word of the tool, or the value of an argument. A call
would leave undone what is neither, so such a tool does not match. Only words of a question may be
neither: then the result must hold them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...state.agent import COMPLETE_TASK
from ...text.sentences import OFFLINE_WORDS
from ...text.words import words_in
from ...tools.catalog import READ_RESULT
from ...tools.python_tools import LLM_CALL

READ: Final = 40_000  # characters of a text that are read: matching must stay fast on any input


def _build_pattern(name: str) -> str:
    """A pattern for the phrases of a list, which stand one on a line."""
    return "|".join(map(re.escape, sorted(OFFLINE_WORDS[name].splitlines(), key=len, reverse=True)))


def _split(text: str) -> list[str]:
    return [*words_in(text[:READ], asked=False)]


_FIRST: Final = {
    word: group[0] for group in map(_split, OFFLINE_WORDS["alike"].splitlines()) for word in group
}
_EMPTY: Final = frozenset(_split(OFFLINE_WORDS["empty"]))


def _stem_words(text: str) -> list[str]:
    """The stems of all words; of those that mean alike the first stands for the others."""
    return [_FIRST.get(word, word) for word in _split(text)]


_LEADS, _PATHS, _CHANGES, _LOOKS = (
    frozenset(_stem_words(OFFLINE_WORDS[name])) for name in ("leads", "paths", "changes", "looks")
)
_TURNING: Final = re.compile(rf"(?i)\b(?:{'|'.join(OFFLINE_WORDS['turning'].split())})\b")
_QUESTION: Final = re.compile(rf"(?i)(?:{_build_pattern('questions')})\b")
_POLITE: Final = rf"(?:{_build_pattern('courtesy')}|(?P<can>{_build_pattern('requests')}))\b"
_COURTESY: Final = re.compile(rf"(?i)(?:[-*•\s,]|\d+[.)](?=\s|$)|{_POLITE})*")
_POINTS_BACK: Final = re.compile(rf"(?i)\b(?:{_build_pattern('points_back')})\b")
ERROR: Final = re.compile(rf"(?i)\s*(?:{_build_pattern('errors')})\b")
_QUOTED: Final = r"`[^`\n]+`|\"[^\"]*\"|“[^“”]*”|(?<!\w)'[^'\n]+'(?!\w)"
_CUT: Final = rf"\n|(?<=[.!?;])\s+|;|,?(?<!\s)\s+(?:{_build_pattern('cuts')})\s+|,\s+"
_PIECE: Final = re.compile(rf"(?i)(?:{_QUOTED}|(?!{_CUT}).)+")
_NAME: Final = r"(?<=\s)[A-Z][\w-]*(?:\s+[A-Z][\w-]*)+"
_TOKEN: Final = re.compile(rf"{_QUOTED}|{_NAME}|[^\s\"`“]+")
_KINDS: Final = {
    "number": re.compile(r"[$€£]?-?\d+(?:\.\d+)?[%$€£]?"),
    "path": re.compile(r"(?i)[\w~.*-]*/[\w/.*~-]*|[\w*-][\w.*-]*\.[a-z]\w{0,7}|https?://.+"),
    "text": re.compile(r"(?=.*\d)(?=.*[A-Za-z:_-])[\w.:+-]+|[\w.+-]+@[\w.-]+"),
}


def words(text: str) -> list[str]:
    """The stems of the words that mean something, each once, in their order."""
    return list(dict.fromkeys(_FIRST.get(w, w) for w in _split(text) if w not in _EMPTY))


def clauses(goal: str) -> list[str]:
    """Cut a goal at sentences, lines, commas, 'and' and 'then', but never inside quotes.

    A piece of one word asks for nothing by itself and stays with its neighbour.
    """
    found: list[str] = []
    for piece in _PIECE.findall(goal[:READ]):
        courtesy = _COURTESY.match(piece)
        ends = " .!,;?" if courtesy and courtesy["can"] else " .!,;"
        clause = piece[courtesy.end() if courtesy else 0 :].strip().rstrip(ends)
        if found and clause and min(len(_TOKEN.findall(one)) for one in (clause, found[-1])) < 2:
            found[-1] = f"{found[-1]} and {clause}"
        elif re.search(r"[^\W_]", clause):
            found.append(clause)
    if len(goal) > READ:
        found.append(f"… {len(goal) - READ:,} more characters, which were not read")
    return found or ([goal] if goal else [])


def is_question(clause: str) -> bool:
    """Whether it asks to be told something, rather than to have something done."""
    return _QUESTION.match(clause) is not None


class Value(NamedTuple):
    """A `text` in quotes or like A-100, a `path`, a `number`, or a `name` or a mere `word`.

    A name is a guess: it has a capital, or follows 'in', 'for' and the like, or a number.
    """

    kind: str
    text: str
    before: str  # the stem of the word in front


_WORDS: Final = ("name", "word")


def read_values(clause: str) -> list[Value]:
    """The values and words of a clause, but those that mean nothing; names side by side are one."""
    found, before = list[Value](), ""
    for token in _TOKEN.findall(clause[:READ]):
        bare = token.strip(",;:!?()'").rstrip(".").removesuffix("'s")
        kinds = [kind for kind, pattern in _KINDS.items() if pattern.fullmatch(bare)]
        if re.fullmatch(_QUOTED, token):
            found.append(Value("text", token[1:-1], before))
        elif kinds or words(bare):
            capital = bool(before) and (bare.istitle() or bare.isupper())
            named = capital or before in _LEADS or before.isdecimal()
            found.append(Value([*kinds, "name" if named else "word"][0], bare, before))
        before = (_stem_words(token) or [""])[-1]
    return found


def find_unsaid(values: Iterable[Value], text: str) -> list[Value]:
    """The values and words that a text does not hold; what turns a meaning is held by none."""
    said, turns = {*_stem_words(text)}, _TURNING.search
    return [v for v in values if turns(v.text) or not said.issuperset(_stem_words(v.text) or [""])]


class Parameter(NamedTuple):
    """One argument of a tool; of a string that names a file or an address the kind is 'path'."""

    name: str
    kind: str
    required: bool
    options: Sequence[Any] = ()


class Tool(NamedTuple):
    """A tool: its arguments, None if unknown, and the first sentence of its description."""

    name: str
    parameters: Sequence[Parameter] | None
    about: str
    changes: bool


_OURS: Final = frozenset({
    READ_RESULT, COMPLETE_TASK, "write_todos", "summarize_and_continue", "recall", "note",
    "find_tools", "read_skill", "delegate_to_agent", "remember", "recall_memories", "forget",
    LLM_CALL,
})  # fmt: skip
"""Tools that no words of a goal ask for."""


def read_tools(specs: Iterable[Mapping[str, Any]]) -> list[Tool]:
    """Read tools as a request offers or lists them, but for our own."""
    functions = [spec.get("function", spec) for spec in specs]
    return [_read_tool(function) for function in functions if function["name"] not in _OURS]


def _read_tool(spec: Mapping[str, Any]) -> Tool:
    about = re.split(r"[.;](?:\s|$)|\n", str(spec.get("description") or ""), maxsplit=1)[0]
    changes = not _CHANGES.isdisjoint([*words(spec["name"])[:1], *words(about)[:1]])
    schema = spec.get("parameters", spec.get("arguments"))
    if schema is None:
        return Tool(spec["name"], None, about, changes)
    parameters = []
    for name, field in schema.get("properties", {}).items():
        branches = [field, *field.get("anyOf", ())]  # mostly a type, or null
        kind = next((b["type"] for b in branches if b.get("type", "null") != "null"), "string")
        kind = "path" if kind == "string" and _PATHS.intersection(_stem_words(name)) else kind
        required = name in schema.get("required", ()) and "default" not in field
        parameters.append(Parameter(name, kind, required, field.get("enum") or ()))
    return Tool(spec["name"], parameters, about, changes)


class Match(NamedTuple):
    """The calls that a clause wants and the tool they are of, or why there are none."""

    tool: str = ""
    calls: Sequence[dict[str, Any]] = ()
    why: str = "no offered tool does what it asks."
    overlap: Sequence[float] = ()


def match(clause: str, tools: Sequence[Tool], results: Sequence[str] = ()) -> Match:
    """Choose the tool for a clause and fill its arguments, also from earlier results."""
    found = [fit for tool in tools if (fit := _match(clause, tool, results))]
    return max(found, key=lambda fit: (bool(fit.calls), fit.overlap), default=Match())


def _match(clause: str, tool: Tool, results: Sequence[str]) -> Match | None:
    """The calls of one tool, or their missing arguments; None if it does no such work."""
    values, about = read_values(clause), f"{tool.name} {tool.about}"
    rest = [v for v in values if v.kind not in _WORDS or find_unsaid([v], about)]
    shared = [word for value in values if value not in rest for word in words(value.text)]
    calls, unplaced, problem = _fill(clause, rest, tool, results)
    if clause.endswith("?") and tool.changes:
        return None
    if is_question(clause):
        # What is asked of a file or an address, its text may say.
        opens = _LOOKS.intersection([*words(tool.name)[:1], *words(tool.about)[:1]])
        looks = opens and any(value.kind == "path" for value in values)
        if tool.changes or not (looks or len(unplaced) <= len(shared) > 0):
            return None
        unplaced = [value for value in unplaced if value.kind not in _WORDS]
    elif {*words(about)}.isdisjoint(words(clause.partition(" ")[0])[:1]):
        return None  # the verb is first: "do not write it" is no wish to write it
    problem = problem or (f"it has no place for {unplaced[0].text!r}" if unplaced else "")
    named = words(tool.name)
    needs = sum(parameter.required for parameter in tool.parameters or ())
    overlap = (len(shared) + len({*shared} & {*named}), needs, -len(named))
    why = f"{tool.name} matches, but {problem}." if problem else ""
    return Match(tool.name, () if why else calls, why, overlap)


# The kinds of arguments that take a value that is no text or name, the likeliest first.
_TAKERS: Final = {"path": ("path", "string"), "number": ("integer", "number"), "word": ()}


def _fill(
    clause: str, values: Sequence[Value], tool: Tool, results: Sequence[str]
) -> tuple[list[dict[str, Any]], list[Value], str]:
    """The arguments of the calls, the values that have no place, and what is missing."""
    if tool.parameters is None:
        return [{}], [value for value in values if value.kind == "word"], ""
    asked = {word for value in values for word in words(value.text)}
    arguments = {p.name: o for p in tool.parameters for o in p.options if asked & {*words(str(o))}}
    placed = dict[Value, Parameter]()
    for value in sorted(values, key=lambda value: value.kind != "path"):
        free = [p for p in tool.parameters if p.name not in arguments]
        if place := _find_place(value, free, tool):
            arguments[place.name] = _convert(value, place.kind, results)
            placed[value] = place
    missing = [p.name for p in tool.parameters if p.required and p.name not in arguments]
    if missing and results and _POINTS_BACK.search(clause):
        arguments[missing.pop(0)] = results[-1]
    said = " ".join(f"{name} {value}" for name, value in arguments.items())
    unplaced, calls = find_unsaid([v for v in values if v not in placed], said), [arguments]
    if len(placed) == len(arguments) == 1:  # one more call for each of a kind: 'read a.md and b.md'
        [(first, place)] = placed.items()
        more = [value for value in unplaced if value.kind == first.kind != "name"][:10]
        calls += [{place.name: _convert(value, place.kind, results)} for value in more]
        unplaced = [value for value in unplaced if value not in more]
    return calls, unplaced, f"nothing gives a value for {missing[0]!r}" if missing else ""


def _find_place(value: Value, free: Sequence[Parameter], tool: Tool) -> Parameter | None:
    """The argument that a value suits best, or none: what changes something takes no guess."""
    takers = _TAKERS.get(value.kind, ("string", "path"))
    if value.kind == "path" and any(one.kind == "path" for one in tool.parameters or ()):
        takers = ("path",)

    def rank(one: Parameter) -> tuple[int, ...]:
        named = value.before in _stem_words(one.name)
        sure = named or one.required or (one.kind == "path" and value.kind != "text")
        return (named, -takers.index(one.kind), one.required) if sure else ()

    fit = [one for one in free if one.kind in takers and not one.options and rank(one)]
    return None if tool.changes and value.kind == "name" else max(fit, key=rank, default=None)


def _convert(value: Value, kind: str, results: Sequence[str]) -> Any:
    """A value as its argument takes it; a file's name as the path an earlier result knows."""
    if value.kind == "number":
        return int(number) if (number := float(value.text.strip("$€£%"))).is_integer() else number
    if kind != "path" or "/" in value.text or "*" in value.text:
        return value.text
    known = re.compile(rf"(?<![\w~./-])[\w~.-]*(?:/[\w~.-]+)*/{re.escape(value.text)}(?![\w/-])")
    found = (known.search(result) for result in reversed(results))
    return next((match[0] for match in found if match), value.text)
