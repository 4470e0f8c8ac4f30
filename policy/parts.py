"""A YAML file as its words, and its places as errors name them: nothing in it is guessed."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, Final, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml  # type: ignore[import-untyped]  # stubs are a package of their own

from ..state.errors import SettingsError

_MOST: Final = 1_000_000
_BOOLEANS: Final = {"yes": True, "no": False, "true": True, "false": False}


class _Words(yaml.BaseLoader):  # type: ignore[misc]  # the library has no types
    """Reads every scalar as the text it is: `no` is a word, `1_000` no number, a date no date."""


def _build_mapping(loader: Any, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = loader.construct_object(key, deep=True)
        if not isinstance(name, str):
            msg = f"line {key.start_mark.line + 1}: a key is one word or several, not a list"
            raise ValueError(msg)  # noqa: TRY004 - what a file holds is a value
        if name in found:
            msg = f"line {key.start_mark.line + 1}: {name!r} stands twice in one place: keep one"
            raise ValueError(msg)
        found[name] = loader.construct_object(value, deep=True)
    return found


_Words.add_constructor("tag:yaml.org,2002:map", _build_mapping)


@dataclass(frozen=True)
class Part:
    """One place of the file, by which errors name it."""

    where: str
    said: Any

    def raise_error(self, what: str) -> NoReturn:
        """Say what is wrong here."""
        msg = f"The policy {self.where}: {what}."
        raise SettingsError(msg)

    def get_part(self, key: str) -> "Part":
        """What stands under a key; nothing may."""
        return Part(f"{self.where}, {key}", self.read_mapping().get(key))

    def read_mapping(self, known: Collection[str] = ()) -> Mapping[str, Any]:
        """The keys here; with `known` no others."""
        if not isinstance(self.said, Mapping):
            self.raise_error("here stand keys with values, such as `tool: get_order`")
        for key in self.said if known else ():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                meant = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
                self.raise_error(f"there is no key {key!r}; {meant}")
        return self.said

    def read_parts(self) -> Iterable[tuple[str, "Part"]]:
        """What stands under each key; nothing where nothing is said."""
        said = {} if self.said in (None, "") else self.read_mapping()
        return [(key, self.get_part(key)) for key in said]

    def read_text(self, default: str | None = None) -> str:
        """A text; without a default there must be one."""
        if self.said is None and default is not None:
            return default
        if not isinstance(self.said, str) or not self.said.strip():
            self.raise_error("here stands a text")
        return self.said.strip()

    def read_texts(self) -> list[str]:
        """One text, or a list of them."""
        said = [self.said] if isinstance(self.said, str) else self.said
        if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
            self.raise_error("here stands a text or a list of texts")
        return [one.strip() for one in said]

    def read_number(self, usual: int) -> int:
        """A whole number from 1 on."""
        text = self.read_text(str(usual))
        if not (text.isdecimal() and 0 < int(text) <= _MOST):
            self.raise_error(f"here stands a whole number from 1 to {_MOST}")
        return int(text)

    def read_boolean(self, *, default: bool) -> bool:
        """Yes or no."""
        if self.said is None:
            return default
        if not isinstance(self.said, str) or self.said.lower() not in _BOOLEANS:
            self.raise_error("here stands yes or no")
        return _BOOLEANS[self.said.lower()]

    def read_choice(self, known: Sequence[str], default: str | None = None) -> str:
        """One of a few words."""
        found = self.read_text(default)
        if found not in known:
            self.raise_error(f"{found!r} is none of {', '.join(known)}")
        return found

    def read_zone(self) -> tzinfo:
        """A time zone, by default UTC."""
        if self.said is None:
            return UTC
        try:
            return ZoneInfo(self.read_text())
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.raise_error(f"{self.said!r} is no time zone: write one such as Europe/Berlin")

    def read_languages(self) -> dict[str, str]:
        """A text by language; one alone is English."""
        if self.said is None:
            return {}
        if isinstance(self.said, str):
            return {"en": self.said.strip()}
        return {key: part.read_text() for key, part in self.read_parts()}


def read_yaml(text: str, loader: Any = yaml.SafeLoader) -> Any:
    """What a YAML text says, without aliases, which multiply; a ValueError says what is wrong."""
    try:
        aliases = [one for one in yaml.scan(text) if isinstance(one, yaml.AliasToken)]
        said = None if aliases else yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    for one in aliases:
        msg = f"line {one.start_mark.line + 1}: *{one.value} is an alias; write out what it means"
        raise ValueError(msg)
    return said


def parse_part(text: str, where: str) -> Part:
    """What a YAML text says; `where` begins each error, a SettingsError."""
    try:
        said = read_yaml(text, _Words)
    except ValueError as error:
        msg = f"The policy {where} is no YAML that can be read: {error}."
        raise SettingsError(msg) from error
    return Part(where, said)
