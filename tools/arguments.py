"""The arguments of a call, checked against the tool's schema before anything runs."""

import json
from collections.abc import Iterable
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..text.canonical import DEEPEST, make_storable_json
from ..text.sentences import say
from .schemas import Schema

_SHOWN_SCHEMA: Final = 1_500
_SHOWN_PROBLEM: Final = 300
_SHOWN_VALUE: Final = 100
_MAX_PROBLEMS: Final = 3

_Validator: Final = jsonschema.Draft202012Validator


def check_arguments(schema: Schema, args: object) -> tuple[dict[str, Any], str]:
    """Bring a model's arguments into the shape of the schema it was shown. Pure.

    Nulls for optional arguments are dropped. A string is read as JSON where no string is allowed
    (`"5"`, `"[1, 2]"`), a number becomes a string where only a string is allowed.

    Returns:
        The arguments to run with, and a sentence for the model about what is wrong, or "".
    """
    if not isinstance(args, dict):
        kind = type(args).__name__
        return {}, say("arguments_no_object", kind=kind, wanted=_describe_wanted(schema))
    unsafe = find_unsafe_part(args)
    if unsafe:
        return {}, unsafe
    fitted = fit(args, schema)
    problems = problems_of(_Validator(schema).iter_errors(fitted))
    if not problems:
        return fitted, ""
    shown = "; ".join(problems[:_MAX_PROBLEMS])
    return fitted, say("arguments_do_not_fit", problems=shown, wanted=_describe_wanted(schema))


def find_unsafe_part(args: object) -> str:
    """A sentence about values that JSON cannot carry, or ""."""
    try:
        json.dumps(args, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return say("arguments_half_pair")
    except (TypeError, ValueError):
        return say("arguments_no_number")
    except RecursionError:
        return say("arguments_too_deep", depth=DEEPEST)
    if make_storable_json(args) != args:
        return say("arguments_too_deep", depth=DEEPEST)
    return ""


def fit(value: Any, schema: object, *, normalize: bool = False) -> Any:
    """The value with strings read as JSON where needed, and without optional nulls.

    `normalize` gives equal values one spelling: 3 for 3.0, and defaults filled in.
    """
    rules = schema if isinstance(schema, dict) else {}
    kinds = list_allowed_types(rules)
    if isinstance(value, str) and kinds and "string" not in kinds and "enum" not in rules:
        value = _parse_string(value, kinds)
    if isinstance(value, int | float) and kinds - {"null"} == {"string"}:
        return value if isinstance(value, bool) else json.dumps(value)
    if isinstance(value, dict):
        return _fit_object(value, rules, normalize=normalize)
    if isinstance(value, list):
        return [fit(item, rules.get("items"), normalize=normalize) for item in value]
    return int(value) if normalize and isinstance(value, float) and value.is_integer() else value


def _fit_object(value: dict[str, Any], schema: Schema, *, normalize: bool) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), frozenset(schema.get("required", ()))
    fields = {
        name: item
        for name, item in value.items()
        if item is not None
        or name in required
        or _Validator(properties.get(name, {})).is_valid(None)
    }
    if normalize:
        fields = {n: f["default"] for n, f in properties.items() if "default" in f} | fields
    return {
        name: fit(item, properties.get(name), normalize=normalize) for name, item in fields.items()
    }


def list_allowed_types(schema: Schema) -> set[str]:
    """The types a sanitised schema allows; empty if it allows all."""
    if "anyOf" not in schema:
        return {schema["type"]} if "type" in schema else set()
    branches = [list_allowed_types(branch) for branch in schema["anyOf"]]
    return set.union(*branches) if all(branches) else set()


def _parse_string(text: str, kinds: set[str]) -> Any:
    """The JSON value in a string, if its type is allowed; else the string."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    fits = any(_Validator.TYPE_CHECKER.is_type(value, kind) for kind in kinds)
    return value if fits else text


def problems_of(errors: Iterable[jsonschema.ValidationError]) -> list[str]:
    """Each problem with its place; outer places come first."""
    return [
        _describe_error(error)
        for error in sorted(errors, key=lambda e: (len(e.absolute_path), str(e.message)))
    ]


def _describe_error(error: jsonschema.ValidationError) -> str:
    place = ".".join(map(str, error.absolute_path))
    message = str(error.message)
    if len(message) > _SHOWN_PROBLEM:  # what is wanted comes last, behind the value
        value = repr(error.instance)
        message = message.replace(value, value[:_SHOWN_VALUE] + "…", 1)
    if len(message) > _SHOWN_PROBLEM:
        message = message[:_SHOWN_PROBLEM] + "…"
    return f"{place}: {message}" if place else message


def _describe_wanted(schema: Schema) -> str:
    text = json.dumps(schema.get("properties", {}), ensure_ascii=False)
    if len(text) > _SHOWN_SCHEMA:
        text = text[:_SHOWN_SCHEMA] + "…"
    required = ", ".join(schema.get("required", ())) or say("none_required")
    return say("call_again_with", fields=text, required=required)
