"""The arguments of a call, checked against the tool's schema before anything runs."""

import json
import re
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

_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_EXACT: Final = 2**53
_JSON_TEXT: Final = "application/json"
_SEVERAL: Final = re.compile(r"[,;\n]|^\s*[\[{]")
"""A text with these may be a list of several, which only its writer could tell apart."""

_Validator: Final = jsonschema.Draft202012Validator


def check_arguments(schema: Schema, args: object, name: str = "") -> tuple[dict[str, Any], str]:
    """Bring a model's arguments into the shape of the schema it was shown. Pure.

    Nulls for optional arguments are dropped. A value becomes one of the type that the schema names
    where nothing is lost by it, such as `"5"` and `"[1, 2]"`. Arguments inside a call of the tool
    `name`, in one of the known formats of calls, are taken out of it.

    Returns:
        The arguments to run with, and a sentence for the model about what is wrong, or "".
    """
    if not isinstance(args, dict):
        kind = type(args).__name__
        return {}, say("arguments_no_object", kind=kind, wanted=_describe_wanted(schema))
    unsafe = find_unsafe_part(args)
    if unsafe:
        return {}, unsafe
    fitted = fit(_unwrap_call(schema, args, name), schema)
    problems = problems_of(_Validator(schema).iter_errors(fitted))
    if not problems:
        return fitted, ""
    shown = "; ".join(problems[:_MAX_PROBLEMS])
    return fitted, say("arguments_do_not_fit", problems=shown, wanted=_describe_wanted(schema))


_WRAPPERS: Final = frozenset({
    "args", "arguments", "function", "input", "kwargs", "parameters", "params", "tool_input",
    "action_input",
})  # fmt: skip
"""Where the formats of calls have the arguments."""


def _unwrap_call(schema: Schema, args: dict[str, Any], name: str) -> dict[str, Any]:
    """The arguments in a call that was sent as arguments; other arguments unchanged.

    Of such a call the schema knows no key, and of the object inside each. What stands beside that
    names this tool.
    """
    known = schema.get("properties", {}).keys()
    wrappers, beside = [*args.keys() & _WRAPPERS], args.keys() - _WRAPPERS - {"type", "id"}
    if len(wrappers) != 1 or not known.isdisjoint(args) or any(args[k] != name for k in beside):
        return args
    inside = _convert(args[wrappers[0]], {"type": "object"})
    found = _unwrap_call(schema, inside, name) if isinstance(inside, dict) else {}
    return found if found and found.keys() <= known else args


def find_unsafe_part(args: object) -> str:
    """A sentence about values that JSON cannot carry, or ""."""
    try:
        text = json.dumps(args, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return say("arguments_half_pair")
    except (TypeError, ValueError):
        return say("arguments_no_number")
    except RecursionError:
        return say("arguments_too_deep", depth=DEEPEST)
    if _NUL.search(text):
        return say("arguments_nul")
    return say("arguments_too_deep", depth=DEEPEST) if make_storable_json(args) != args else ""


def fit(value: Any, schema: object, *, normalize: bool = False) -> Any:
    """The value as the type its schema names, where that loses nothing; no optional nulls.

    Text is read as JSON, or written as JSON; one value is a list of one, and the other way round.
    `normalize` gives equal values one spelling: 3 for 3.0, and defaults filled in.
    """
    rules = _choose_rules(value, schema if isinstance(schema, dict) else {})
    value = _convert(value, rules)
    if isinstance(value, dict):
        return _fit_object(value, rules, normalize=normalize)
    if isinstance(value, list):
        return [fit(item, rules.get("items"), normalize=normalize) for item in value]
    return int(value) if normalize and isinstance(value, float) and value.is_integer() else value


def _choose_rules(value: Any, rules: Schema) -> Schema:
    """Of alternatives the one that takes a value of this type, if it is one."""
    branches = [b for b in rules.get("anyOf", ()) if _is_allowed(value, list_allowed_types(b))]
    return branches[0] if len(branches) == 1 else rules


def _is_allowed(value: Any, kinds: set[str]) -> bool:
    return not kinds or any(_Validator.TYPE_CHECKER.is_type(value, kind) for kind in kinds)


def _convert(value: Any, rules: Schema) -> Any:
    """The value in an allowed type; unchanged if the conversion is not certain."""
    kinds = list_allowed_types(rules)
    if isinstance(value, str) and not _is_allowed(value, kinds):
        value = _parse_string(value, kinds)
    if _is_allowed(value, kinds):
        is_whole = isinstance(value, float) and "integer" in kinds and "number" not in kinds
        return int(value) if is_whole and abs(value) < _EXACT else value
    if kinds - {"null"} == {"string"}:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return json.dumps(value)
        if rules.get("contentMediaType") == _JSON_TEXT and isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return value[0] if len(value) == 1 and _is_allowed(value[0], kinds) else value
    if kinds - {"null"} == {"array"} and not (isinstance(value, str) and _SEVERAL.search(value)):
        items = rules.get("items") or {}
        return [value] if _Validator(items).is_valid(fit(value, items)) else value
    return value


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
    more = schema.get("additionalProperties")
    return {
        name: fit(item, properties.get(name, more), normalize=normalize)
        for name, item in fields.items()
    }


def list_allowed_types(schema: Schema) -> set[str]:
    """The types a sanitised schema allows; empty if it allows all."""
    if "anyOf" not in schema:
        return {schema["type"]} if "type" in schema else set()
    branches = [list_allowed_types(branch) for branch in schema["anyOf"]]
    return set.union(*branches) if all(branches) else set()


def _parse_string(text: str, kinds: set[str]) -> Any:
    """The JSON value in a string, if its type is allowed; else the string."""
    is_word = text.lower() in ("true", "false")  # as Python spells them, too
    try:
        value = json.loads(text.lower() if is_word else text)
    except (ValueError, RecursionError):
        return text
    return value if _is_allowed(value, kinds) else text


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
