"""Finds secrets by their names and places, and masks them in texts and data.

Whatever is shown or stored has `MASK` in their place. No call may be made with a mask in it, which
`is_masked` finds.
"""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from .pieces import Pieces

MASK: Final = "…masked…"

_NAMES: Final = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|(ACCESS|PRIVATE|MASTER|SIGNING|ACCOUNT)_?KEY"
    r"|DSN|CONN(ECTION)?_?STR"
)
_WEAKER: Final = frozenset({"KEY", "KEYS", "PASS", "PWD", "AUTH", "AUTHORIZATION", "COOKIE", "PAT"})
"""Words whose values are secrets unless they are words themselves, such as AUTH=anonymous."""
_ABOUT: Final = frozenset({
    "FILE", "PATH", "DIR", "URL", "URI", "SOCK", "NAME", "TYPE", "MODE", "METHOD", "ENABLED", "TTL",
    "EXPIRY", "EXPIRES", "LIMIT", "COUNT", "LENGTH", "SIZE", "HOST", "PORT", "PROVIDER", "VERSION",
})  # fmt: skip
"""A name that ends so tells something about a secret."""
_MEASURES: Final = frozenset({"MAX", "MIN", "NUM", "BUDGET"})
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
_OPEN_HEADERS: Final = re.compile(
    r"accept|content-|user-agent$|host$|origin$|referer$|connection$|cache-control$|mcp-|date$"
)

# Shorter values, and these, are words that texts hold for other reasons.
_SHORTEST: Final = 8
_NO_BOUNDS: Final = 12
_COMMON: Final = frozenset({
    "password", "required", "optional", "disabled", "anonymous", "undefined", "changeme",
    "development", "production", "localhost", "00000000", "12345678",
})  # fmt: skip

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|[0-9]+")
_IN_URL: Final = re.compile(r"(?<=://)([^\s/@:'\"]*:)[^\s/@'\"]+(?=@)")
_PAIR: Final = re.compile(r"(?<!\w)(\w+)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s;&,]+)")
_FLAG: Final = re.compile(r"--?([\w-]+)(?:=(.*))?", re.DOTALL)
_LONG: Final = 16
_MOST_PASSING: Final = 6_000
_MOST_RECENT: Final = 300
_URL_SAFE: Final = str.maketrans("+/", "-_")


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a secret."""
    return _classify_name(name) != ""


_OF_FORMS: Final = frozenset({"PWD", "PIN", "OTP", "TAN", "CVC", "CVV"})


def list_secret_fields(schema: object) -> list[str]:
    """The fields of a form that want a secret, by their names, titles and format."""
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    return [str(n) for n, f in fields.items() if _is_secret_field(str(n), f)] if fields else []


def _is_secret_field(name: str, field: Any) -> bool:
    about = field if isinstance(field, Mapping) else {}
    named = (name, str(about.get("title", "")))
    words = {word.upper() for one in named for word in _WORD.findall(one)}
    is_named = bool(_OF_FORMS & words) or any(_classify_name(one) == "surely" for one in named)
    return about.get("format") == "password" or is_named


def _classify_name(name: str) -> str:
    words = [word.upper() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _ABOUT or _MEASURES & set(words) or name in _FOLDERS:
        return ""
    if _NAMES.search("_".join(words)) or _NAMES.search(name.upper()):
        return "surely"
    return "perhaps" if _WEAKER & set(words) else ""


def find_secrets(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The secrets among named values: those under names of secrets, and credentials in others."""
    for name, value in named:
        text, kind = value.strip(), _classify_name(name)
        yield from _find_in_text(text)
        if kind == "surely" or (kind and not text.isalpha()):
            yield text
            yield from _lines(text)


def find_header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """The secrets in headers: every word of those that do not say something harmless."""
    for name, value in headers.items():
        if _OPEN_HEADERS.match(name.lower()):
            continue
        for word in re.split(r"[\s;,]+", value):
            yield word
            yield word.partition("=")[2]
            yield from _decode_basic(word)


def find_argument_secrets(args: Iterable[str]) -> Iterator[str]:
    """The secrets on a command line: what follows a flag with the name of a secret."""
    before = ""
    for arg in args:
        flag = _FLAG.fullmatch(arg)
        if flag and flag[2] is not None:
            yield from find_secrets([(flag[1].replace("-", "_"), flag[2])])
        else:
            yield from find_secrets([(before, arg)])
        before = flag[1].replace("-", "_") if flag and flag[2] is None else ""


def _find_in_text(text: str) -> Iterator[str]:
    """The secrets in a URL, in `password=…` pairs, or in a JSON object."""
    if "://" in text:
        yield from _find_in_url(text)
    if "=" in text:
        pairs = ((name, value.strip("'\"")) for name, value in _PAIR.findall(text))
        yield from (
            v for name, v in pairs if _classify_name(name) == "surely" or name.upper() == "PWD"
        )
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return
        items = [(k, v) for k, v in found.items() if isinstance(v, str)]
        yield from find_secrets(items)


def _find_in_url(text: str) -> Iterator[str]:
    try:
        url = urlsplit(text)
        user, word = url.username or "", url.password or ""
        query = parse_qsl(url.query)
    except ValueError:
        return
    if word:
        yield from (word, unquote(word), f"://{user}:{word}@")
        yield base64.b64encode(f"{unquote(user)}:{unquote(word)}".encode()).decode()
    elif len(user) > _LONG:
        yield user
    yield from (value for name, value in query if is_secret_name(name))


