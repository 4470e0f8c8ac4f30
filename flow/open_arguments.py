"""The arguments of a planned call, checked while its references are still open. Pure.

A text that is one reference may become any value; one with references inside becomes some text.
All the rest must fit the tool's schema as `arguments.check_arguments` will want it.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..tools.arguments import depth_of, fit, told, unsafe_part
from ..tools.schemas import Schema
from .references import MissingValue, is_whole, references_in, resolve

_BRACES: Final = "{{"
_CACHED: Final = 1_024

Check = Callable[[Any], bool]
_Keyword = Callable[[Any, Any, Any, Any], Iterable[Any] | None]


def open_problems(schema: Schema, args: object) -> list[str]:
    """Everything that will not fit the schema whatever the references stand for.

    Args:
        schema: The sanitised schema of the tool.
        args: The arguments as planned.

    Returns:
        One problem each, what is wrong further out first; empty where they may fit.
    """
    if not isinstance(args, dict):
        return [f"the arguments must be a JSON object, not {type(args).__name__}"]
    reader = _reader(_Same(schema))
    if reader.surely(args):
        return []
    unsafe = unsafe_part(args)
    if unsafe:
        return [unsafe.rstrip(".")]
    fitted = fit(args, schema)
    if reader.surely(fitted):
        return []
    errors = reader.validator.iter_errors(_opened(fitted))
    return [told(error) for error in sorted(errors, key=depth_of)]


@dataclass(frozen=True, eq=False)
class _Same:
    """A schema as the key of a cache: schemas are never changed, and comparing them is slow."""

    schema: Schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema


@dataclass(frozen=True)
class _Reader:
    """What was prepared for one schema.

    Attributes:
        surely: Whether arguments fit beyond doubt; quick, and false for what it does not know.
        validator: Finds out what is wrong with the rest.
    """

    surely: Check
    validator: Any


@lru_cache(maxsize=_CACHED)
def _reader(key: _Same) -> _Reader:
    return _Reader(_sure(key.schema), _OpenValidator(key.schema))


# What references leave open.


@dataclass(frozen=True)
class _Open:
    """A value that a whole reference stands for."""

    text: str

    def __repr__(self) -> str:
        return repr(self.text)


class _OpenText(str):
    """A text of which only parts are known."""

    __slots__ = ()


def _opened(value: Any) -> Any:
    """A copy of a value with its references marked, and escaped braces as they will be sent."""
    if isinstance(value, dict):
        return {key: _opened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if not isinstance(value, str) or _BRACES not in value:
        return value
    if is_whole(value):
        return _Open(value)
    # A malformed reference is some text as well: what is wrong with it is said elsewhere.
    return _OpenText(value) if references_in(value) else _unescaped(value)


def _unescaped(text: str) -> str:
    try:
        return str(resolve(text, {}, {}))
    except MissingValue:
        return _OpenText(text)


def _is_open(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_open, value.values()))
    if isinstance(value, list):
        return any(map(_is_open, value))
    return isinstance(value, _Open | _OpenText)


def _sparing(keyword: str, spared: Check) -> _Keyword:
    """A keyword of JSON schema that has nothing to say about these values."""
    check: _Keyword = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def checked(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        return () if spared(value) else check(validator, wanted, value, schema)

    return checked


def _is_value(value: Any) -> bool:
    return isinstance(value, _Open)


def _is_text(value: Any) -> bool:
    return isinstance(value, _OpenText)


# All other keywords ask for a type first, or look at each part of a value by itself.
_SPARED: Final[dict[str, Check]] = {
    "type": _is_value,
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), _is_text),
    **dict.fromkeys(("enum", "const", "not", "if", "oneOf", "contains", "uniqueItems"), _is_open),
}
_OpenValidator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {keyword: _sparing(keyword, spared) for keyword, spared in _SPARED.items()},
)


# The quick check: jsonschema takes some 40 µs a call, which a plan of a thousand steps cannot pay.

_BOUNDS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
_COUNTS: Final[dict[str, dict[str, Callable[[Any, Any], bool]]]] = {
    "string": {"minLength": operator.ge, "maxLength": operator.le},
    "array": {"minItems": operator.ge, "maxItems": operator.le},
}
_KNOWN: Final = (
    frozenset({"type", "description", "default", "enum", "anyOf", "items"})
    | {"properties", "required", "additionalProperties"}
    | {*_BOUNDS, *_COUNTS["string"], *_COUNTS["array"]}
)
_WORDS: Final = frozenset({"description", "default"})
_LIMITS_OF_TEXT: Final = frozenset({"enum", "anyOf", *_COUNTS["string"]})
_SIZES: Final = range(-(2**63), 2**63)
_FREE_DEPTH: Final = 8


def _sure(schema: object) -> Check:
    """Whether a value fits beyond doubt; what holds references counts as what they may become."""
    if not isinstance(schema, Mapping) or set(schema) - _KNOWN:
        return _is_reference
    takes_text = schema.get("type", "string") == "string" and not _LIMITS_OF_TEXT & set(schema)
    known = _sure_of_known(schema)

    def check(value: Any) -> bool:
        if isinstance(value, str) and _BRACES in value:
            return is_whole(value) or (takes_text and _sendable(value))
        return known(value)

    return check


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and _BRACES in value and is_whole(value)


def _sure_of_known(schema: Mapping[str, Any]) -> Check:
    kind = schema.get("type", "")
    if "anyOf" in schema and set(schema) - _WORDS == {"anyOf"}:
        branches = [_sure(branch) for branch in schema["anyOf"]]
        return lambda value: any(branch(value) for branch in branches)
    if "anyOf" in schema or (not kind and set(schema) - _WORDS):
        return _is_reference
    if "enum" in schema:
        return _sure_choice(schema["enum"]) if kind == "string" else _is_reference
    if kind == "object":
        return _sure_object(schema)
    if kind == "array":
        return _sure_array(schema)
    return _within(_PLAIN.get(kind, _is_reference), _limits(schema, kind))


def _sure_choice(choices: list[Any]) -> Check:
    return lambda value: isinstance(value, str) and value in choices


def _sure_object(schema: Mapping[str, Any]) -> Check:
    fields = {name: _sure(field) for name, field in schema.get("properties", {}).items()}
    required = frozenset(schema.get("required", ()))
    extra = schema.get("additionalProperties", True)
    other = _sure(extra) if isinstance(extra, Mapping) else _free if extra else _is_nothing

    def check(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and required <= value.keys()
            and all(
                fields[name](item) if name in fields else _sendable(name) and other(item)
                for name, item in value.items()
            )
        )

    return check


def _sure_array(schema: Mapping[str, Any]) -> Check:
    item = _sure(schema["items"]) if schema.get("items") else _free
    return _within(
        lambda value: isinstance(value, list) and all(map(item, value)), _limits(schema, "array")
    )


def _limits(schema: Mapping[str, Any], kind: str) -> list[Check]:
    limits: list[Check] = []
    for key, fits in (_BOUNDS if kind in ("integer", "number") else _COUNTS.get(kind, {})).items():
        if key in schema:
            limits.append(_limit(fits, schema[key], counted=kind in _COUNTS))
    return limits


def _limit(fits: Callable[[Any, Any], bool], bound: Any, *, counted: bool) -> Check:
    return lambda value: fits(len(value) if counted else value, bound)


def _within(check: Check, limits: list[Check]) -> Check:
    if not limits:
        return check
    return lambda value: check(value) and all(limit(value) for limit in limits)


def _is_nothing(_: Any) -> bool:
    return False


def _is_integer(value: Any) -> bool:
    return type(value) is int and value in _SIZES


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (type(value) is float and math.isfinite(value))


def _sendable(text: Any) -> bool:
    """Whether a text can be stored and sent as it is."""
    if not isinstance(text, str):
        return False
    return "\x00" not in text if text.isascii() else not unsafe_part(text)


def _free(value: Any, depth: int = 0) -> bool:
    """Whether a value without a schema can be stored and sent, and is not nested deeply."""
    if isinstance(value, dict | list) and depth < _FREE_DEPTH:
        items = value.values() if isinstance(value, dict) else value
        names = value if isinstance(value, dict) else ()
        return all(map(_sendable, names)) and all(_free(item, depth + 1) for item in items)
    return isinstance(value, bool) or value is None or _is_number(value) or _sendable(value)


_PLAIN: Final[dict[str, Check]] = {
    "": _free,
    "string": _sendable,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
