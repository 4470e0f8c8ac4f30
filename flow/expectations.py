"""Machine checks of a step's result, as a model writes them: a condition or a schema. Pure.

A condition is one of `conditions`, whose paths begin in the result, all of which is `result`,
`value` or `output`. A schema is JSON schema, as an object or as its text.

Checks run where nothing else may wait. So a schema has no `pattern` (some take years on some texts)
and no `$ref` (a few lines of them stand for billions); a condition with `contains` does instead.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..text.canonical import canonical
from ..text.sentences import say
from ..tools.arguments import problems_of
from .conditions import Comparison, Malformed, abbreviate, evaluate_comparison, read_condition
from .references import MissingValue, Reference, find_references, resolve_reference

Expectation = Mapping[str, Any] | str | None

_MAX_PROBLEMS: Final = 3
_ROOT: Final = "result"
_WHOLE: Final = ("result", "value", "output")


def find_unmet(value: Any, expect: Expectation) -> str:
    """What about a result is not as expected, in one sentence; a flawed check is never met."""
    try:
        check = _read_check(expect)
        if isinstance(check, Mapping):
            return _find_misfit(value, check)
        return "; ".join(
            filter(None, (_find_unmet_comparison(comparison, value) for comparison in check))
        )
    except Malformed as flaw:
        return str(flaw)
    except RecursionError:
        return say("check_too_deep")


def find_check_flaw(expect: Expectation) -> str:
    """Why a check cannot be made, in one sentence; '' where it can."""
    try:
        _read_check(expect)
    except Malformed as flaw:
        return str(flaw)
    except RecursionError:
        return say("schema_too_deep")
    return ""


def _read_check(expect: Expectation) -> "Mapping[str, Any] | tuple[Comparison, ...]":
    """A check as it can be made: a schema, perhaps written as JSON text, or comparisons."""
    if not isinstance(expect, str):
        return _parse_schema(json.dumps(expect, default=str)) if expect else ()
    text = expect.strip()
    if text.startswith("{") and not text.startswith("{{"):
        return _parse_schema(text)
    try:
        return read_condition(text) if text else ()
    except Malformed as flaw:
        raise Malformed(say("expect_is_flawed", problem=flaw)) from flaw


def _find_unmet_comparison(comparison: Comparison, result: Any) -> str:
    """Why a comparison does not hold for a result, in one sentence; '' where it does."""

    def read_field() -> Any:
        """A field of that name, or the whole result and what follows it."""
        parts = comparison.parts
        for path in (parts, parts[1:])[: 1 + (parts[0] in _WHOLE)]:
            with suppress(MissingValue):
                return resolve_reference(
                    Reference(_ROOT, path, comparison.path), {_ROOT: result}, {}
                )
        raise MissingValue(say("result_has_no", path=comparison.path, result=abbreviate(result)))

    holds, why = evaluate_comparison(comparison, read_field)
    return "" if holds else say("result_does_not_meet", condition=repr(comparison.text), why=why)


# Schemas.


def _check_unique(_: Any, wanted: Any, value: Any, __: Any) -> Any:
    """Like jsonschema's own, which takes minutes for ten thousand objects."""
    if wanted and isinstance(value, list) and len(set(map(canonical, value))) < len(value):
        yield jsonschema.ValidationError(say("equal_items"))


_Validator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"uniqueItems": _check_unique}
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


def _find_misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """Where a result does not fit a schema."""
    try:
        errors = list(islice(_Validator(schema).iter_errors(value), _MAX_PROBLEMS))
    except (ArithmeticError, TypeError, ValueError) as error:
        return say("schema_not_comparable", why=error)
    problems = "; ".join(problems_of(errors))
    return say("schema_not_met", problems=problems) if problems else ""


@lru_cache(maxsize=256)
def _parse_schema(text: str) -> Mapping[str, Any]:
    """The schema that a JSON text spells; Malformed if it cannot be a check."""
    try:
        schema: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise Malformed(say("schema_no_json", schema=abbreviate(text), why=error)) from error
    if references := find_references(schema):
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
