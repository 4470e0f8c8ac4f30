"""Finds, for one argument of a tool, the values that a clause or earlier results give for it."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from .offline_known import Known
from .offline_literals import Given, literals, without, zones
from .offline_tools import Parameter, Tool
from .offline_words import (
    CHANGES,
    LOOKS,
    STOPWORDS,
    best_related,
    content_words,
    lead,
    raw_words,
    stem,
    without_courtesy,
    words,
)


# Characters of a clause that patterns run over; its literals are found in all of it.
_MATCHED: Final = 8_000


@dataclass
class Clause:
    """One clause with its literals found, and the spans a call has used up."""

    text: str
    known: Known = field(default_factory=Known)
    used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Find the literals once."""
        self.given = literals(self.text)
        self.whole = self.text
        bare = without(self.text, [item for item in self.given if item.kind not in ("date", "number")])
        self.text, self.bare = self.text[:_MATCHED], bare[:_MATCHED]
        self.zones = zones(without(self.whole, self.given)[:_MATCHED])
        self.zones += [
            Given("zone", item.value, item.start, item.end)
            for item in self.given
            if item.kind == "path" and zones(item.value)
        ]
        self.zones.sort(key=lambda item: item.start)
        self.said = content_words(self.text)

    def of(self, *kinds: str) -> list[Given]:
        """The literals of these kinds in order."""
        return [item for item in self.given if item.kind in kinds]

    def before(self, item: Given, reach: int = 3) -> list[str]:
        """The stems of the words just before a literal, nearest first."""
        return words(self.whole[max(0, item.start - 80) : item.start])[::-1][:reach]

    def after(self, item: Given, reach: int = 2) -> list[str]:
        """The stems of the words just after a literal."""
        return words(self.whole[item.end : item.end + 60])[:reach]


Finder = Callable[[Clause, Parameter, Tool], Iterable[Given]]

_URL: Final = {stem(word) for word in ("url", "uri", "link", "href", "website", "webpage")}
_MAIL: Final = {stem(word) for word in ("email", "mail", "recipient", "recipients", "attendee", "attendees", "cc")}
_ZONE: Final = {stem(word) for word in ("timezone", "tz", "zone")}
_PATH: Final = {
    stem(word) for word in ("path", "paths", "file", "files", "filename", "filepath", "dir", "directory", "folder", "cwd", "root")
}  # fmt: skip
_ENDS: Final = {stem(word) for word in ("source", "destination", "src", "dest", "dst", "target")}
_QUERY: Final = {
    stem(word) for word in ("query", "search", "q", "keyword", "keywords", "term", "terms", "needle", "pattern", "regex", "phrase", "topic", "question")
}  # fmt: skip
_TEXT: Final = {
    stem(word) for word in ("content", "contents", "body", "text", "message", "comment", "note", "description", "summary", "data", "insight", "reason", "prompt", "script", "observation", "observations", "fact", "feedback")
}  # fmt: skip
_DATE: Final = {
    stem(word) for word in ("date", "day", "since", "until", "before", "after", "timestamp", "deadline", "due", "start", "end", "when")
}  # fmt: skip
_ORDER: Final = (
    "enum", "url", "email", "zone", "sql", "glob", "path", "date", "time", "number", "boolean", "text", "query", "name", "array", "object",
)  # fmt: skip


def kind_of(parameter: Parameter, tool: Tool) -> str:
    """What sort of value an argument takes, by type, format, name and description."""
    schema, about = parameter.schema, parameter.about
    kind = str(schema.get("type", "string"))
    if schema.get("enum") or "const" in schema:
        return "enum"
    if kind in ("array", "object", "boolean"):
        return kind
    if kind in ("integer", "number"):
        return "number"
    return _by_format(schema) or _by_words(set(parameter.name_words), about, tool)


def _by_format(schema: Any) -> str:
    formats = {"uri": "url", "url": "url", "email": "email", "date": "date", "date-time": "date", "time": "time"}
    return formats.get(str(schema.get("format", "")), "")


