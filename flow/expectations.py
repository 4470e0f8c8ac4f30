"""Machine checks of a step's result, as a model writes them: a condition or a schema. Pure.

A condition, such as `count > 0 and rows[0].name is not empty`, is one or more comparisons joined by
`and`. What is compared is a part of the result, written as in references without braces:
`rows[0].total`, `Exchange Rate`. `result`, `value` or `output` is the whole of it, `length(PATH)`
or `len(PATH)` how much a part holds. It is compared by `==`, `!=`, `>`, `>=`, `<`, `<=` or
`contains` with a JSON value or a text, in quotes or without; or it `is empty`, `is not empty`,
`exists` or `is missing`. A number that the result spells as text counts as that number.

Checks run where nothing else may wait. So a schema has no `pattern` (some take years on some texts)
and no `$ref` (a few lines of them stand for billions); a condition with `contains` does instead.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..text.canonical import canonical
from ..text.told import say
from ..tools.arguments import problems_of
from .references import MissingValue, is_whole, malformed_in, references_in, resolve

Expectation = Mapping[str, Any] | str | None

_SHOWN: Final = 200
_LONGEST: Final = 2_000
_MAX_PROBLEMS: Final = 3


class Malformed(Exception):
    """A check that cannot be made, and why in one sentence."""


def unexpected(value: Any, expect: Expectation) -> str:
    """What about a result is not as expected, in one sentence; '' where all of it is.

    Args:
        value: The result as references read it.
        expect: A schema, a condition, or nothing. A check that is itself flawed is never met.
    """
    try:
        check = _read(expect)
        if isinstance(check, Mapping):
            return _unfit(value, check)
        return "; ".join(filter(None, (unmet(comparison, value) for comparison in check)))
    except Malformed as flaw:
        return str(flaw)
    except RecursionError:
        return say("check_too_deep")


def flawed(expect: Expectation) -> str:
    """Why a check cannot be made, in one sentence; '' where it can."""
    try:
        _read(expect)
    except Malformed as flaw:
        return str(flaw)
    except RecursionError:
        return say("schema_too_deep")
    return ""


def _read(expect: Expectation) -> "Mapping[str, Any] | tuple[Comparison, ...]":
    """A check as it can be made: a schema, perhaps written as JSON text, or comparisons."""
    if not isinstance(expect, str):
        return _schema(json.dumps(expect, default=str)) if expect else ()
    text = expect.strip()
    if text.startswith("{") and not text.startswith("{{"):
        return _schema(text)
    try:
        return read_condition(text) if text else ()
    except Malformed as flaw:
        raise Malformed(say("expect_is_flawed", problem=flaw)) from flaw


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


# Conditions: reading.

_ROOT: Final = "result"
_WHOLE: Final = re.compile(r"(?:result|value|output)(?![^.\[])")
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
    parts = zip([0, *(b for _, b in joints)], [*(a for a, _ in joints), len(text)], strict=True)
    return tuple(_comparison(text[a:b], seen[a:b]) for a, b in parts)


def _wrong(text: str, what: str, /, **slots: object) -> Malformed:
    return Malformed(say(what, condition=_shown(text), how=say("how_to_compare"), **slots))


def _outside(text: str) -> str:
    """The text with '_' for all that stands in quotes or brackets: words in there do nothing."""
    seen, before = _QUOTED.sub(_hidden, text), ""
    while seen != before:
        seen, before = _BRACKETED.sub(_hidden, seen), seen
    if opened := _OPENED.search(seen):
        raise _wrong(text, "condition_unclosed", sign=_CLOSING.get(opened[0], opened[0]))
    return seen


def _hidden(found: re.Match[str]) -> str:
    return "_" * len(found[0])


def _comparison(text: str, seen: str) -> Comparison:
    """Read one comparison; `seen` is its text as `_outside` sees it."""
    text, seen = text.strip(), seen.strip()
    infix = _OPERATOR.search(seen)
    found = infix or _STATE.search(seen)
    if found is None:
        raise _wrong(text, "condition_no_comparison")
    path = text[: found.start()].strip()
    if _ODD_PATH.search(seen[: found.start()].strip()):
        raise _wrong(text, "condition_unreadable")
    length = _LENGTH.fullmatch(path)
    if length:
        path = length[1].strip()
    references = _references(text, path)
    if infix is None:
        return Comparison(text, path, references, bool(length), " ".join(found[1].split()))
    wanted, bare = _wanted(text, infix[0], text[infix.end() :].strip())
    return Comparison(text, path, references, bool(length), infix[0], wanted, bare)


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
            raise _wrong(text, what, path=_shown(path), why=why)
    return tuple(references)


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
        raise _wrong(text, "condition_no_order", value=_shown(value))
    return value, None if given.startswith('"') else given


# Conditions: comparing.


def unmet(comparison: Comparison, result: Any) -> str:
    """Why a comparison does not hold for a result, in one sentence; '' where it does."""
    for reference in comparison.references:
        with suppress(MissingValue):
            _, why = compare(comparison, resolve(reference, {_ROOT: result}, {}))
            break
    else:
        if comparison.word == "is missing":
            return ""
        why = say("result_has_no", path=comparison.path, result=_shown(result))
    return say("result_does_not_meet", condition=repr(comparison.text), why=why) if why else ""


def compare(comparison: Comparison, value: Any) -> tuple[bool | None, str]:
    """Whether a comparison holds for this value, None where nobody can tell; and why not."""
    path = comparison.path
    if comparison.measured and not isinstance(value, str | list | dict):
        return None, say("has_no_length", path=path, value=_shown(value))
    if comparison.measured:
        path, value = say("the_length_of", path=path), len(value)
    holds = _TESTS[comparison.word](value, comparison)
    kind = "not_comparable" if holds is None else "part_is"
    return holds, "" if holds else say(kind, path=path, value=_shown(value))


def _is_equal(value: Any, comparison: Comparison) -> bool | None:
    """Whether they are equal; a list or an object is compared with its like, and with null."""
    wanted = comparison.wanted
    if isinstance(value, str) and (wanted == value or comparison.bare == value.strip()):
        return True
    unlike = isinstance(value, list | dict) != isinstance(wanted, list | dict)
    if unlike and value is not None and wanted is not None:
        return None
    # As JSON has it: `true` is not 1, but 1.0 is.
    return bool(_Validator({"const": wanted}).is_valid(value))


def _is_other(value: Any, comparison: Comparison) -> bool | None:
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


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Comparison], bool | None]:
    def test(value: Any, comparison: Comparison) -> bool | None:
        if isinstance(comparison.wanted, str):
            return holds(value, comparison.wanted) if isinstance(value, str) else None
        number = _number(value)
        return None if number is None else holds(number, comparison.wanted)

    return test


def _number(value: Any) -> int | float | None:
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
    "!=": _is_other,
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


# Schemas.


def _unique(_: Any, wanted: Any, value: Any, __: Any) -> Any:
    """Like jsonschema's own, which takes minutes for ten thousand objects."""
    if wanted and isinstance(value, list) and len(set(map(canonical, value))) < len(value):
        yield jsonschema.ValidationError(say("equal_items"))


