"""The machine check of a step's result: a JSON schema, or a condition (see `conditions`). Pure.

A model writes these checks, and they run where nothing else may wait. So a schema has no `pattern`
(some take years on some texts) and no `$ref` (a few lines of them stand for billions): `flawed`
says so, and a condition with `contains` does instead.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..state.canonical import canonical
from ..state.told import LANGUAGE, say
from ..tools.arguments import problems_of
from .conditions import Comparison, Malformed, read_condition, shown, unmet
from .references import references_in

Expectation = Mapping[str, Any] | str | None

_MAX_PROBLEMS: Final = 3


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
        check = _read(expect)
        if not isinstance(check, Mapping):
            return ""
        if references := references_in(dict(check)):
            return say("schema_holds_reference", reference=f"{{{{{references[0].text}}}}}")
        return _flaw_of_schema(json.dumps(check, default=str), LANGUAGE.get())
    except Malformed as flaw:
        return str(flaw)
    except RecursionError:
        return say("schema_too_deep")


def _read(expect: Expectation) -> Mapping[str, Any] | tuple[Comparison, ...]:
    """A check as it can be made: a schema, perhaps written as JSON text, or comparisons."""
    if not isinstance(expect, str):
        return expect or {}
    text = expect.strip()
    if text.startswith("{") and not text.startswith("{{"):
        return _schema_in(text)
    return read_condition(text) if text else ()


def _schema_in(text: str) -> Mapping[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise Malformed(say("schema_no_json", schema=shown(text), why=error)) from error
    return dict(schema)


def _unfit(value: Any, schema: Mapping[str, Any]) -> str:
    """Where a result does not fit a schema."""
    if wrong := _flaw_of_schema(json.dumps(schema, default=str), LANGUAGE.get()):
        return wrong
    try:
        errors = list(islice(_Validator(schema).iter_errors(value), _MAX_PROBLEMS))
    except (ArithmeticError, TypeError, ValueError) as error:
        return say("schema_not_comparable", why=error)
    problems = "; ".join(problems_of(errors))
    return say("schema_not_met", problems=problems) if problems else ""


def _unique(_: Any, wanted: Any, value: Any, __: Any) -> Any:
    """Like jsonschema's own, which takes minutes for ten thousand objects."""
    if wanted and isinstance(value, list) and len(set(map(canonical, value))) < len(value):
        yield jsonschema.ValidationError(say("equal_items"))


_Validator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"uniqueItems": _unique}
)

_REFUSED: Final = {
    **dict.fromkeys(("pattern", "patternProperties"), "schema_no_patterns"),
    **dict.fromkeys(("$ref", "$dynamicRef"), "schema_no_references"),
}
_KEYWORDS: Final = frozenset(jsonschema.Draft202012Validator.VALIDATORS) | {
    *("title", "description", "default", "examples", "format", "$schema", "$comment"),
    *("then", "else"),
}
_Meta: Final = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)


@lru_cache(maxsize=256)
def _flaw_of_schema(text: str, _language: str) -> str:
    """The first thing that keeps a schema, as JSON, from being a check; '' where nothing does."""
    schema = json.loads(text)
    if wrong := problems_of(_Meta.iter_errors(schema)):
        return say("schema_is_none", why=wrong[0])
    return _odd_keyword(schema, "")


def _odd_keyword(schema: Mapping[str, Any], place: str) -> str:
    """The first keyword that is unknown or refused; the meta-schema lets both pass."""
    for key, value in schema.items():
        here = f"{place}.{key}".lstrip(".")
        if key in _REFUSED:
            return say(_REFUSED[key], place=repr(here))
        if key not in _KEYWORDS:
            return say("schema_no_keyword", place=repr(here))
        inside = (_odd_keyword(part, at) for at, part in _parts(key, value, here))
        if wrong := next(filter(None, inside), ""):
            return wrong
    return ""


def _parts(key: str, value: Any, place: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The schemas inside a keyword's value, and where they are."""
    if key in ("enum", "const", "default", "examples", "$comment"):
        return []
    if key == "properties":
        return [(f"{place}.{name}", v) for name, v in value.items() if isinstance(v, dict)]
    listed = value if isinstance(value, list) else [value]
    return [(place, part) for part in listed if isinstance(part, dict)]
