"""Conditions over results, as a model writes them: read, and held against what is there. Pure.

A condition, such as `count > 0 and rows[0].name is not empty`, is one or more comparisons joined by
`and`. What is compared is a part of a result, written as in references without braces:
`rows[0].total`, `Exchange Rate`; `length(PATH)` or `len(PATH)` is how much a part holds. It is
compared by `==`, `!=`, `>`, `>=`, `<`, `<=` or `contains` with a JSON value or a text, in quotes or
without; or it `is empty`, `is not empty`, `exists` or `is missing`. A number that the result spells
as text counts as that number. A comparison holds, it does not, or nobody can tell.

In `when` of a step a path begins with the id of a step, or with `global`:
`s1.row_count > 0 and s2.rows[0].name is not empty`. In `expect` it begins in the step's own
result, see `expectations`.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from ..text.sentences import say
from .references import (
    MissingValue,
    Reference,
    find_malformed,
    find_references,
    is_whole,
    resolve_reference,
)

_SHOWN: Final = 200
_LONGEST: Final = 2_000


class Malformed(Exception):
    """A check that cannot be made, and why in one sentence."""


# Reading.

_ROOT: Final = "result"
_AND: Final = re.compile(r"(?<!\S)(?:and|And|AND)(?!\S)|&&")
_OR: Final = re.compile(r"(?<!\S)(?:or|Or|OR)(?!\S)|\|\|")
_OPERATOR: Final = re.compile(r"==|!=|>=|<=|>|<|(?<=\s)contains(?=\s)")
_STATE: Final = re.compile(r"\s(is\s+not\s+empty|is\s+empty|exists|is\s+missing)$")
_LENGTH: Final = re.compile(r"(?:length|len)\s*\((.*)\)", re.DOTALL)
_ODD_PATH: Final = re.compile(r"[=<>!]|^not\s|\snot$")
# A quote behind a letter or digit is an apostrophe.
_QUOTED: Final = re.compile(r"""(?<![^\W_])(["'])(?:\\.|(?!\1).)*\1""", re.DOTALL)
_BRACKETED: Final = re.compile(r"\[[^\[\](){}]*\]|\([^\[\](){}]*\)|\{[^\[\](){}]*\}")
_OPENED: Final = re.compile(r"""(?<![^\W_])["']|[\[({]""")
_CLOSING: Final = {"[": "]", "(": ")", "{": "}"}
_CONSTANTS: Final = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class Comparison:
    """One comparison of a condition.

    Attributes:
        text, path: It, and the part that is compared, as written.
        parts: The way to that part, as in a reference.
        measured: Its length is compared, not the part itself.
        word: The operator, or `is empty` and the like.
        wanted: With what it is compared.
        bare: What stands there without quotes: a text that says the same is equal to it.
    """

    text: str
    path: str
    parts: tuple[str | int, ...]
    measured: bool
    word: str
    wanted: Any = None
    bare: str | None = None

    @property
    def reference(self) -> Reference:
        """The reference, if the path begins with the id of a step."""
        return Reference(str(self.parts[0]), self.parts[1:], self.path)


def abbreviate(value: Any) -> str:
    """A value as JSON, cut for a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@lru_cache(maxsize=1_024)
def read_condition(text: str) -> tuple[Comparison, ...]:
    """The comparisons of a condition, all of which must hold; Malformed if it is none."""
    if len(text) > _LONGEST:
        raise Malformed(say("condition_too_long", length=len(text), limit=_LONGEST))
    if "{{" in text:
        raise _make_malformed(text, "condition_with_braces")
    seen = _blank_out(text)
    if _OR.search(seen):
        raise _make_malformed(text, "condition_with_or")
    joints = [joint.span() for joint in _AND.finditer(seen)]
    parts = zip([0, *(b for _, b in joints)], [*(a for a, _ in joints), len(text)], strict=True)
    return tuple(_read_comparison(text[a:b], seen[a:b]) for a, b in parts)


def _make_malformed(text: str, what: str, /, **slots: object) -> Malformed:
    return Malformed(say(what, condition=abbreviate(text), how=say("how_to_compare"), **slots))


def _blank_out(text: str) -> str:
    """The text with '_' for all that stands in quotes or brackets: words in there do nothing."""
    seen, before = _QUOTED.sub(_mask_match, text), ""
    while seen != before:
        seen, before = _BRACKETED.sub(_mask_match, seen), seen
    if opened := _OPENED.search(seen):
        raise _make_malformed(text, "condition_unclosed", sign=_CLOSING.get(opened[0], opened[0]))
    return seen


def _mask_match(found: re.Match[str]) -> str:
    return "_" * len(found[0])


def _read_comparison(text: str, seen: str) -> Comparison:
    """Read one comparison; `seen` is its text as `_blank_out` sees it."""
    text, seen = text.strip(), seen.strip()
    infix = _OPERATOR.search(seen)
    found = infix or _STATE.search(seen)
    if found is None:
        raise _make_malformed(text, "condition_no_comparison")
    path = text[: found.start()].strip()
    if _ODD_PATH.search(seen[: found.start()].strip()):
        raise _make_malformed(text, "condition_unreadable")
    length = _LENGTH.fullmatch(path)
    if length:
        path = length[1].strip()
    parts = _read_path(text, path)
    if infix is None:
        return Comparison(text, path, parts, bool(length), " ".join(found[1].split()))
    wanted, bare = _read_wanted(text, infix[0], text[infix.end() :].strip())
    return Comparison(text, path, parts, bool(length), infix[0], wanted, bare)


def _read_path(text: str, path: str) -> tuple[str | int, ...]:
    """The way that a path describes, read as what follows the id of a step in a reference."""
    if not path:
        raise _make_malformed(text, "condition_names_nothing")
    reference = f"{{{{{_ROOT}{'' if path.startswith('[') else '.'}{path}}}}}"
    if not is_whole(reference):
        why = "".join(find_malformed(reference)[:1])
        what = "condition_no_path_why" if why else "condition_no_path"
        raise _make_malformed(text, what, path=abbreviate(path), why=why)
    return find_references(reference)[0].path


def _read_wanted(text: str, word: str, given: str) -> tuple[Any, str | None]:
    """The value after an operator, and how it is spelled where it stands without quotes."""
    if not given:
        raise _make_malformed(text, "condition_no_value", word=repr(word))
    if given[0] in "=<>":
        raise _make_malformed(text, "condition_unreadable")
    if given[0] == "'" == given[-1] and len(given) > 1:
        return given[1:-1], None
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        value = _CONSTANTS.get(given, given)
    if word[0] in "<>" and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        raise _make_malformed(text, "condition_no_order", value=abbreviate(value))
    return value, None if given.startswith('"') else given


# When a step runs.


def list_reads(when: str | None) -> list[Reference]:
    """What a condition reads, in order; of a part that may be missing, only whose it is."""
    return [
        c.reference._replace(path=()) if c.word in WITHOUT_IT else c.reference
        for c in list_comparisons(when)
    ]


def list_comparisons(when: str | None) -> tuple[Comparison, ...]:
    """The comparisons of a condition; none where there is none, or one that cannot be read."""
    try:
        return read_condition(when) if when else ()
    except Malformed:
        return ()


def find_condition_flaw(when: str) -> str:
    """Why it is no condition, in one sentence; '' where it is one."""
    try:
        read_condition(when)
    except Malformed as flaw:
        return say("when_is_flawed", problem=flaw)
    return ""


def decide_condition(
    when: str, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> tuple[bool | None, str]:
    """Whether a step is to run, None if nobody can tell; and why not.

    One comparison that does not hold decides; Malformed if it is no condition.
    """
    unknown = ""
    for comparison in read_condition(when):
        read = partial(resolve_reference, comparison.reference, results, variables)
        holds, why = evaluate_comparison(comparison, read)
        if holds is False:
            return False, say("when_not_met", condition=comparison.text)
        if holds is None and not unknown:
            unknown = say("when_not_told", condition=repr(comparison.text), why=why)
    return (None, unknown) if unknown else (True, "")


def rename_in_condition(when: str | None, names: Mapping[str, str]) -> str | None:
    """The condition with other ids of steps, old id to new."""
    if not when or names.keys().isdisjoint(r.root for r in list_reads(when)):
        return when
    return " and ".join(
        _rename_comparison(comparison, names) for comparison in read_condition(when)
    )


def _rename_comparison(comparison: Comparison, names: Mapping[str, str]) -> str:
    root, (head, opened, rest) = comparison.reference.root, ("", "", comparison.text)
    if comparison.measured:
        head, opened, rest = comparison.text.partition("(")
    return head + opened + rest.replace(root, names.get(root, root), 1)


# Comparing.

WITHOUT_IT: Final = {"exists": False, "is missing": True}
"""Whether a comparison holds that asks for a value which is not there."""


def evaluate_comparison(comparison: Comparison, read: Callable[[], Any]) -> tuple[bool | None, str]:
    """Whether a comparison is true, None if that is unknown; and why not."""
    try:
        value, path = read(), comparison.path
    except MissingValue as missing:
        return WITHOUT_IT.get(comparison.word), str(missing)
    if comparison.measured and not isinstance(value, str | list | dict):
        return None, say("has_no_length", path=path, value=abbreviate(value))
    if comparison.measured:
        path, value = say("the_length_of", path=path), len(value)
    holds = _TESTS[comparison.word](value, comparison)
    kind = "not_comparable" if holds is None else "part_is"
    return holds, "" if holds else say(kind, path=path, value=abbreviate(value))


def _is_equal(value: Any, comparison: Comparison) -> bool | None:
    """Whether they are equal; a list or an object is compared with its like, and with null."""
    wanted = comparison.wanted
    if isinstance(value, str) and (wanted == value or comparison.bare == value.strip()):
        return True
    unlike = isinstance(value, list | dict) != isinstance(wanted, list | dict)
    if unlike and value is not None and wanted is not None:
        return None
    return _is_same(value, wanted)


def _is_same(one: Any, two: Any) -> bool:
    """Whether two values are equal as JSON has it: `true` is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_is_same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_is_same(one[key], two[key]) for key in one)
    return bool(one == two)