def _lines(text: str) -> Iterator[str]:
    """The lines of a key of several lines, which may be repeated in other line breaks."""
    if "\n" in text:
        lines = (line.strip() for line in text.splitlines())
        yield from (n for n in lines if len(n) >= _LONG and not n.startswith("-----"))


def _decode_basic(word: str) -> Iterator[str]:
    """The password behind a word of Basic authentication."""
    try:
        text = base64.b64decode(word, validate=True).decode()
    except ValueError:
        return
    if ":" in text:
        yield from (text, text.partition(":")[2])


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield value.replace("/", "\\/")
    for part in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield part
        yield re.sub("%..", lambda code: code[0].lower(), part)
    data = value.encode("utf-8", "replace")
    yield data.hex()
    yield data.hex().upper()
    yield base64.b64encode(data).decode()
    yield from _encode_base64(data)


def _encode_base64(data: bytes) -> Iterator[str]:
    """Its base64 at any place of a longer text, as in `user:password`."""
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        whole = (before + len(data)) * 8 // 6  # characters that nothing behind it changes
        text = base64.b64encode(bytes(before) + data).decode()[shared:whole]
        yield text
        yield text.translate(_URL_SAFE)


class Secrets:
    """Masks given secrets, and our own, in texts and data."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Begin with these, without short ones and common words."""
        self._spelled: tuple[str, ...] = ()
        self._passing: tuple[str, ...] = ()
        self._values: tuple[str, ...] = ()
        self._recent: tuple[str, ...] = ()
        self._pieces = Pieces()
        self.learn(values)

    def learn(self, values: Iterable[str], *, passing: bool = False) -> None:
        """Add secrets; of `passing` ones, such as users' tokens, only the newest stay.

        Safe to call from any thread.
        """
        good = [v for v in values if len(v) >= _SHORTEST and v.lower() not in _COMMON]
        spelled = sorted({part for value in good for part in _spellings(value)}, key=len)[::-1]
        self._learn_pieces(good, passing=passing)
        if passing:
            self._passing = tuple(dict.fromkeys([*spelled, *self._passing]))[:_MOST_PASSING]
        elif not set(spelled) <= set(self._spelled):
            self._spelled = tuple(sorted({*self._spelled, *spelled}, key=len, reverse=True))

    def _learn_pieces(self, good: Sequence[str], *, passing: bool) -> None:
        before = {*self._values, *self._recent}
        if passing:
            self._recent = tuple(dict.fromkeys([*good, *self._recent]))[:_MOST_RECENT]
        else:
            self._values = tuple(dict.fromkeys([*self._values, *good]))
        if before != (now := {*self._values, *self._recent}):
            self._pieces = Pieces(now)

    def mask_words(self, text: str) -> str:
        """What a server says in words, without secrets; a password in an address never is shown."""
        return _IN_URL.sub(rf"\1{MASK}", self.mask_text(text))

    def mask_text(self, text: str) -> str:
        """The text without secrets."""
        return str(self._mask(text, self._find_present(text)))

    def mask_json(self, value: Any) -> Any:
        """A JSON value without secrets, in its keys as well."""
        if isinstance(value, str):
            return self.mask_text(value)
        text = "\n".join(_iter_texts(value))
        found = self._find_present(text) or any(p.may_be_in(text) for p in self._list_pieces())
        return self._mask(value, list(self._list_known())) if found else value

    def _mask(self, value: Any, known: list[str]) -> Any:
        """A JSON value without the spellings that are known, and without pieces of secrets."""
        if isinstance(value, str):
            for part in known:
                value = _mask_value(value, part)
            for pieces in self._list_pieces():
                value = pieces.hide(value, MASK)
            return value
        if isinstance(value, Mapping):
            return {self._mask(k, known): self._mask(v, known) for k, v in value.items()}
        return [self._mask(v, known) for v in value] if isinstance(value, list | tuple) else value

    def _list_pieces(self) -> Iterator[Pieces]:
        yield self._pieces
        if (own := read_own_secrets()) is not self:
            yield own._pieces

    def _find_present(self, text: str) -> list[str]:
        return [value for value in self._list_known() if value in text]

    def _list_known(self) -> Iterator[str]:
        yield from self._spelled
        yield from self._passing
        if (own := read_own_secrets()) is not self:
            yield from own._spelled


def _iter_texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value as they are, keys as well."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part


def _mask_value(text: str, value: str) -> str:
    if len(value) >= _NO_BOUNDS or not value.isalnum():
        return text.replace(value, MASK)
    return re.sub(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])", MASK, text)


_environment: Final[Mapping[bytes, bytes]] = vars(os.environ).get("_data", {})
"""As the interpreter keeps it: each text that is shown asks whether it has changed."""
_newest: Final[list[tuple[Mapping[bytes, bytes], Secrets]]] = []


def read_own_secrets() -> Secrets:
    """The secrets of this process: those in its environment, which may change."""
    if _environment and _newest and _newest[0][0] == _environment:
        return _newest[0][1]
    before = dict(_environment)
    named = ((n, v) for n, v in os.environ.items() if "://" in v or _classify_name(n))
    secrets = Secrets(find_secrets(named))
    _newest[:] = [(before, secrets)]
    return secrets


def is_masked(value: Any) -> bool:
    """Whether a secret was masked somewhere in a JSON value."""
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, Mapping):
        return any(is_masked(part) for item in value.items() for part in item)
    return isinstance(value, list | tuple) and any(map(is_masked, value))
