"""Values in texts: what of a text is a link, an address, an id or a figure, and where it stands.

Characters are compared, of any script; nothing here knows a language. Pure.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from ..text.words import UNSPACED

LONGEST_VALUE: Final = 64
"""Characters; a longer text, and one with white space, is content."""
_LONGEST_PART: Final = 10
"""Characters, such as of the date in a time."""
_LONGEST_NAME: Final = 6
"""Letters of a script without spaces that are a name or a state, and no sentence."""
_LEAST_ID: Final = 6
"""Characters of a number that may be an id; descriptions are full of shorter ones."""
_TOKEN: Final = re.compile(
    # Quotes and signs of any script that stand beside a link and not in it.
    r"[^\s<>()\[\]{}\"`|,;\u00ab\u00bb\u201c-\u201f\u3001\u3002\u300c\u300d\uff08\uff09\uff0c\uff1b]+"
)
_DOTTED: Final = re.compile(r"(?<![A-Za-z-])[A-Za-z-]+(?:\u3002[A-Za-z-]+)+")
"""A host with full stops of Chinese, which browsers read as dots."""
_EDGE: Final = ".:!?'\u2019*_#"
ADDRESS: Final = re.compile(r"\w\.\w|@|/|\d")
"""What makes a token of content an address, a link, an id or a figure."""
NUMBER: Final = re.compile(r"(?<![A-Za-z0-9_.,'@/-])[-+]?\d+(?:[.,'\u00a0\u202f]\d+| \d{3}(?!\d))*")
LINK: Final = re.compile(
    r"(?i)://|^(?:https?:)|^[/\\]{2}|^(?:[^\s/]+@)?(?:[\w-]+(?:\.[\w-]+)+|\d{8,10}|\[[\da-f:.]+\])(?::\d+)?[/?\\]"
)
SCHEME: Final = re.compile(r"(?i)^(?:https?://|mailto:|tel:)")


def is_named(atom: str, value: str, description: str) -> bool:
    """Whether a description names a link, an address or an id: whole, and no figure of a limit."""
    text = fold_text(description)
    small = NUMBER.fullmatch(atom) and len(atom) < _LEAST_ID
    if small and (len(value) < _LEAST_ID or fold_text(value) not in text):
        return False
    return bool(ADDRESS.search(atom)) and stands_whole(fold_text(atom), text)


def is_link(atom: str) -> bool:
    """Whether it leads to a host: with a scheme, or as browsers take it without one."""
    return LINK.search(_show_bare(atom)) is not None


def is_long(atom: str) -> bool:
    """Whether it is an address, or longer than the parts of records that a model may cut out."""
    return "@" in atom or (len(atom) > _LONGEST_PART and bool(ADDRESS.search(atom)))


def stands_whole(value: str, text: str) -> bool:
    """Whether a value stands in a text between its borders: '10' is not in '100', 'a.b' or 'x@a'.

    Both are spelled alike. Scripts without spaces have a border between any two characters.
    """
    if not value:
        return False
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        before, after = text[max(0, at - 2) : at], text[end : end + 2]
        parts_go_on = "/" in value and after[:1] in {*"?&=#%"}
        if not (parts_go_on or _goes_on(before[::-1], value[0]) or _goes_on(after, value[-1])):
            return True
        at = text.find(value, at + 1)
    return False


def _goes_on(beside: str, edge: str) -> bool:
    """Whether the characters beside an edge, nearest first, belong to the same token."""
    if not beside:
        return False
    if _joins(beside[0]):
        return _joins(edge) or edge in "@./-_:+"
    return beside[0] in "@./-_+:'" and len(beside) > 1 and _joins(beside[1])


def _joins(character: str) -> bool:
    return character.isalnum() and not UNSPACED.match(character)


def spell_alike(value: object) -> str:
    """A value as equal ones are spelled: numbers by their value, texts without case."""
    text = fold_text(value if isinstance(value, str) else str(value))
    numbers = read_numbers(text) if NUMBER.fullmatch(text) else ()
    return next(iter(numbers), text)


def fold_text(text: str) -> str:
    """A text as it is compared: composed, without case; `straße` is no `strasse`."""
    return unicodedata.normalize("NFC", text).lower().strip()


def strip_signs(value: str) -> str:
    """A value by its letters and digits, such as an IBAN that was in groups."""
    return re.sub(r"[\W_]", "", fold_text(value))


def read_numbers(text: str) -> list[str]:
    """What a numeral may mean; 1,234 is either of two numbers, 1,23 and 32.8 are one."""
    plain = re.sub(r"[ '\u00a0\u202f]", "", text)
    found: list[str] = []
    for group, point in ((",", "."), (".", ",")):
        grouped = rf"[1-9]\d{{0,2}}(?:\{group}\d{{2,3}})*\{group}\d{{3}}"
        if re.fullmatch(rf"[-+]?(?:\d+|{grouped})(?:\{point}\d+)?", plain):
            number = f"{Decimal(plain.replace(group, '').replace(point, '.')):f}"
            found.append(number.rstrip("0").rstrip(".") if "." in number else number)
    return list(dict.fromkeys(found))


def list_leaves(value: object, path: str = "", *, words: bool = False) -> Iterator[tuple[str, Any]]:
    """The values in a structure with their paths; names are values, mere `words` if that is set."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            place = f"{path}.{name}" if path else str(name)
            if words or not is_word(str(name)):
                yield f"{place}:", str(name)
            yield from list_leaves(one, place, words=words)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for at, one in enumerate(value):
            yield from list_leaves(one, f"{path}[{at}]", words=words)
    elif value is not None and value != "":
        yield path, value