def _is_different(value: Any, comparison: Comparison) -> bool | None:
    equal = _is_equal(value, comparison)
    return None if equal is None else not equal


def _contains(value: Any, comparison: Comparison) -> bool | None:
    wanted = comparison.wanted if comparison.bare is None else comparison.bare
    if isinstance(value, str):
        return str(wanted) in value
    if isinstance(value, list):
        return any(_is_equal(item, comparison) for item in value)
    return wanted in value if isinstance(value, dict) else None


def _is_empty(value: Any, _: Comparison) -> bool:
    return (value.strip() if isinstance(value, str) else value) in ("", None, [], {})


def _make_comparer(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Comparison], bool | None]:
    def compare_value(value: Any, comparison: Comparison) -> bool | None:
        if isinstance(comparison.wanted, str):
            return holds(value, comparison.wanted) if isinstance(value, str) else None
        number = _read_number(value)
        return None if number is None else holds(number, comparison.wanted)

    return compare_value


def _read_number(value: Any) -> int | float | None:
    """The number a value is or spells; None where it is something else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    is_number = isinstance(value, int | float) and value == value  # NaN is none
    return value if is_number and not isinstance(value, bool) else None


_TESTS: Final[dict[str, Callable[[Any, Comparison], bool | None]]] = {
    "==": _is_equal,
    "!=": _is_different,
    ">": _make_comparer(operator.gt),
    ">=": _make_comparer(operator.ge),
    "<": _make_comparer(operator.lt),
    "<=": _make_comparer(operator.le),
    "contains": _contains,
    "is empty": _is_empty,
    "is not empty": lambda value, comparison: not _is_empty(value, comparison),
    "exists": lambda *_: True,
    "is missing": lambda *_: False,
}
