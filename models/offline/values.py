"""Finds, for one argument of a tool, the values that a clause or earlier results give for it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from .clause import Clause, Finder, from_to, nearest_first, nowhere, said_options
from .literals import Given
from .names import names
from .paths import paths
from .tools import Parameter, Tool, listed
from .words import (
    CHANGES,
    LOOKS,
    STOPWORDS,
    best_related,
    content_words,
    lead,
    stem,
    stems,
    without_courtesy,
    words,
)


def urls(clause: Clause, _parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Links, and bare hosts as https links."""
    for item in clause.of("url"):
        value = item.value if "://" in item.value else f"https://{item.value}"
        yield Given("url", value, item.start, item.end)


def emails(clause: Clause, _parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Mail addresses of the clause, else one an earlier result labels so."""
    yield from clause.of("email")
    told = clause.known.value_of("email", clause.said)
    if isinstance(told, str) and "@" in told:
        yield nowhere(told)


def time_zones(clause: Clause, parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Zones and well-known cities; a default that the argument's description states."""
    yield from from_to(clause, parameter, clause.zones)
    stated = re.search(
        r"(?i)\buse ['\"`]([\w/+-]+)['\"`][^.]*\b(?:if|when) no",
        str(parameter.schema.get("description", "")),
    )
    if stated and parameter.required:
        yield nowhere(stated[1], "default")


def statements(clause: Clause, _parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """A literal SQL statement, also inside quotes or code. Never one made up."""
    for item in clause.given:
        if item.kind == "sql" or (
            item.kind in ("code", "quoted")
            and re.match(
                r"(?i)\s*(?:select|with|insert|update|delete|create|pragma|alter|drop)\b",
                item.value,
            )
        ):
            yield item  # fmt: skip


_ENDINGS: Final = {
    "markdown": "md",
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "json": "json",
    "yaml": "yaml",
    "csv": "csv",
    "html": "html",
    "text": "txt",
    "pdf": "pdf",
    "xml": "xml",
    "sql": "sql",
    "toml": "toml",
    "log": "log",
}


def globs(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """A glob as given, one for a named file type, or one around a word to look for."""
    deep = "**/" if "**/" in f"{parameter.about} {tool.description}" else ""
    for item in clause.of("glob"):
        here = "/" in item.value or re.search(
            r"(?i)\bhere\b|\b(?:this|current) (?:folder|dir)", clause.text
        )
        yield Given("glob", item.value if here else f"{deep}{item.value}", item.start, item.end)
    match = re.search(r"(?i)(?<![\w/])\.?(\w{2,10})[ -]files?\b", clause.bare)
    if match and match[1].lower() in {*_ENDINGS, *_ENDINGS.values()}:
        yield Given(
            "glob",
            f"{deep}*.{_ENDINGS.get(match[1].lower(), match[1].lower())}",
            match.start(1),
            match.end(1),
        )
    if parameter.required:
        for item in clause.of("path"):
            yield Given("glob", f"{deep}{item.value}", item.start, item.end)
        for item in searches(clause, parameter, tool):
            yield Given(
                "glob",
                item.value if "*" in item.value else f"{deep}*{item.value}*",
                item.start,
                item.end,
            )
        yield nowhere(f"{deep}*", "default")


def dates(clause: Clause, parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Dates of the clause; relative ones are resolved where the format asks for a date."""
    named = set(parameter.name_words)
    late = bool(named & stems("end until before to due deadline checkout"))
    early = bool(named & stems("start since after from begin"))
    for item in clause.of("date"):
        cue = set(clause.before(item, 1))
        if late and not early and cue & stems("since after from"):
            continue
        if early and not late and cue & stems("until before to by"):
            continue
        relative_welcome = re.search(r"relative|yesterday|ago|natural", parameter.about)
        value = (
            item.value
            if relative_welcome
            else _iso(item.value, str(parameter.schema.get("format", "")))
        )
        yield Given("date", value, item.start, item.end)


def _iso(said: str, wanted: str) -> str:
    """A date as ISO 8601 where it is a plain relative day; other spellings stay as they are."""
    days = {"today": 0, "tomorrow": 1, "yesterday": -1}.get(said.lower())
    ago = re.match(r"(?i)(\d+)\s(day|week)s?\sago", said)
    if ago:
        days = -int(ago[1]) * (7 if ago[2].lower() == "week" else 1)
    if days is None or abs(days) > 100_000:
        return (
            f"{said}T00:00:00Z"
            if wanted == "date-time" and re.fullmatch(r"\d{4}-\d\d-\d\d", said)
            else said
        )
    day = (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    return f"{day}T00:00:00Z" if wanted == "date-time" else day


def times(clause: Clause, _parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Clock times as HH:MM in 24 hours."""
    for item in clause.of("time"):
        match = re.match(r"(?i)(\d{1,2})(?::(\d\d))?(?::\d\d)?\s?([ap])?", item.value)
        if not match:
            yield Given(
                "time",
                {"noon": "12:00", "midnight": "00:00"}[item.value.lower()],
                item.start,
                item.end,
            )
            continue
        hour = int(match[1]) % 12 + 12 * (match[3].lower() == "p") if match[3] else int(match[1])
        yield Given("time", f"{hour:02d}:{match[2] or '00'}", item.start, item.end)


_LIMITS: Final = stems(
    "limit count max maximum top size n num number results head tail first last lines days k"
)


def numbers(clause: Clause, parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Numbers: next to a word of the argument for optional ones, any for required ones."""
    names = [*parameter.name_words, *words(parameter.about[:120])]
    near: list[Given] = []
    far: list[Given] = []
    for item in clause.of("number"):
        cue = clause.before(item, 1)[:1]
        around = [*clause.before(item, 2), *clause.after(item, 2)]
        contrary = {"first": "last", "last": "first"}.get(cue[0] if cue else "")
        if contrary and contrary in names and cue[0] not in names:
            continue
        limit = bool(set(parameter.name_words) & _LIMITS) and set(cue) & stems(
            "last first top latest most recent newest only to show list"
        )
        close = any(
            word in names for word in around if word not in STOPWORDS or word in ("first", "last")
        )
        (near if close or limit else far).append(item)
    yield from near
    if parameter.required:
        yield from far
        told = clause.known.value_of(parameter.name, clause.said)
        if isinstance(told, int) or (
            isinstance(told, str) and re.fullmatch(r"-?\d+(?:\.\d+)?", told)
        ):
            yield nowhere(str(told))


_SOUGHT_END: Final = (
    r"\s+(?:the\s+(?:words?|text|phrase|term)\s+)?(.+?)(?=\s+(?:in|under|inside|within|from|"
    r"on|across|of)\s+"
    r"(?:the|my|our|this|all|every|any|\S*[/.])|\s*[.?!]*\s*$|,|\s{2}|\s+(?:and|then|or)\s)"
)


# What introduces the words to look for, the surest first.
_SOUGHT: Final = tuple(
    re.compile(rf"(?im)\b(?:{cue}){_SOUGHT_END}")
    for cue in (
        r"mention(?:s|ing|ed)?|contain(?:s|ing)?|matching|with the (?:word|name|text)s?|"
        r"the words?|phrase|named|"
        r"called|erwähnen|enthalten",
        r"(?:search|look|grep|query)(?:ing|es)?(?:\s+\w+){0,3}?\s+for|about|regarding|sobre|über",
        r"for|find|on|search|grep",
    )
)


def searches(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """What to look for: quoted, or after 'mention', 'for', 'about'; else the clause's own words."""
    yield from nearest_first(clause, parameter, clause.of("quoted", "code"))
    yield from clause.of("id")
    for match in (match for cue in _SOUGHT for match in cue.finditer(clause.bare)):
        sought = re.sub(r"(?i)^(?:(?:the|a|an|all|any|every)\s+)+", "", match[1].strip())
        if sought and content_words(sought):
            yield Given("phrase", sought, match.start(1), match.end(1))
    if parameter.required:
        own = {*tool.name_words, *tool.first_words}
        left = [
            m for m in re.finditer(r"[^\W_][\w-]*", clause.bare) if m[0].lower() not in STOPWORDS
        ]
        left = [m for m in left if not best_related(stem(m[0]), own)] or left
        if left:
            yield Given("phrase", " ".join(m[0] for m in left)[:200], -1, -1)


_SAYING: Final = re.compile(
    r"(?is)\b(?:saying|says?|content|contents|text|body|message|note|containing|"
    r"with)\b\s*[:=]\s*(\S.*)|"
    r"\b(?:saying|that says|with (?:the )?(?:content|text|body|message)|the (?:message|"
    r"text))\s+(?!about\b|of\b|from\b|that\b|in\b|is\b)(\S.*)"
)


def texts(clause: Clause, parameter: Parameter, tool: Tool) -> Iterator[Given]:
    """Free text the clause gives word for word. Never text made up."""
    yield from nearest_first(clause, parameter, clause.of("quoted", "code"))
    match = _SAYING.search(clause.text)
    if match:
        yield Given("text", (match[1] or match[2]).strip(), match.start(), match.end())
    verb = lead(clause.text)
    if verb in tool.name_words and verb not in CHANGES | LOOKS and len(tool.required) == 1:
        rest = re.sub(r"^\S+\s*", "", without_courtesy(clause.text))
        if rest and not clause.of("quoted", "code"):
            yield Given("text", rest, clause.text.find(rest), len(clause.text))
    named = re.search(
        rf"(?is)\b{re.escape(parameter.name)}\s+(?!about\b|of\b|from\b|to\b|in\b)(\w.*)",
        clause.text,
    )
    if (
        named
        and not match
        and best_related(stem(parameter.name), tool.name_words + tool.first_words)
    ):
        yield Given("text", named[1].strip(), named.start(1), named.end(1))


def enums(clause: Clause, parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """Allowed values that the clause says."""
    if "const" in parameter.schema:
        yield nowhere(str(parameter.schema["const"]))
        return
    options = [str(option) for option in listed(parameter.schema.get("enum"))]
    yield from said_options(clause, options)
    if parameter.required and "default" not in parameter.schema:
        yield from (
            nowhere(option, "default")
            for option in options
            if option.lower() in ("all", "any", "auto")
        )


def booleans(clause: Clause, parameter: Parameter, _tool: Tool) -> Iterator[Given]:
    """True where the clause says the argument's name or asks for everything below."""
    names = [
        word
        for word in parameter.name_words
        if word not in STOPWORDS and word not in ("is", "include")
    ]
    deep = any(word.startswith("recurs") for word in names)
    if (
        deep
        and re.search(
            r"(?i)\b(?:every|recursive\w*|subfolders?|everywhere|nested|tree|below)\b", clause.bare
        )
    ) or (names and all(best_related(word, clause.said) == 1.0 for word in names)):
        yield nowhere("true")
    elif parameter.required:
        yield nowhere("false", "default")


FINDERS: Final[dict[str, Finder]] = {
    "url": urls,
    "email": emails,
    "zone": time_zones,
    "sql": statements,
    "glob": globs,
    "path": paths,
    "date": dates,
    "time": times,
    "number": numbers,
    "query": searches,
    "text": texts,
    "enum": enums,
    "boolean": booleans,
    "name": names,
}