_Validator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"uniqueItems": _unique}
)
_Meta: Final = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
_REFUSED: Final = {
    **dict.fromkeys(("pattern", "patternProperties"), "schema_no_patterns"),
    **dict.fromkeys(("$ref", "$dynamicRef"), "schema_no_references"),
}
_DATA: Final = frozenset({"enum", "const", "default", "examples", "$comment"})
_KEYWORDS: Final = _DATA | {
    *jsonschema.Draft202012Validator.VALIDATORS,
    *("title", "description", "format", "$schema", "then", "else"),
}


def _unfit(value: Any, schema: Mapping[str, Any]) -> str:
    """Where a result does not fit a schema."""
    try:
        errors = list(islice(_Validator(schema).iter_errors(value), _MAX_PROBLEMS))
    except (ArithmeticError, TypeError, ValueError) as error:
        return say("schema_not_comparable", why=error)
    problems = "; ".join(problems_of(errors))
    return say("schema_not_met", problems=problems) if problems else ""


@lru_cache(maxsize=256)
def _schema(text: str) -> Mapping[str, Any]:
    """The schema that a JSON text spells.

    Raises:
        Malformed: It cannot be a check.
    """
    try:
        schema: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise Malformed(say("schema_no_json", schema=_shown(text), why=error)) from error
    if references := references_in(schema):
        raise Malformed(say("schema_holds_reference", reference=f"{{{{{references[0].text}}}}}"))
    if wrong := problems_of(_Meta.iter_errors(schema)):
        raise Malformed(say("schema_is_none", why=wrong[0]))
    _refuse_odd_keywords(schema, "")
    return schema


def _refuse_odd_keywords(schema: Any, place: str) -> None:
    """Raise at the first keyword that is unknown or refused; the meta-schema lets both pass."""
    for key, value in schema.items() if isinstance(schema, dict) else ():
        here = f"{place}.{key}".lstrip(".")
        if key in _REFUSED:
            raise Malformed(say(_REFUSED[key], place=repr(here)))
        if key not in _KEYWORDS:
            raise Malformed(say("schema_no_keyword", place=repr(here)))
        if key == "properties":
            for name, part in value.items():
                _refuse_odd_keywords(part, f"{here}.{name}")
        elif key not in _DATA:
            for part in value if isinstance(value, list) else [value]:
                _refuse_odd_keywords(part, here)
