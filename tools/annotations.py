"""What the return annotation of a Python tool promises: the schema of what references will read.

The other side of `values`: each kind of type is here what its values are there.
"""

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields as fields_of, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from langchain_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import ReadOnly, TypeAliasType, is_typeddict

from .schemas import Schema

Around = tuple[type, ...]
"""The classes in whose fields a type stands."""

_DEEPEST: Final = 6
_TEXTS: Final = (str, date, time, Decimal, UUID, PurePath)
_PLAIN: Final[Mapping[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_LISTS: Final = frozenset({
    "list", "tuple", "set", "frozenset", "deque", "Sequence", "MutableSequence", "Set",
    "MutableSet", "Collection", "Iterable", "Iterator", "Generator", "AsyncIterable",
    "AsyncIterator", "AsyncGenerator",
})  # fmt: skip
_MAPPINGS: Final = frozenset({"dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"})
_WRAPPERS: Final = (Annotated, NotRequired, Required, ReadOnly)


def read_result_schema(tool: BaseTool) -> Schema | None:
    """The schema of a tool's result by its return annotation; None where that says nothing.

    A text may spell anything; what a tool gives as content is words for a model.
    """
    if tool.response_format == "content_and_artifact" or (tool.metadata or {}).get("content"):
        return None
    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None)
    schema = _make_schema(_read_hints(function or type(tool)._run).get("return"), ())
    told = schema.keys() - {"type"} or schema.get("type") in ("integer", "number", "boolean")
    return schema if told or schema.get("type") == "array" else None


def _read_hints(function: Callable[..., Any] | type) -> dict[str, Any]:
    """The annotations of a function or a class; none where they cannot be read."""
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or isinstance(function, type)):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are code of others, run here
        return {}


def _make_schema(kind: Any, around: Around) -> Schema:
    """The schema of a type; {} where its values may be anything."""
    origin, inside = get_origin(kind), get_args(kind)
    if len(around) > _DEEPEST or kind is None:
        return {}
    if origin in _WRAPPERS:
        return _make_schema(inside[0], around)
    if origin in (Union, types.UnionType):
        return _any_of(
            [{"type": "null"} if k is type(None) else _make_schema(k, around) for k in inside]
        )
    if origin is Literal:
        return _one_of(inside)
    if isinstance(kind, NewType):
        return _make_schema(kind.__supertype__, around)
    if isinstance(kind, TypeAliasType):
        return _make_schema(kind.__value__, around)
    return _make_container_schema(origin or kind, inside, around) or _make_class_schema(
        kind, around
    )


def _make_container_schema(kind: Any, inside: tuple[Any, ...], around: Around) -> Schema:
    """The schema of a list or a mapping, of whichever make; {} where it is neither."""
    name, module = getattr(kind, "__name__", ""), getattr(kind, "__module__", "")
    if module.partition(".")[0] not in ("builtins", "collections", "typing"):
        return {}
    if name in _MAPPINGS:
        values = _make_schema(inside[1], around) if len(inside) == 2 else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    return _make_array_schema(name, inside, around) if name in _LISTS else {}


def _any_of(branches: list[Schema]) -> Schema:
    return {"anyOf": branches} if all(branches) else {}


def _one_of(values: tuple[Any, ...]) -> Schema:
    plain = [value.value if isinstance(value, Enum) else value for value in values]
    is_json = all(isinstance(value, str | int | float | None) for value in plain)
    return {"enum": plain} if is_json else {}


def _make_array_schema(name: str, inside: tuple[Any, ...], around: Around) -> Schema:
    same = name != "tuple" or (len(inside) == 2 and inside[1] is ...)
    items = _make_schema(inside[0], around) if inside and same else {}
    return {"type": "array", **({"items": items} if items else {})}


def _make_class_schema(kind: Any, around: Around) -> Schema:
    if not isinstance(kind, type) or kind in around:  # a recursive one ends here
        return {}
    if issubclass(kind, Enum):
        return _one_of(tuple(kind))
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if issubclass(kind, _TEXTS):
        return {"type": "string"}
    inner = (*around, kind)
    if issubclass(kind, BaseModel):
        return _make_model_schema(kind, inner)
    if not (is_dataclass(kind) or is_typeddict(kind)):
        return {}
    hints = _read_hints(kind)
    names = [field.name for field in fields_of(kind)] if is_dataclass(kind) else list(hints)
    return _make_object_schema({name: hints.get(name, Any) for name in names}, inner)


def _make_object_schema(types_of: Mapping[str, Any], around: Around) -> Schema:
    fields = {name: _make_schema(kind, around) for name, kind in types_of.items()}
    return {"type": "object", "properties": fields}


def _make_model_schema(kind: type[BaseModel], around: Around) -> Schema:
    """The fields of a model as it is written down; {} where code of its own writes it."""
    own = kind.__pydantic_decorators__
    if own.model_serializers or kind.__pydantic_root_model__:
        return {}
    schema = _make_object_schema(dict(_fields(kind)), around)
    if kind.model_config.get("extra") == "allow":
        schema["additionalProperties"] = True
    return schema


def _fields(kind: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    written = kind.__pydantic_decorators__.field_serializers.values()
    by_code = {name for one in written for name in one.info.fields}
    for name, field in kind.model_fields.items():
        if not field.exclude:
            free = name in by_code or "*" in by_code
            yield (
                field.serialization_alias or field.alias or name,
                Any if free else field.annotation,
            )
    for name, computed in kind.model_computed_fields.items():
        yield computed.alias or name, computed.return_type
