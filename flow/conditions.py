"""Conditions on a result, such as `count > 0 and rows[0].name is not empty`. Pure; no code is run.

A condition is one or more comparisons joined by `and`. What is compared is a part of the result,
written as in references without braces: `rows[0].total`, `Exchange Rate`. `result`, `value` or
`output` is the whole of it, `length(PATH)` or `len(PATH)` how much a part holds. It is compared by
`==`, `!=`, `>`, `>=`, `<`, `<=` or `contains` with a JSON value or a text, in quotes or without;
or it `is empty`, `is not empty`, `exists` or `is missing`. A number that the result spells as text
counts as that number.
"""

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from ..state.told import say
from .references import MissingValue, is_whole, malformed_in, resolve

_SHOWN: Final = 200
_LONGEST: Final = 2_000

_ROOT: Final = "result"
_WHOLE: Final = re.compile(r"(?:result|value|output)(?![^.\[])")
_AND: Final = re.compile(r"(?<!\S)(?:and|And|AND)(?!\S)|&&")
_OR: Final = re.compile(r"(?<!\S)(?:or|Or|OR)(?!\S)|\|\|")
_OPERATOR: Final = re.compile(r"==|!=|>=|<=|>|<|(?<=\s)contains(?=\s)")
_STATE: Final = re.compile(r"\s(is\s+not\s+empty|is\s+empty|exists|is\s+missing)$")
_LENGTH: Final = re.compile(r"(?:length|len)\s*\((.*)\)", re.DOTALL)
_ODD_PATH: Final = re.compile(r"[=<>!]|^not\s|\snot$")
_CLOSING: Final = {"[": "]", "(": ")", "{": "}"}


class Malformed(Exception):
    """A check that cannot be made, and why in one sentence."""


@dataclass(frozen=True)
class Comparison:
    """One comparison of a condition.

    Attributes:
        text: As written.
        path: The part that is compared, as written.
        references: What the path may mean, the likelier first; references to the step `result`.
        measured: Its length is compared, not the part itself.
        word: The operator, or `is empty` and the like.
        wanted: With what it is compared.
        bare: What stands there without quotes: a text that says the same is equal to it.
    """

    text: str
    path: str
    references: tuple[str, ...]
    measured: bool
    word: str
    wanted: Any = None
    bare: str | None = None


