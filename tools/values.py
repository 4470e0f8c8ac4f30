"""What a Python tool returns, as JSON, and the schema that its return annotation promises.

References, checks and evidence read this JSON; a model reads a text made of it. The table of types
stands in docs/embedding.md.
"""

import inspect
import json
import types
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import islice
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

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import ReadOnly, TypeAliasType, is_typeddict

from ..text.canonical import DEEPEST, canonical, make_storable_json
from ..text.sentences import say
from .schemas import Schema

_MOST: Final = 100_000
"""Items that are taken from a generator; one that has more may never end."""
_BYTES: Final = (bytes, bytearray, memoryview)
_LISTS: Final = (list, tuple, Iterator, range)

Around = tuple[type, ...]
"""The classes in whose fields a type stands."""

_DEEPEST_CLASS: Final = 6
_TEXTS: Final = (str, date, time, Decimal, UUID, PurePath)
_PLAIN: Final[Mapping[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_LIST_NAMES: Final = frozenset({
    "list", "tuple", "set", "frozenset", "deque", "Sequence", "MutableSequence", "Set",
    "MutableSet", "Collection", "Iterable", "Iterator", "Generator", "AsyncIterable",
    "AsyncIterator", "AsyncGenerator",
})  # fmt: skip
_MAPPING_NAMES: Final = frozenset(
    {"dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"}
)
_WRAPPERS: Final = (Annotated, NotRequired, Required, ReadOnly)


@dataclass(frozen=True)
class ReturnedValue:
    """What a Python tool returned, before anything was made of it.

    Attributes:
        value: The value itself.
        artifact: What a tool with `content_and_artifact` gave besides.
        is_content: The tool says that its lists are content blocks for a model, not data.
    """

    value: Any
    artifact: Any = None
    is_content: bool = False


class NoJson(ValueError):
    """A tool returned a value that has no JSON; the text says where, and what to do instead."""


def as_json(value: object) -> Any:
    """A value as plain JSON; a part without a JSON form becomes its text.

    Raises:
        NoJson: It holds bytes, or reading it raises.
    """
    try:
        return make_storable_json(_to_plain(value, "", ()))
    except RecursionError:
        return make_storable_json(to_text(value))
    except NoJson:
        raise
    except Exception as error:  # its class is code of others
        why = f"{type(error).__name__}: {to_text(error)}"
        raise NoJson(say("result_breaks", error=why)) from error


def to_text(value: object) -> str:
    """A value as text; its `__str__` may raise."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever it raises, there is a value to name
        return f"<{type(value).__name__}>"


def collect_items(value: Any) -> Any:
    """A generator as a list, which runs the tool's code; any other value unchanged.

    Raises:
        NoJson: It has too many items.
    """
    return _check_length(list(islice(value, _MOST + 1))) if _is_lazy(value) else value


async def collect_async_items(value: Any) -> Any:
    """An asynchronous generator as a list; any other value unchanged.

    Raises:
        NoJson: It has too many items.
    """
    if not isinstance(value, AsyncIterator):
        return value
    items: list[Any] = []
    async for item in value:
        items.append(item)
        _check_length(items)
    return items


def _is_lazy(value: Any) -> bool:
    return isinstance(value, Iterator) and not hasattr(value, "read")


def _check_length(items: list[Any]) -> list[Any]:
    if len(items) > _MOST:
        raise NoJson(say("result_never_ends", most=_MOST))
    return items


def _to_plain(value: Any, place: str, around: tuple[int, ...]) -> Any:
    """The value without Python's own types; `around` holds the ids of its containers."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, _BYTES):
        raise NoJson(say("result_is_bytes", place=place or say("the_whole_result")))
    if isinstance(value, Enum):
        return _to_plain(value.value, place, around)
    if isinstance(value, str | int | float):
        return _to_plain_number(value)
    if id(value) in around:
        raise RecursionError
    if len(around) > DEEPEST:
        return to_text(value)
    return _open_container(value, place, (*around, id(value)))


def _to_plain_number(value: str | float) -> Any:
    if isinstance(value, float):
        number = float(value)
        return number if number - number == 0 else json.dumps(number)  # JSON has no NaN
    return str(value) if isinstance(value, str) else int(value)


def _open_container(value: Any, place: str, around: tuple[int, ...]) -> Any:
    """What is inside a value that holds others, or its text."""
    table = _read_table(value)
    if table is not value:
        return _to_plain(table, place, around)
    if isinstance(value, Mapping):
        return {
            _to_key(k): _to_plain(v, f"{place}.{_to_key(k)}".lstrip("."), around)
            for k, v in value.items()
        }
    if isinstance(value, AbstractSet) and not hasattr(value, "mapping"):
        return sorted((_to_plain(item, place, around) for item in value), key=canonical)
    if isinstance(value, _LISTS) or _is_sequence(value):
        items: Iterable[Any] = collect_items(value) if _is_lazy(value) else value
        return [_to_plain(item, f"{place}[{i}]", around) for i, item in enumerate(items)]
    return _read_leaf(value)


def _is_sequence(value: Any) -> bool:
    """Lists of other makes: deques, arrays, views of a dict."""
    known = ("deque", "array", "dict_keys", "dict_values", "dict_items", "UserList")
    return type(value).__name__ in known and isinstance(value, Iterable)


def _to_key(key: Any) -> str:
    plain = _to_plain(key, "", ())
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _read_table(value: Any) -> Any:
    """A model, dataclass, array or table as dicts and lists; any other value unchanged."""
    if isinstance(value, type):
        return value
    if isinstance(value, BaseMessage):
        return value.text
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, serialize_as_any=True, warnings=False)
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}
    if hasattr(value, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in value.__attrs_attrs__}
    if hasattr(value, "__fields__") and hasattr(value, "dict"):  # a model of pydantic v1
        return value.dict(by_alias=True)
    return _read_frame(value)