def list_arguments(args: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values in arguments, whose own names a tool has given, and the names in them."""
    for name, value in args.items():
        yield from list_leaves(value, str(name), words=True)


def is_value(value: object) -> bool:
    """Whether it is a value such as an id, a number, a date or an address, and no content."""
    return not isinstance(value, str) or not (
        len(value) > LONGEST_VALUE or re.search(r"\s", value.strip())
    )


def is_plain(data: object) -> bool:
    """Whether all of some data is values that tell a reader nothing but themselves.

    In a script without spaces a longer text, or one with more than letters, may be a sentence.
    """
    return all(is_value(value) and not _may_be_sentence(value) for _, value in list_leaves(data))


def _may_be_sentence(value: object) -> bool:
    if not isinstance(value, str) or not UNSPACED.search(value):
        return False
    return len(value) > _LONGEST_NAME or not value.isalpha()


def is_word(value: str) -> bool:
    """Whether it is a value without a digit or a sign of addresses, so no id, amount or link."""
    return is_value(value) and not ADDRESS.search(value)


def is_short(value: object) -> bool:
    """Whether it is a text that leads nowhere: a name, an IBAN in groups, a token however long."""
    if not isinstance(value, str) or "://" in value or "@" in value:
        return False
    return len(value) <= LONGEST_VALUE or not re.search(rf"\s|{UNSPACED.pattern}", value)


def list_atoms(value: object, *, whole: bool = False) -> Iterator[str]:
    """What of a value may command: the whole of it, or the links, ids and figures of content."""
    if isinstance(value, bool):
        return
    if not isinstance(value, str):
        yield spell_alike(value)
    elif whole or is_value(value):
        yield value
    else:
        for token in (*_TOKEN.findall(value), *_DOTTED.findall(value)):
            bare = token.strip(_EDGE)
            if ADDRESS.search(_show_bare(bare)):
                yield bare


def _show_bare(token: str) -> str:
    """A token as a browser reads it: wide signs as plain ones, without what is not seen."""
    if token.isascii():
        return token
    plain = unicodedata.normalize("NFKC", token).replace("\u3002", ".")
    return "".join(sign for sign in plain if unicodedata.category(sign) != "Cf")
