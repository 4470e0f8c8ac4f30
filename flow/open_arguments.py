"""The arguments of a planned call, checked while its references are still open. Pure.

A text that is one reference may become any value; one with references inside becomes some text.
All the rest must fit the tool's schema as `arguments.check_arguments` will want it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own

from ..state.told import say
from ..tools.arguments import fit, problems_of, unsafe_part
from ..tools.schemas import Schema
from .references import OPEN, MissingValue, is_whole, mapped, references_in, resolve

Check = Callable[[Any], bool]


def open_problems(schema: Schema, args: object) -> list[str]:
    """Everything that will not fit the schema whatever the references stand for.

    Args:
        schema: The sanitised schema of the tool.
        args: The arguments as planned.

    Returns:
        One problem each, what is wrong further out first; empty where they may fit.
    """
    if not isinstance(args, dict):
        return [say("arguments_of_step_no_object", kind=type(args).__name__)]
    if _plainly_fits(args, schema):
        return []
    if unsafe := unsafe_part(args):
        return [unsafe.rstrip(".")]
    return problems_of(_validator(_Same(schema)).iter_errors(mapped(fit(args, schema), _opened)))


_WORDS: Final = frozenset({"type", "description", "default"})
_PLAIN: Final = {"string": str, "boolean": bool, "integer": int}
_SIZES: Final = range(-(2**63), 2**63)


def _plainly_fits(args: Mapping[str, Any], schema: Schema) -> bool:
    """Whether each argument is a reference, or a text, number or flag that nothing restricts.

    Most are; jsonschema takes some 40 µs for what this says in one, and plans have 1,000 steps.
    """
    fields = schema.get("properties", {})
    return all(name in args for name in schema.get("required", ())) and all(
        name in fields and _is_plain(value, fields[name]) for name, value in args.items()
    )


def _is_plain(value: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(value, str) and (not value.isascii() or "\x00" in value):
        return False
    if type(value) is int and value not in _SIZES:
        return False
    if isinstance(value, str) and OPEN in value and is_whole(value):
        return True
    return schema.keys() <= _WORDS and type(value) is _PLAIN.get(schema.get("type", ""))


class _Same:
    """A schema as the key of a cache: schemas are never changed, and comparing them is slow."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema


@lru_cache(maxsize=1_024)
def _validator(key: _Same) -> Any:
    return _OpenValidator(key.schema)


class _Open:
    """A value that a whole reference stands for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return repr(self.text)


class _OpenText(str):
    """A text of which only parts are known."""

    __slots__ = ()


def _opened(value: str) -> Any:
    """A text with its references marked, and escaped braces as they will be sent."""
    if OPEN not in value:
        return value
    if is_whole(value):
        return _Open(value)
    try:  # a malformed reference is some text as well: what is wrong with it is said elsewhere
        return _OpenText(value) if references_in(value) else str(resolve(value, {}, {}))
    except MissingValue:
        return _OpenText(value)


def _is_open(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_is_open, value.values() if isinstance(value, dict) else value))
    return isinstance(value, _Open | _OpenText)


def _sparing(keyword: str, spared: Check) -> Callable[[Any, Any, Any, Any], Iterable[Any] | None]:
    """A keyword of JSON schema that has nothing to say about these values."""
    check = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def checked(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        return () if spared(value) else check(validator, wanted, value, schema)

    return checked


# All other keywords ask for a type first, or look at each part of a value by itself.
_SPARED: Final[dict[str, Check]] = {
    "type": lambda value: isinstance(value, _Open),
    **dict.fromkeys(
        ("minLength", "maxLength", "pattern", "format"), lambda v: isinstance(v, _OpenText)
    ),
    **dict.fromkeys(("enum", "const", "not", "if", "oneOf", "contains", "uniqueItems"), _is_open),
}
_OpenValidator: Final = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {keyword: _sparing(keyword, spared) for keyword, spared in _SPARED.items()},
)