def _read_frame(value: Any) -> Any:
    """Values of numpy, pandas and polars, without importing them."""
    if hasattr(value, "to_dicts") and hasattr(value, "columns"):
        return value.to_dicts()
    if hasattr(value, "to_dict") and hasattr(value, "iloc"):
        return _read_pandas(value)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        of_time = value.dtype.kind in "mM"
        return value.astype(str).tolist() if of_time else value.tolist()
    if type(value).__module__.startswith("polars") and hasattr(value, "to_list"):
        return value.to_list()
    return value


def _read_pandas(value: Any) -> Any:
    """Rows of a table, the values of a column; a named index is a column, missing is None."""
    gaps = value.isna()
    full = value.astype(object).where(~gaps, None)
    if not hasattr(value, "columns"):
        is_plain = type(value.index).__name__ == "RangeIndex"
        return full.tolist() if is_plain else full.to_dict()
    named = any(name is not None for name in value.index.names)
    return (full.reset_index() if named else full).to_dict(orient="records")


def _read_leaf(value: Any) -> Any:
    if isinstance(value, date | time):
        return to_text(value) if _is_missing(value) else value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    try:
        plain = to_jsonable_python(value, fallback=to_text)
    except (PydanticSerializationError, ValueError, TypeError):
        return to_text(value)
    return plain if isinstance(plain, str) else to_text(value)


def _is_missing(value: Any) -> bool:
    """Whether it is pandas' `NaT`, which is a date that has no text."""
    return bool(value != value)


def read_result_schema(tool: BaseTool) -> Schema | None:
    """The schema of a tool's result by its return annotation; None if it tells nothing.

    A string may hold anything, and content is text for a model.
    """
    if tool.response_format == "content_and_artifact" or (tool.metadata or {}).get("content"):
        return None
    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None)
    schema = _make_schema(_read_hints(function or type(tool)._run).get("return"), ())
    is_known = schema.keys() - {"type"} or schema.get("type") in ("integer", "number", "boolean")
    return schema if is_known or schema.get("type") == "array" else None


def _read_hints(function: Callable[..., Any] | type) -> dict[str, Any]:
    """The annotations of a function or a class; empty if they cannot be read."""
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or isinstance(function, type)):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are code of others, run here
        return {}


def _make_schema(kind: Any, around: Around) -> Schema:
    """The schema of a type; {} if its values may be anything."""
    origin, inside = get_origin(kind), get_args(kind)
    if len(around) > _DEEPEST_CLASS or kind is None:
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
    """The schema of any kind of list or mapping; {} for other types."""
    name, module = getattr(kind, "__name__", ""), getattr(kind, "__module__", "")
    if module.partition(".")[0] not in ("builtins", "collections", "typing"):
        return {}
    if name in _MAPPING_NAMES:
        values = _make_schema(inside[1], around) if len(inside) == 2 else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    return _make_array_schema(name, inside, around) if name in _LIST_NAMES else {}


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
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(hints)
    return _make_object_schema({name: hints.get(name, Any) for name in names}, inner)


def _make_object_schema(types_of: Mapping[str, Any], around: Around) -> Schema:
    properties = {name: _make_schema(kind, around) for name, kind in types_of.items()}
    return {"type": "object", "properties": properties}


def _make_model_schema(kind: type[BaseModel], around: Around) -> Schema:
    """The fields of a model as it is serialised; {} if its own code does that."""
    own = kind.__pydantic_decorators__
    if own.model_serializers or kind.__pydantic_root_model__:
        return {}
    schema = _make_object_schema(dict(_list_model_fields(kind)), around)
    if kind.model_config.get("extra") == "allow":
        schema["additionalProperties"] = True
    return schema


def _list_model_fields(kind: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    written = kind.__pydantic_decorators__.field_serializers.values()
    by_code = {name for serializer in written for name in serializer.info.fields}
    for name, field in kind.model_fields.items():
        if not field.exclude:
            free = name in by_code or "*" in by_code
            yield (
                field.serialization_alias or field.alias or name,
                Any if free else field.annotation,
            )
    for name, computed in kind.model_computed_fields.items():
        yield computed.alias or name, computed.return_type