def _by_words(named: set[str], about: str, tool: Tool) -> str:
    purpose = f"{tool.name} {tool.description}".lower()
    files = bool({"file", "directory", "folder", "directories"} & set(re.findall(r"[a-z]+", purpose)))
    tests: tuple[tuple[bool, str], ...] = (
        (bool(named & _URL), "url"),
        (bool(named & _ZONE) or "iana" in about, "zone"),
        (bool(named & _MAIL) and "name" not in named, "email"),
        ("sql" in named or (bool(named & _QUERY | named & {"statement"}) and "sql" in f"{about} {purpose}"), "sql"),
        (bool(named & {"pattern", "glob"}) and "regular expression" not in about and ("glob" in f"{about} {purpose}" or "*." in about), "glob"),
        (bool(named & _PATH) or (bool(named & _ENDS) and files), "path"),
        (bool(named & _DATE) and "time" not in named, "date"),
        (bool(named & {"time"}) or "hh:mm" in about, "time"),
        (bool(named & _TEXT) and "id" not in named and "name" not in named, "text"),
        (bool(named & _QUERY), "query"),
    )  # fmt: skip
    return next((kind for holds, kind in tests if holds), "name")


def in_order(tool: Tool) -> list[tuple[Parameter, str]]:
    """The tool's arguments with their kinds: required before optional, particular before general."""
    kinds = [(parameter, kind_of(parameter, tool)) for parameter in tool.parameters]
    return sorted(kinds, key=lambda item: (not item[0].required, _ORDER.index(_inner(*item, tool))))


def _inner(parameter: Parameter, kind: str, tool: Tool) -> str:
    """For a list of texts 'text', so that it is filled before names are; else the kind itself."""
    items = parameter.schema.get("items") if kind == "array" else None
    plain = isinstance(items, dict) and items.get("type") not in ("object", "array")
    return "text" if plain and _by_words(set(parameter.name_words), parameter.about, tool) == "text" else kind


def _nowhere(value: str, kind: str = "told") -> Given:
    return Given(kind, value, -1, -1)


def _nearest_first(clause: Clause, parameter: Parameter, items: list[Given]) -> list[Given]:
    """Literals introduced by a word of the argument's name come first, then by order."""
    names = [word for word in parameter.name_words if word not in STOPWORDS]
    return sorted(items, key=lambda item: -max((best_related(word, clause.before(item)) for word in names), default=0))


def _from_to(clause: Clause, parameter: Parameter, items: list[Given], strict: bool = False) -> list[Given]:
    """Order two-ended arguments (source, target) by 'from' and 'to', else by mention."""
    named = set(parameter.name_words)
    first = bool(named & {stem(w) for w in ("source", "src", "from", "origin", "old", "base", "departure")})
    second = bool(named & {stem(w) for w in ("target", "dest", "destination", "dst", "to", "new", "arrival")})
    if first == second or len(items) < 2:
        return items
    cue = ("from", "of") if first else ("to", "into", "in", "as", "with", "onto")
    hinted = [item for item in items if clause.before(item, 1) and clause.before(item, 1)[0] in {stem(c) for c in cue}]
    rest = [item for item in items if item not in hinted]
    if strict and not hinted:
        return []
    if first:
        return items if not hinted or hinted[0] == items[0] else [*hinted, *rest]
    return [*[item for item in hinted if item != items[0]], *[i for i in items[1:] if i not in hinted], items[0]]