def shown(value: Any) -> str:
    """A value for a message: as JSON, 200 characters at most."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@lru_cache(maxsize=1_024)
def read_condition(text: str) -> tuple[Comparison, ...]:
    """The comparisons of a condition, all of which must hold.

    Raises:
        Malformed: It is none.
    """
    if len(text) > _LONGEST:
        raise Malformed(say("condition_too_long", length=len(text), limit=_LONGEST))
    if "{{" in text:
        raise _wrong(text, "condition_with_braces")
    seen = _outside(text)
    if _OR.search(seen):
        raise _wrong(text, "condition_with_or")
    joints = [joint.span() for joint in _AND.finditer(seen)]
    starts = [0, *(end for _, end in joints)]
    ends = [*(start for start, _ in joints), len(text)]
    return tuple(
        _comparison(text[a:b], seen[a:b]) for a, b in zip(starts, ends, strict=True)
    )  # fmt: skip


def unmet(comparison: Comparison, result: Any) -> str:
    """Why a comparison does not hold for a result, in one sentence; '' where it does."""
    try:
        value = _part(comparison, result)
    except MissingValue:
        if comparison.word == "is missing":
            return ""
        why = say("result_has_no", path=comparison.path, result=shown(result))
    else:
        why = _why_not(comparison, value)
    return say("result_does_not_meet", condition=repr(comparison.text), why=why) if why else ""


# Reading.


def _wrong(text: str, what: str, /, **slots: object) -> Malformed:
    return Malformed(say(what, condition=shown(text), how=say("how_to_compare"), **slots))


def _outside(text: str) -> str:
    """The text with '_' for all that stands in quotes or brackets: words in there do nothing."""
    seen: list[str] = []
    closing: list[str] = []
    before = ""
    for character in text:
        quoted = bool(closing) and closing[-1] in "\"'"
        opens = not quoted and (
            character in _CLOSING or (character in "\"'" and not before.isalnum())
        )
        seen.append("_" if closing or opens else character)
        if opens:
            closing.append(_CLOSING.get(character, character))
        elif closing and character == closing[-1] and not (quoted and before == "\\"):
            closing.pop()
        before = "" if before == character == "\\" else character
    if closing:
        raise _wrong(text, "condition_unclosed", sign=closing[-1])
    return "".join(seen)


def _comparison(text: str, seen: str) -> Comparison:
    """Read one comparison; `seen` is its text as `_outside` sees it."""
    text, seen = text.strip(), seen.strip()
    infix = _OPERATOR.search(seen)
    state = _STATE.search(seen)
    found = infix or state
    if found is None:
        raise _wrong(text, "condition_no_comparison")
    path, measured = text[: found.start()].strip(), False
    if _ODD_PATH.search(seen[: found.start()].strip()):
        raise _wrong(text, "condition_unreadable")
    if length := _LENGTH.fullmatch(path):
        path, measured = length[1].strip(), True
    references = _references(text, path)
    if infix is None:
        return Comparison(text, path, references, measured, " ".join(found[1].split()))
    wanted, bare = _wanted(text, infix[0], text[infix.end() :].strip())
    return Comparison(text, path, references, measured, infix[0], wanted, bare)


def _references(text: str, path: str) -> tuple[str, ...]:
    """What a path may mean: a field of that name, or the whole result and what follows it."""
    if not path:
        raise _wrong(text, "condition_names_nothing")
    rest = [path if path.startswith("[") else f".{path}"]
    if whole := _WHOLE.match(path):
        rest.append(path[whole.end() :])
    references = [f"{{{{{_ROOT}{end}}}}}" for end in rest]
    for reference in references:
        if not is_whole(reference):
            why = "".join(malformed_in(reference)[:1])
            what = "condition_no_path_why" if why else "condition_no_path"
            raise _wrong(text, what, path=shown(path), why=why)
    return tuple(references)


_CONSTANTS: Final = {"True": True, "False": False, "None": None}


def _wanted(text: str, word: str, given: str) -> tuple[Any, str | None]:
    """The value after an operator, and how it is spelled where it stands without quotes."""
    if not given:
        raise _wrong(text, "condition_no_value", word=repr(word))
    if given[0] in "=<>":
        raise _wrong(text, "condition_unreadable")
    if given[0] == "'" == given[-1] and len(given) > 1:
        return given[1:-1], None
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        value = _CONSTANTS.get(given, given)
    if word[0] in "<>" and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        raise _wrong(text, "condition_no_order", value=shown(value))
    return value, None if given.startswith('"') else given


# Comparing.


def _part(comparison: Comparison, result: Any) -> Any:
    *others, last = comparison.references
    for reference in others:
        try:
            return resolve(reference, {_ROOT: result}, {})
        except MissingValue:
            continue
    return resolve(last, {_ROOT: result}, {})


def _why_not(comparison: Comparison, value: Any) -> str:
    path = comparison.path
    if comparison.measured and not isinstance(value, str | list | dict):
        return say("has_no_length", path=path, value=shown(value))
    if comparison.measured:
        path, value = say("the_length_of", path=path), len(value)
    holds = _TESTS[comparison.word]
    return "" if holds(value, comparison) else say("part_is", path=path, value=shown(value))


def _is_equal(value: Any, comparison: Comparison) -> bool:
    if isinstance(value, str) and value.strip() == comparison.bare:
        return True
    return _same(value, comparison.wanted)


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON has it: `true` is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _contains(value: Any, comparison: Comparison) -> bool:
    wanted = comparison.wanted if comparison.bare is None else comparison.bare
    if isinstance(value, str):
        return str(wanted) in value
    if isinstance(value, list):
        return any(_is_equal(item, comparison) for item in value)
    return isinstance(value, dict) and wanted in value


def _is_empty(value: Any, _: Comparison) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | dict) and not value)


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Comparison], bool]:
    def test(value: Any, comparison: Comparison) -> bool:
        wanted = comparison.wanted
        if not isinstance(wanted, str):
            value = _number(value)
        elif not isinstance(value, str):
            value = None
        return value is not None and holds(value, wanted)

    return test


def _number(value: Any) -> int | float | None:
    """The number a value is or spells; None where it is something else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_TESTS: Final[dict[str, Callable[[Any, Comparison], bool]]] = {
    "==": _is_equal,
    "!=": lambda value, comparison: not _is_equal(value, comparison),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    "contains": _contains,
    "is empty": _is_empty,
    "is not empty": lambda value, comparison: not _is_empty(value, comparison),
    "exists": lambda *_: True,
    "is missing": lambda *_: False,
}
