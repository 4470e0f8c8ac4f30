"""The one conversion of what a Python tool returns to JSON; the table stands in docs/embedding.md.

References, checks and evidence read what comes out here; a model reads a text made of it.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import islice
from typing import Any, Final

from langchain_core.messages import BaseMessage
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..text.canonical import DEEPEST, canonical, storable_json
from ..text.told import say

_MOST: Final = 100_000
"""Items that are taken from a generator; one that has more may never end."""
_BYTES: Final = (bytes, bytearray, memoryview)
_LISTS: Final = (list, tuple, Iterator, range)


@dataclass(frozen=True)
class Returned:
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
    """A value that a tool may not return; its text says why, where, and what to do instead."""


def as_json(value: object) -> Any:
    """A value as plain JSON; what has no JSON form becomes its text.

    Raises:
        NoJson: There are bytes in it, or what is read of it raises.
    """
    try:
        return storable_json(_plain(value, "", ()))
    except RecursionError:
        return storable_json(told(value))
    except NoJson:
        raise
    except Exception as error:  # its class is code of others
        why = f"{type(error).__name__}: {told(error)}"
        raise NoJson(say("result_breaks", error=why)) from error


def told(value: object) -> str:
    """A value in its own words, where it has any: a `__str__` may raise like all code of others."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever it raises, there is a value to name
        return f"<{type(value).__name__}>"


def collected(value: Any) -> Any:
    """A generator as the list it gives; every other value as it is. Runs the tool's own code.

    Raises:
        NoJson: It goes on and on.
    """
    return _whole(list(islice(value, _MOST + 1))) if _is_lazy(value) else value


async def collected_later(value: Any) -> Any:
    """An asynchronous generator as the list it gives; every other value as it is.

    Raises:
        NoJson: It goes on and on.
    """
    if not isinstance(value, AsyncIterator):
        return value
    items: list[Any] = []
    async for item in value:
        items.append(item)
        _whole(items)
    return items


def _is_lazy(value: Any) -> bool:
    return isinstance(value, Iterator) and not hasattr(value, "read")


def _whole(items: list[Any]) -> list[Any]:
    if len(items) > _MOST:
        raise NoJson(say("result_never_ends", most=_MOST))
    return items


def _plain(value: Any, place: str, around: tuple[int, ...]) -> Any:
    """The value without types of Python's; `around` are the ids of what it stands in."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, _BYTES):
        raise NoJson(say("result_is_bytes", place=place or say("the_whole_result")))
    if isinstance(value, Enum):
        return _plain(value.value, place, around)
    if isinstance(value, str | int | float):
        return _plain_number(value)
    if id(value) in around:
        raise RecursionError
    if len(around) > DEEPEST:
        return told(value)
    return _opened(value, place, (*around, id(value)))


def _plain_number(value: str | float) -> Any:
    if isinstance(value, float):
        number = float(value)
        return number if number - number == 0 else json.dumps(number)  # JSON has no NaN
    return str(value) if isinstance(value, str) else int(value)


def _opened(value: Any, place: str, around: tuple[int, ...]) -> Any:
    """What is inside a value that holds others, or its text."""
    table = _table(value)
    if table is not value:
        return _plain(table, place, around)
    if isinstance(value, Mapping):
        return {
            _key(k): _plain(v, f"{place}.{_key(k)}".lstrip("."), around) for k, v in value.items()
        }
    if isinstance(value, AbstractSet) and not hasattr(value, "mapping"):
        return sorted((_plain(item, place, around) for item in value), key=canonical)
    if isinstance(value, _LISTS) or _is_sequence(value):
        items: Iterable[Any] = collected(value) if _is_lazy(value) else value
        return [_plain(item, f"{place}[{i}]", around) for i, item in enumerate(items)]
    return _leaf(value)


def _is_sequence(value: Any) -> bool:
    """Lists of other makes: deques, arrays, views of a dict."""
    known = ("deque", "array", "dict_keys", "dict_values", "dict_items", "UserList")
    return type(value).__name__ in known and isinstance(value, Iterable)


def _key(key: Any) -> str:
    plain = _plain(key, "", ())
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _table(value: Any) -> Any:
    """A model, a dataclass, an array or a table as dicts and lists; every other value itself."""
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
    return _frame(value)


def _frame(value: Any) -> Any:
    """What numpy, pandas and polars hold; none of them is imported for it."""
    if hasattr(value, "to_dicts") and hasattr(value, "columns"):
        return value.to_dicts()
    if hasattr(value, "to_dict") and hasattr(value, "iloc"):
        return _pandas(value)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        of_time = value.dtype.kind in "mM"
        return value.astype(str).tolist() if of_time else value.tolist()
    if type(value).__module__.startswith("polars") and hasattr(value, "to_list"):
        return value.to_list()
    return value


def _pandas(value: Any) -> Any:
    """Rows of a table, the values of a column; a named index is a column, missing is None."""
    gaps = value.isna()
    full = value.astype(object).where(~gaps, None)
    if not hasattr(value, "columns"):
        is_plain = type(value.index).__name__ == "RangeIndex"
        return full.tolist() if is_plain else full.to_dict()
    named = any(name is not None for name in value.index.names)
    return (full.reset_index() if named else full).to_dict(orient="records")


def _leaf(value: Any) -> Any:
    if isinstance(value, date | time):
        return told(value) if _is_missing(value) else value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    try:
        plain = to_jsonable_python(value, fallback=told)
    except (PydanticSerializationError, ValueError, TypeError):
        return told(value)
    return plain if isinstance(plain, str) else told(value)


def _is_missing(value: Any) -> bool:
    """Whether it is pandas' `NaT`, which is a date that has no text."""
    return bool(value != value)
