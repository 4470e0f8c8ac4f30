"""What a text gives word for word: quoted strings, code, SQL, links, paths, times, zones."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zoneinfo import available_timezones


@dataclass(frozen=True)
class Given:
    """One literal: its kind, its value, and where it stands in the text (offsets in characters)."""

    kind: str
    value: str
    start: int
    end: int


_SQL: Final = re.compile(
    r"(?<![\"'`“«])\b((?:SELECT|WITH|INSERT\s+INTO|DELETE\s+FROM|CREATE\s+TABLE|ALTER\s+TABLE|"
    r"DROP\s+TABLE|PRAGMA|UPDATE"
    r"(?=\s+\w+\s+SET))\b.+?)(?=;|\n|\.?\s{0,9}$|\.\s[A-Z]|,?\s+(?:and\s+)?then\b|"
    r",?\s+and\s+(?:tell|show|say)\b)"
)
# Whole spans, the first kind that matches a place wins.
_SPANS: Final = (
    ("sql", _SQL),
    ("code", re.compile(r"```(?:[A-Za-z]+\n)?(.*?)```|`([^`\n]+)`", re.DOTALL)),
    (
        "quoted",
        re.compile(
            r'"([^"]*)"|“([^“”]*)”|„([^„“”]*)[“”]|«([^«»]*)»|「([^「」]*)」|'
            r"(?<!\w)\'([^\'\n]+)\'(?!\w)|\u2018([^\u2018\u2019\n]+)\u2019(?!\w)"
        ),
    ),
    (
        "sql",
        re.compile(
            r"(?i)\b(?:run|execute|query|sql)\W+((?:select|insert into|update|delete from|"
            r"pragma)\b[^;\n]+)"
        ),
    ),
    ("url", re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>\"'`]+|www\.[^\s<>\"'`]+)")),
    ("email", re.compile(r"([\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+)")),
    (
        "date",
        re.compile(r"\b(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?)?)(?!\w)"),
    ),
    (
        "date",
        re.compile(
            r"(?i)\b(\d+\s(?:day|week|month|year|hour)s?\sago|(?:last|next|this)\s(?:week|"
            r"month|year|monday|tuesday|"
            r"wednesday|thursday|friday|saturday|sunday)|yesterday|today|tomorrow|"
            r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\s\d{1,2}(?:st|nd|"
            r"rd|th)?,?(?:\s\d{4})?|"
            r"\d{1,2}(?:st|nd|rd|th)?\s(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|"
            r"dec)[a-z]{0,6}(?:\s\d{4})?)\b"
        ),
    ),
    (
        "time",
        re.compile(
            r"(?i)(?<![\w:])(\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\b)?|\d{1,2}\s?[ap]m|noon|"
            r"midnight)\b"
        ),
    ),
    (
        "id",
        re.compile(
            r"(?<![\w/.-])#?([A-Z]{1,8}[-_]\d[\w-]*|"
            r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40})(?![\w/.])"
        ),
    ),
)
_TOKEN: Final = re.compile(r"[^\s,;\"'`<>()\[\]{}|]+")
_FILE: Final = re.compile(r"(?:[\w~@%+-][\w.@%+-]*)?\.[A-Za-z][A-Za-z0-9]{0,9}")
_HOST: Final = re.compile(r"(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|dev|eu|uk)(?:/\S*)?")
_NOT_PATH: Final = re.compile(
    r"(?i)(?:and/or|or/and|yes/no|he/she|his/her|either/or|[\d./]+|[a-z]/[a-z]|e\.g|i\.e|a\.m|"
    r"p\.m|etc|vs|km/h|n/a|node\.js)\.?"
)
_NUMBER: Final = re.compile(
    r"(?<![\w.:/-])([-\N{MINUS SIGN}]?\d+(?:,\d{3})*(?:\.\d+)?)(?=%|°|[a-zA-Z]{1,2}\b|[^\w]|$)"
)
_NUMBER_WORDS: Final = {
    word: str(value)
    for value, word in enumerate(
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ],
        start=1,
    )
}
_NUMBER_WORD: Final = re.compile(rf"(?i)\b({'|'.join(_NUMBER_WORDS)})\b")


# Texts longer than this are read up to here, unless they hold one long literal.
_READ: Final = 50_000


def readable(text: str) -> str:
    """A text cut to what is read of it; one that holds a long quoted literal stays whole."""
    if len(text) <= _READ:
        return text
    quoted = (
        match
        for kind, pattern in _SPANS
        if kind in ("quoted", "code")
        for match in pattern.finditer(text)
    )
    whole = any(match.end() - match.start() > _READ // 2 for match in quoted)
    return text if whole else text[:_READ].rsplit(" ", 1)[0]


@lru_cache(maxsize=64)
def literals(text: str) -> tuple[Given, ...]:
    """Everything given word for word, in order; spans never overlap."""
    found: list[Given] = []
    rest = text
    for kind, pattern in _SPANS:
        hits = [_given(kind, match) for match in pattern.finditer(rest)]
        found += hits
        rest = _blank(rest, hits)
    paths = list(_paths(rest))
    rest = _blank(rest, paths)
    numbers = [_given("number", match) for match in _NUMBER.finditer(rest)]
    numbers += [
        Given("number", _NUMBER_WORDS[match[1].lower()], match.start(), match.end())
        for match in _NUMBER_WORD.finditer(rest)
    ]
    return tuple(sorted(found + paths + numbers, key=lambda given: given.start))


def _given(kind: str, match: re.Match[str]) -> Given:
    value = next((group for group in match.groups() if group is not None), "")
    if kind in ("url", "sql"):
        value = value.rstrip(".,;:!?)")
        if value.count("(") > value.count(")"):
            value += ")"
    end = (
        match.end()
        if kind in ("code", "quoted")
        else match.start() + match[0].find(value) + len(value)
    )
    return Given(kind, value.replace(",", "") if kind == "number" else value, match.start(), end)


def _paths(text: str) -> Iterable[Given]:
    for match in _TOKEN.finditer(text):
        token = match[0].rstrip(".:!?…。") if not re.fullmatch(r"\.{1,2}/?", match[0]) else match[0]
        kind = path_kind(token)
        if kind:
            yield Given(kind, token, match.start(), match.start() + len(token))


def path_kind(token: str) -> str:
    """'path', 'glob' or 'url' (a bare host) where the token looks like one, else ''."""
    if not token or len(token) > 500 or _NOT_PATH.fullmatch(token):
        return ""
    if "*" in token:
        return "glob" if len(token) > 1 else ""
    if _HOST.fullmatch(token):
        return "url"
    slashed = ("/" in token or "\\" in token) and any(char.isalnum() for char in token)
    return "path" if slashed or _FILE.fullmatch(token) or token in ("/", "./", "~", "~/") else ""


def _blank(text: str, hits: Iterable[Given]) -> str:
    parts, at = [], 0
    for hit in sorted(hits, key=lambda given: given.start):
        parts += [text[at : hit.start], " " * (hit.end - hit.start)]
        at = hit.end
    return "".join([*parts, text[at:]])


def without(text: str, given: Iterable[Given]) -> str:
    """The text with these literals blanked out, offsets unchanged."""
    return _blank(text, given)


_CITIES: Final = {
    city: zone
    for zone, cities in {
        "America/Los_Angeles": "san francisco, seattle, san diego, las vegas, pst, pacific time",
        "America/New_York": "boston, washington, miami, atlanta, nyc, est, eastern time",
        "America/Chicago": "houston, dallas, austin",
        "Asia/Shanghai": "beijing, peking, shenzhen, china",
        "Asia/Tokyo": "osaka, kyoto, tokio, japan",
        "Asia/Kolkata": "mumbai, delhi, new delhi, bangalore, india",
        "Europe/Berlin": "munich, hamburg, frankfurt, cologne, germany",
        "Europe/Madrid": "barcelona, spain",
        "Europe/Zurich": "geneva",
        "Europe/Rome": "milan, naples, italy",
        "Europe/London": "edinburgh, manchester, london",
        "Europe/Moscow": "saint petersburg",
        "Asia/Dubai": "abu dhabi",
        "Asia/Jerusalem": "tel aviv",
        "America/Sao_Paulo": "rio de janeiro, sao paulo, são paulo",
        "America/Toronto": "montreal, ottawa",
        "Africa/Johannesburg": "cape town",
        "Pacific/Auckland": "wellington",
        "Australia/Sydney": "canberra",
        "Europe/Paris": "lyon, cet, france",
        "Europe/Kyiv": "kiev",
        "UTC": "utc",
        "Etc/GMT": "gmt",
        "Asia/Seoul": "korea",
    }.items()
    for city in cities.split(", ")
}


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """Zone names by the lower-case name of their city, plus the table above."""
    named: dict[str, str] = {}
    for key in sorted(available_timezones()):
        area, _, city = key.rpartition("/")
        if area and area.split("/")[0] not in (
            "Etc",
            "US",
            "Canada",
            "Mexico",
            "Brazil",
            "Chile",
            "SystemV",
        ):
            named.setdefault(city.replace("_", " ").lower(), key)
    return {**named, **_CITIES}


def zones(text: str) -> list[Given]:
    """IANA zone names for the zones and cities a text mentions, in order."""
    known, found, taken = _zones(), [], 0
    tokens = list(re.finditer(r"[^\W\d_]+(?:[/_+-][\w+-]+)*", text[:20_000]))
    for index, token in enumerate(tokens):
        if token.start() < taken:
            continue
        for length in (3, 2, 1):
            last = tokens[min(index + length, len(tokens)) - 1]
            name = text[token.start() : last.end()]
            zone = (
                name if "/" in name and name in available_timezones() else known.get(name.lower())
            )
            if zone and (name[0].isupper() or _after_preposition(text[: token.start()])):
                found.append(Given("zone", zone, token.start(), last.end()))
                taken = last.end()
                break
    return found


def _after_preposition(before: str) -> bool:
    return bool(re.search(r"(?i)\b(?:in|for|from|to|at|and|en|à|,)\s*$", before[-12:]))