def urls(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Links, and bare hosts as https links."""
    for item in clause.of("url"):
        value = item.value if "://" in item.value else f"https://{item.value}"
        yield Given("url", value, item.start, item.end)


def emails(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Mail addresses of the clause, else one an earlier result labels so."""
    yield from clause.of("email")
    told = clause.known.value_of("email", clause.said)
    if isinstance(told, str) and "@" in told:
        yield _nowhere(told)


def time_zones(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Zones and well-known cities; a default that the argument's description states."""
    yield from _from_to(clause, parameter, clause.zones)
    stated = re.search(r"(?i)\buse ['\"`]([\w/+-]+)['\"`][^.]*\b(?:if|when) no", str(parameter.schema.get("description", "")))
    if stated and parameter.required:
        yield _nowhere(stated[1], "default")


def statements(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """A literal SQL statement, also inside quotes or code. Never one made up."""
    for item in clause.given:
        if item.kind == "sql" or (item.kind in ("code", "quoted") and re.match(r"(?i)\s*(?:select|with|insert|update|delete|create|pragma|alter|drop)\b", item.value)):
            yield item  # fmt: skip


_ENDINGS: Final = {
    "markdown": "md", "python": "py", "javascript": "js", "typescript": "ts", "json": "json", "yaml": "yaml",
    "csv": "csv", "html": "html", "text": "txt", "pdf": "pdf", "xml": "xml", "sql": "sql", "toml": "toml", "log": "log",
}  # fmt: skip


def globs(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """A glob as given, one for a named file type, or one around a word to look for."""
    deep = "**/" if "**/" in f"{parameter.about} {tool.description}" else ""
    for item in clause.of("glob"):
        here = "/" in item.value or re.search(r"(?i)\bhere\b|\b(?:this|current) (?:folder|dir)", clause.text)
        yield Given("glob", item.value if here else f"{deep}{item.value}", item.start, item.end)
    match = re.search(r"(?i)(?<![\w/])\.?(\w{2,10})[ -]files?\b", clause.bare)
    if match and match[1].lower() in {*_ENDINGS, *_ENDINGS.values()}:
        yield Given("glob", f"{deep}*.{_ENDINGS.get(match[1].lower(), match[1].lower())}", match.start(1), match.end(1))
    if parameter.required:
        for item in clause.of("path"):
            yield Given("glob", f"{deep}{item.value}", item.start, item.end)
        for item in searches(clause, parameter, tool):
            yield Given("glob", item.value if "*" in item.value else f"{deep}*{item.value}*", item.start, item.end)
        yield _nowhere(f"{deep}*", "default")


_FOLDER: Final = re.compile(
    r"(?i)\b(?:(?:in|of|from|under|inside|into)\s+)(?:the\s+|my\s+|our\s+)?[\"']?([\w.-]+)[\"']?\s+(?:folder|directory|dir|subfolder)\b|"
    r"\b(?:folder|directory|dir|subfolder)\s+(?:named\s+|called\s+)?[\"']?((?!in\b|of\b|and\b|or\b|named\b|is\b|are\b|tree\b|for\b|to\b)[\w.-]+)[\"']?"
)
_FILES_IN: Final = re.compile(
    r"(?i)\b(?:files?|folders?|everything|contents?|documents?|what(?:'s| is))\s+(?:in|of|under|inside)\s+(?:the\s+)?"
    r"([a-z][\w-]*)(?=\s*(?:$|[.?!,]|and\b|ha(?:ve|s)\b|do\b))"
)
_EACH: Final = re.compile(r"(?i)\b(?:each|every one|all of (?:them|these|those)|them|both|these|those)\b")


def paths(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Paths of the clause as earlier results know them, named folders, known files by name."""
    folder = wants_folder(parameter, tool)
    items = [Given("path", clause.known.resolve(item.value), item.start, item.end) for item in clause.of("path")]
    items = [item for item in items if item.value not in {zone.value for zone in clause.zones}]
    items = _from_to(clause, parameter, _nearest_first(clause, parameter, items))
    if re.search(r"repo", parameter.name.lower()):
        near = {stem(word) for word in ("in", "at", "repo", "repository", "path", "inside", "under")}
        items = [item for item in items if item.value[:1] in "/~." or near & set(clause.before(item, 1))]
    items = items if folder else _in_folder(clause, items)
    is_file = re.compile(r"\.\w{1,8}$").search
    yield from (item for item in items if folder != bool(is_file(item.value)))
    named = _FOLDER.search(clause.bare)
    if named and (folder or not items):
        found = named[1] or named[2]
        if found.lower() not in STOPWORDS and found.lower() not in ("current", "working", "root", "main", "whole"):
            place = 1 if named[1] else 2
            yield Given("path", clause.known.resolve(found), named.start(place), named.end(place))
    if re.search(_EACH, clause.text):
        yield from (_nowhere(path, "item") for path in clause.known.latest_paths() if folder != bool(is_file(path)))
    inside = _FILES_IN.search(clause.bare) if folder and not items and not named else None
    if inside and inside[1].lower() not in STOPWORDS:
        yield Given("path", clause.known.resolve(inside[1]), inside.start(1), inside.end(1))
    yield from (
        Given("misfit", item.value, item.start, item.end)
        for item in items
        if folder and is_file(item.value) and not tool.action
    )
    if not folder:
        yield from _files_by_name(clause)
        yield from (item for item in items if not is_file(item.value))
    elif parameter.required:
        yield _nowhere(".", "default")


def _in_folder(clause: Clause, items: list[Given]) -> list[Given]:
    """'notes.md in docs/old' as 'docs/old/notes.md'; the folder is then no file of its own."""
    files = [item for item in items if re.search(r"\.\w{1,8}$", item.value)]
    folders = [item for item in items if item not in files and set(clause.before(item, 2)) & {"in", "from", "of", "under", "insid"}]
    if not files or not folders:
        return items
    inside = folders[0].value.rstrip("/")
    joined = [Given("path", i.value if "/" in i.value else f"{inside}/{i.value}", i.start, i.end) for i in files]
    return joined


def wants_folder(parameter: Parameter, tool: Tool) -> bool:
    """Whether a path argument means a folder (or a repository's root) rather than a file."""
    said = f"{parameter.name} {parameter.about}".lower()
    if re.search(r"dir|folder|repo|cwd|root", said):
        return True
    if re.search(r"file", said) or any(stem(w) in tool.name_words for w in ("read", "write", "append", "edit", "open")):
        return False
    listing = {stem(word) for word in ("list", "search", "find", "tree", "directory", "folder", "glob", "grep", "dir")}
    return bool(listing & set(tool.name_words))


def _files_by_name(clause: Clause) -> Iterator[Given]:
    for item in clause.of("quoted", "code"):
        if re.fullmatch(r"[\w./ -]{1,200}", item.value) and "." in item.value:
            yield Given("path", clause.known.resolve(item.value), item.start, item.end)
    for found in clause.known.path_named(clause.said):
        yield _nowhere(found)
    for match in re.finditer(r"\b[A-Z]{5,20}\b|\b[A-Z][a-z]+file\b", clause.bare):
        yield Given("path", clause.known.resolve(match[0]), match.start(), match.end())


def dates(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Dates of the clause; relative ones are resolved where the format asks for a date."""
    named = set(parameter.name_words)
    late = bool(named & {stem(word) for word in ("end", "until", "before", "to", "due", "deadline", "checkout")})
    early = bool(named & {stem(word) for word in ("start", "since", "after", "from", "begin")})
    for item in clause.of("date"):
        cue = set(clause.before(item, 1))
        if late and not early and cue & {stem(word) for word in ("since", "after", "from")}:
            continue
        if early and not late and cue & {stem(word) for word in ("until", "before", "to", "by")}:
            continue
        relative_welcome = re.search(r"relative|yesterday|ago|natural", parameter.about)
        value = item.value if relative_welcome else _iso(item.value, str(parameter.schema.get("format", "")))
        yield Given("date", value, item.start, item.end)


def _iso(said: str, wanted: str) -> str:
    """A date as ISO 8601 where it is a plain relative day; other spellings stay as they are."""
    days = {"today": 0, "tomorrow": 1, "yesterday": -1}.get(said.lower())
    ago = re.match(r"(?i)(\d+)\s(day|week)s?\sago", said)
    if ago:
        days = -int(ago[1]) * (7 if ago[2].lower() == "week" else 1)
    if days is None or abs(days) > 100_000:
        return f"{said}T00:00:00Z" if wanted == "date-time" and re.fullmatch(r"\d{4}-\d\d-\d\d", said) else said
    day = (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    return f"{day}T00:00:00Z" if wanted == "date-time" else day


def times(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Clock times as HH:MM in 24 hours."""
    for item in clause.of("time"):
        match = re.match(r"(?i)(\d{1,2})(?::(\d\d))?(?::\d\d)?\s?([ap])?", item.value)
        if not match:
            yield Given("time", {"noon": "12:00", "midnight": "00:00"}[item.value.lower()], item.start, item.end)
            continue
        hour = int(match[1]) % 12 + 12 * (match[3].lower() == "p") if match[3] else int(match[1])
        yield Given("time", f"{hour:02d}:{match[2] or '00'}", item.start, item.end)


_LIMITS: Final = {
    stem(word) for word in ("limit", "count", "max", "maximum", "top", "size", "n", "num", "number", "results", "head", "tail", "first", "last", "lines", "days", "k")
}  # fmt: skip


def numbers(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Numbers: next to a word of the argument for optional ones, any for required ones."""
    names = [*parameter.name_words, *words(parameter.about[:120])]
    near, far = [], []
    for item in clause.of("number"):
        cue = clause.before(item, 1)[:1]
        around = [*clause.before(item, 2), *clause.after(item, 2)]
        contrary = {"first": "last", "last": "first"}.get(cue[0] if cue else "")
        if contrary and contrary in names and cue[0] not in names:
            continue
        limit = bool(set(parameter.name_words) & _LIMITS) and set(cue) & {stem(w) for w in ("last", "first", "top", "latest", "most", "recent", "newest", "only", "to", "show", "list")}
        close = any(word in names for word in around if word not in STOPWORDS or word in ("first", "last"))
        (near if close or limit else far).append(item)
    yield from near
    if parameter.required:
        yield from far
        told = clause.known.value_of(parameter.name, clause.said)
        if isinstance(told, int) or (isinstance(told, str) and re.fullmatch(r"-?\d+(?:\.\d+)?", told)):
            yield _nowhere(str(told))


_SOUGHT_END: Final = (
    r"\s+(?:the\s+(?:words?|text|phrase|term)\s+)?(.+?)(?=\s+(?:in|under|inside|within|from|on|across|of)\s+"
    r"(?:the|my|our|this|all|every|any|\S*[/.])|\s*[.?!]*\s*$|,|\s{2}|\s+(?:and|then|or)\s)"
)
# What introduces the words to look for, the surest first.
_SOUGHT: Final = tuple(
    re.compile(rf"(?im)\b(?:{cue}){_SOUGHT_END}")
    for cue in (
        r"mention(?:s|ing|ed)?|contain(?:s|ing)?|matching|with the (?:word|name|text)s?|the words?|phrase|named|"
        r"called|erwähnen|enthalten",
        r"(?:search|look|grep|query)(?:ing|es)?(?:\s+\w+){0,3}?\s+for|about|regarding|sobre|über",
        r"for|find|on|search|grep",
    )
)


def searches(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """What to look for: quoted, or after 'mention', 'for', 'about'; else the clause's own words."""
    yield from _nearest_first(clause, parameter, clause.of("quoted", "code"))
    yield from clause.of("id")
    for match in (match for cue in _SOUGHT for match in cue.finditer(clause.bare)):
        sought = re.sub(r"(?i)^(?:(?:the|a|an|all|any|every)\s+)+", "", match[1].strip())
        if sought and content_words(sought):
            yield Given("phrase", sought, match.start(1), match.end(1))
    if parameter.required:
        own = {*tool.name_words, *tool.first_words}
        left = [m for m in re.finditer(r"[^\W_][\w-]*", clause.bare) if m[0].lower() not in STOPWORDS]
        left = [m for m in left if not best_related(stem(m[0]), own)] or left
        if left:
            yield Given("phrase", " ".join(m[0] for m in left)[:200], -1, -1)


_SAYING: Final = re.compile(
    r"(?is)\b(?:saying|says?|content|contents|text|body|message|note|containing|with)\b\s*[:=]\s*(\S.*)|"
    r"\b(?:saying|that says|with (?:the )?(?:content|text|body|message)|the (?:message|text))\s+(?!about\b|of\b|from\b|that\b|in\b|is\b)(\S.*)"
)


def texts(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Free text the clause gives word for word. Never text made up."""
    yield from _nearest_first(clause, parameter, clause.of("quoted", "code"))
    match = _SAYING.search(clause.text)
    if match:
        yield Given("text", (match[1] or match[2]).strip(), match.start(), match.end())
    verb = lead(clause.text)
    if verb in tool.name_words and verb not in CHANGES | LOOKS and len(tool.required) == 1:
        rest = re.sub(r"^\S+\s*", "", without_courtesy(clause.text))
        if rest and not clause.of("quoted", "code"):
            yield Given("text", rest, clause.text.find(rest), len(clause.text))
    named = re.search(rf"(?is)\b{re.escape(parameter.name)}\s+(?!about\b|of\b|from\b|to\b|in\b)(\w.*)", clause.text)
    if named and not match and best_related(stem(parameter.name), tool.name_words + tool.first_words):
        yield Given("text", named[1].strip(), named.start(1), named.end(1))


def enums(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Allowed values that the clause says."""
    if "const" in parameter.schema:
        yield _nowhere(str(parameter.schema["const"]))
        return
    options = [str(option) for option in parameter.schema.get("enum") or ()]
    yield from said_options(clause, options)
    if parameter.required and "default" not in parameter.schema:
        yield from (_nowhere(option, "default") for option in options if option.lower() in ("all", "any", "auto"))


def said_options(clause: Clause, options: Iterable[str]) -> Iterator[Given]:
    """Those of some values whose words all stand in the clause, longest first."""
    for option in sorted(options, key=len, reverse=True):
        whole = re.search(rf"(?i)(?<!\w){re.escape(option)}(?!\w)", clause.text)
        parts = words(option)
        if whole:
            yield Given("option", option, whole.start(), whole.end())
        elif parts and all(best_related(part, clause.said) for part in parts):
            yield _nowhere(option)


def booleans(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """True where the clause says the argument's name or asks for everything below."""
    names = [word for word in parameter.name_words if word not in STOPWORDS and word not in ("is", "include")]
    deep = any(word.startswith("recurs") for word in names)
    if deep and re.search(r"(?i)\b(?:every|recursive\w*|subfolders?|everywhere|nested|tree|below)\b", clause.bare):
        yield _nowhere("true")
    elif names and all(best_related(word, clause.said) == 1.0 for word in names):
        yield _nowhere("true")
    elif parameter.required:
        yield _nowhere("false", "default")


_PROPER: Final = re.compile(
    r"(?:(?<=\bin )|(?<=\bfor )|(?<=\bat )|(?<=\bof )|(?<=\babout )|(?<=\bon )|(?<=\bfrom )|(?<=\bto )|(?<=\bby )|"
    r"(?<=\bwith )|(?<=\bnamed )|(?<=\bcalled )|(?<=\band )|(?<=, ))(?:the )?([^\W\d_a-z][\w'.-]*(?:\s[^\W\d_a-z][\w'.-]*)*)"
)
_LOWER: Final = re.compile(
    r"(?i)\b(?:in|for|about|of|at|on)\s+(?:the\s+)?([^\W\d_][\w-]*(?:\s+(?!(?:in|on|at|for|to|today|tomorrow|now|and|or|is|are|this|next|last|from|by)\b)[^\W\d_][\w-]*)?)"
)


def names(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Names and ids: labelled in the clause, fitting the pattern, quoted, proper names, earlier results."""
    yield from _options_in_description(clause, parameter)
    yield from _labelled(clause, parameter, tool)
    yield from _shaped(clause, parameter)
    told = clause.known.value_of(parameter.name, clause.said)
    is_id = bool({"id", "key", "sku", "code"} & set(parameter.name_words))
    if is_id:
        yield from clause.of("id")
        if parameter.required:
            yield from clause.of("number")
    if told is not None and is_id:
        yield _nowhere(str(told))
    if parameter.required:
        yield from _free_names(clause, parameter, tool)


def _free_names(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    literal = _nearest_first(clause, parameter, clause.of("quoted", "code", "id"))
    yield from _from_to(clause, parameter, literal, strict=True)
    own = {*parameter.name_words, *tool.name_words}
    if re.search(_EACH, clause.text):
        yield from (_nowhere(item, "item") for item in clause.known.items())
    told = clause.known.labelled([word for word in clause.said if word not in tool.name_words])
    if told:
        yield _nowhere(told)
    yield from (_nowhere(item, "item") for item in clause.known.items() if stem(item) in clause.said)
    for token in clause.known.words_shared([word for word in clause.said if word not in own]):
        if not best_related(stem(token), own):
            yield _nowhere(token)
    proper = [Given("proper", m[1].rstrip(".,"), m.start(1), m.end(1)) for m in _PROPER.finditer(clause.bare)]
    yield from _from_to(clause, parameter, proper)
    told = clause.known.value_of(parameter.name, clause.said)
    if told is not None:
        yield _nowhere(str(told))
    yield from clause.of("path", "email")
    for match in _LOWER.finditer(clause.bare):
        if content_words(match[1]) and not best_related(stem(match[1]), own) and match[1].split()[0].lower() not in STOPWORDS:
            also = re.match(r"(?:,| and)\s+([^\W\d_][\w-]*)\s*(?:$|[.?!,]|and\b|in\b|from\b)", clause.bare[match.end(1) :])
            both = also is not None and " " not in match[1] and also[1].lower() not in STOPWORDS
            yield Given("proper" if both else "phrase", match[1], match.start(1), match.end(1))
            if both and also:
                start = match.end(1) + also.start(1)
                yield Given("proper", also[1], start, start + len(also[1]))


def _options_in_description(clause: Clause, parameter: Parameter) -> Iterator[Given]:
    """Values the description lists in quotes: said ones, else 'all' for a required argument."""
    about = str(parameter.schema.get("description", ""))
    if re.search(r"(?i)\be\.?g\b|example|such as|\blike\b", about):
        return
    options = re.findall(r"['\"`]([\w-]{1,30})['\"`]", about)
    if len(options) < 2:
        return
    yield from said_options(clause, options)
    if parameter.required:
        usual = [option for option in options if option.lower() in ("all", "any")] or options[:1]
        yield _nowhere(usual[0], "default")


def _labelled(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """'order 17', 'branch named x', 'the customers table': a value beside the argument's noun."""
    nouns = [w for w in re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", parameter.name).lower()) if w not in ("id", "ids", "name", "names", "number", "key", "code")]
    stop = r"(?:in|of|on|to|from|for|by|with|and|or|the|a|an|is|are|was|named|called|that|which|has|have|does|do|then|at|as|"
    stop = f"{stop}against|between|since|until|before|after|into|over|about|via|per|it|this)\\b"
    if parameter.required:
        owned = [w for w in raw_words(tool.name)[1:] if stem(w) not in LOOKS | CHANGES]
        nouns = [*nouns[::-1], *(re.sub(r"(?<=\w)s$", "", re.sub(r"ies$", "y", w.lower())) for w in owned)]
    for noun in dict.fromkeys(nouns):
        plural = f"(?-i:(?:s|{'ies' if noun.endswith('y') else 'es'})(?=\\s+[\"A-Z\\d]))?"
        after = rf"(?i)\b{noun[:-1] + '(?:y|(?=ies))' if noun.endswith('y') else noun}{plural}\s+(?:(?:named|called|number|no\.?|id|is|of)\s+)?[:=#]?\s*[\"'`]?(?!{stop})([\w@./-]*[\w])"
        for match in re.finditer(after, clause.text):
            yield Given("labelled", match[1], match.start(1), match.end(1))
            also = re.match(r"[\"'`]?(?:\s*,\s*|,?\s+and\s+)[\"'`]?([A-Z][\w-]*|\d\w*)", clause.text[match.end(1) :])
            if also:
                start = match.end(1) + also.start(1)
                yield Given("labelled", also[1], start, start + len(also[1]))
        for match in re.finditer(rf"(?i)(?<![\w])(?!{stop})([\w-]+)\s+{noun}\b", clause.text):
            if match[1].lower() not in STOPWORDS and not re.fullmatch(r"(?i)new|list|show|describe|switch|current|create|delete|open|whole|get|check|cancel|update", match[1]):
                yield Given("labelled", match[1], match.start(1), match.end(1))
    for match in re.finditer(r"(?i)\b(?:named|called|titled)\s+[\"'`]?([\w@./-]*\w)", clause.text):
        yield Given("labelled", match[1], match.start(1), match.end(1))


def _shape(text: str) -> str:
    return re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", re.sub(r"\d+", "9", text)))


def _shaped(clause: Clause, parameter: Parameter) -> Iterator[Given]:
    """Words that fit the argument's pattern, or look like one of its examples."""
    about = str(parameter.schema.get("description", ""))
    examples = [str(item) for item in parameter.schema.get("examples") or ()]
    examples += [m for m in re.findall(r"(?:e\.g\.?,?|example:?|such as|like)\s*['\"`]?([\w-]+)", about)]
    shapes = {_shape(item) for item in examples if re.search(r"\d|^[A-Z]{2,}$", item)}
    pattern = str(parameter.schema.get("pattern") or "")
    for match in re.finditer(r"[\w@.-]*\w", clause.text[:5_000]):
        if (shapes and _shape(match[0]) in shapes) or (pattern and len(match[0]) < 100 and _fits(pattern, match[0])):
            yield Given("shaped", match[0], match.start(), match.end())


def _fits(pattern: str, text: str) -> bool:
    try:
        return bool(re.search(pattern, text)) and pattern.startswith("^")
    except re.error:
        return False


def closest(wanted: str, options: Iterable[str]) -> str | None:
    """The option nearest in spelling to a value that was refused."""
    lowered = {option.lower(): option for option in options}
    near = difflib.get_close_matches(wanted.lower(), list(lowered), n=1, cutoff=0.5)
    return lowered[near[0]] if near else None


FINDERS: Final[dict[str, Finder]] = {
    "url": urls, "email": emails, "zone": time_zones, "sql": statements, "glob": globs, "path": paths,
    "date": dates, "time": times, "number": numbers, "query": searches, "text": texts, "enum": enums,
    "boolean": booleans, "name": names,
}  # fmt: skip
