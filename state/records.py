"""Records: fields of a state that are saved together, as one channel.

LangGraph saves per channel: each channel that a node changes is a write, a version and a row.
Nodes and routers read and write the fields of a flat dataclass; a graph has a channel for each
record of them. Its reducer merges fields, so a node that read the record earlier overwrites
nothing that another one, or the graph's doors, have written since.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache, partial
from inspect import get_annotations
from typing import Annotated, Any, Final, get_type_hints

from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite
from typing_extensions import TypedDict

RECORDS: Final = ("turn_state", "call_state", "work_state")
"""The channels that are records: of the turn, of its calls, and of work that seldom changes."""

OPEN: Final = frozenset({"outcome", "task_completed", "should_continue", "improvements"})
"""Plain fields that keep a channel of their own: edges read them, and people look at them."""

Reducers = Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[], Any]]]


@cache
def channels_of(state: type) -> Mapping[str, str]:
    """The channel of each field of a state: its own, or the record of the class that names it."""
    hints = get_type_hints(state, include_extras=True)
    return {
        field.name: field.name
        if field.name in OPEN or _is_channel(hints[field.name])
        else _record_of(state, field.name)
        for field in fields(state)
    }


def _is_channel(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return any(
        isinstance(mark, BaseChannel) or (isinstance(mark, type) and issubclass(mark, BaseChannel))
        for mark in marks
    )


def _record_of(state: type, name: str) -> str:
    owner = next(one for one in state.__mro__ if name in get_annotations(one))
    record: str = vars(owner)["record"]
    return record


@cache
def schema_of(state: type) -> type:
    """The state's channels, as LangGraph reads them."""
    hints, channels = get_type_hints(state, include_extras=True), channels_of(state)
    saved = {name: hints[name] for name, channel in channels.items() if name == channel}
    reducers: dict[str, dict[str, Any]] = {}
    for field in fields(state):
        if field.name not in saved:
            found = getattr(hints[field.name], "__metadata__", ())
            of_record = reducers.setdefault(channels[field.name], {})
            of_record |= {field.name: (found[0], _default(field))} if found else {}
    records = {
        name: Annotated[dict[str, Any], partial(merge_fields, some)]
        for name, some in reducers.items()
    }
    return TypedDict(f"{state.__name__}Channels", {**saved, **records}, total=False)  # type: ignore[operator, no-any-return]  # its keys are those of the state


def _default(field: Field[Any]) -> Callable[[], Any]:
    if field.default_factory is not MISSING:
        return field.default_factory
    return lambda: field.default


def merge_fields(
    reducers: Reducers, left: dict[str, Any], right: Mapping[str, Any]
) -> dict[str, Any]:
    """Reducer of a record: by field, with the field's own reducer, else the later value."""
    merged = {**left}
    for name, value in right.items():
        if isinstance(value, Overwrite):
            merged[name] = value.value
        elif name in reducers:
            reducer, empty = reducers[name]
            merged[name] = reducer(merged[name] if name in merged else empty(), value)
        else:
            merged[name] = value
    return merged


def pack_fields(state: type, update: Mapping[str, Any]) -> dict[str, Any]:
    """An update of fields as one of channels; channels that it names stay as they are."""
    channels, written = channels_of(state), dict[str, Any]()
    for name, value in update.items():
        channel = channels.get(name, name)
        if channel == name:
            written[name] = value
        else:
            written.setdefault(channel, {})[name] = value
    return written


def unpack_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in a state's channels, as fields."""
    flat = {name: value for name, value in values.items() if name not in RECORDS}
    for record in RECORDS:
        flat |= values.get(record) or {}
    return flat
