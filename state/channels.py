"""How the fields of a state are saved: growing lists, records, and the events and components shown.

LangGraph saves per channel: each channel that a node changes is a write, a version and a row. So
fields are saved together as records. Nodes and routers read and write the fields of a flat
dataclass; a record's reducer merges field by field, so a node that read the record earlier
overwrites nothing that another node, or the graph's doors, have written since.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from inspect import get_annotations
from typing import Annotated, Any, Final, Self, TypeVar, cast, get_type_hints

from langgraph.channels.base import BaseChannel
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.graph.ui import AnyUIMessage
from langgraph.types import Overwrite
from typing_extensions import TypedDict

S = TypeVar("S")
T = TypeVar("T")


class GrowingChannel(DeltaChannel[list[T]]):
    """A list that is saved as writes, with a whole snapshot now and then.

    A snapshot every 100 writes costs O(n²) bytes. We take one when half the list is new: all
    snapshots together are about twice the final size.
    """

    __slots__ = ("_fewest",)

    @property
    def snapshot_frequency(self) -> int:
        """LangGraph saves it whole after so many writes."""
        return max(self._fewest, len(self.value) // 2 if self.is_available() else 0)

    @snapshot_frequency.setter
    def snapshot_frequency(self, fewest: int) -> None:
        self._fewest = fewest


class IndexedList(list[T]):
    """A list of items with ids that is extended without a walk over it.

    The versions of one list share an index: in each version that has an id, the item stands where
    the index says. A list that somebody else has changed is indexed again.
    """

    __slots__ = ("_known", "_places")

    _known: int
    _places: dict[str, int]

    def __init__(self, items: Iterable[T] = ()) -> None:
        """These items, not indexed yet."""
        super().__init__(items)
        self._places, self._known = {}, -1

    @classmethod
    def of(cls, items: Iterable[T], id_of: Callable[[T], str]) -> Self:
        """A new version of items; of equal ids the last one counts, at the place of the first."""
        if isinstance(items, IndexedList) and items._known == len(items):
            return cls._from_index(items, items._places)
        by_id = {id_of(item): item for item in items}
        return cls._from_index(by_id.values(), {name: place for place, name in enumerate(by_id)})

    @classmethod
    def _from_index(cls, items: Iterable[T], places: dict[str, int]) -> Self:
        made = cls(items)
        made._places, made._known = places, len(made)
        return made

    def put(self, item: T, id_of: Callable[[T], str]) -> None:
        """Add an item, or replace the one of the same id; for the maker of this version."""
        name = id_of(item)
        place = self._places.setdefault(name, len(self))
        if place > len(self) or (place < len(self) and id_of(self[place]) != name):
            # Another version has this id elsewhere.
            self._places = {id_of(old): place for place, old in enumerate(self)}
            place = self._places.setdefault(name, len(self))
        if place == len(self):
            self.append(item)
        else:
            self[place] = item
        self._known = len(self)

    def find_place(self, name: str, id_of: Callable[[T], str]) -> int:
        """Where an id stands; -1 where it does not."""
        places = self._places
        if self._known != len(self):
            places = {id_of(item): place for place, item in enumerate(self)}
        place = places.get(name, -1)
        return place if 0 <= place < len(self) and id_of(self[place]) == name else -1

    def __copy__(self) -> Self:
        """Another version."""
        return (
            self._from_index(self, self._places) if self._known == len(self) else type(self)(self)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a plain list."""
        return list, ([*self],)


RECORDS: Final = ("turn_state", "call_state", "work_state")
"""The channels that are records: of the turn, of its calls, and of work that seldom changes."""

OPEN: Final = frozenset({"outcome", "task_completed", "should_continue", "improvements"})
"""Plain fields that keep a channel of their own: edges read them, and people look at them."""

Reducers = Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[], Any]]]


@cache
def channels_of(state: type) -> Mapping[str, str]:
    """The channel of each field of a state: its own, or the record of the class that names it."""
    channels: dict[str, str] = {}
    for name, hint in get_type_hints(state, include_extras=True).items():
        marks = getattr(hint, "__metadata__", ())
        own = name in OPEN or any(isinstance(m, BaseChannel) or m is EphemeralValue for m in marks)
        owner = next(base for base in state.__mro__ if name in get_annotations(base))
        channels[name] = name if own else vars(owner)["record"]
    return {field.name: channels[field.name] for field in fields(state)}


@cache
def schema_of(state: type) -> type:
    """The state's channels, as LangGraph reads them."""
    hints, channels = get_type_hints(state, include_extras=True), channels_of(state)
    saved = {name: hints[name] for name, channel in channels.items() if name == channel}
    reducers: dict[str, dict[str, Any]] = {}
    for field in fields(state):
        if field.name not in saved:
            of_record = reducers.setdefault(channels[field.name], {})
            if marks := getattr(hints[field.name], "__metadata__", ()):
                of_record[field.name] = (marks[0], field.default_factory)
    records = {
        name: Annotated[dict[str, Any], partial(merge_fields, some)]
        for name, some in reducers.items()
    }
    return TypedDict(f"{state.__name__}Channels", {**saved, **records}, total=False)  # type: ignore[operator, no-any-return]  # its keys are those of the state


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


def read_state(state: type[S], values: Mapping[str, Any]) -> S:
    """A state by what stands in its channels; a field that only an older version has is dropped."""
    known = channels_of(cast("Any", state))
    return state(**{name: one for name, one in unpack_fields(values).items() if name in known})


Component = dict[str, Any]


class KeptEvents(TypedDict, total=False):
    """What the state keeps of the events of a turn; as a write, what one node told."""

    turn: str
    """The user turn they are of; the next one starts empty."""
    upto: int
    """The highest number that was given on the thread, be it to an event that is not kept."""
    kept: dict[str, dict[str, Any]]
    """By subject: its newest event."""


MOST_CALLS: Final = 100
"""Calls of a turn whose events are kept, the newest ones: all have their components."""
OF_CALLS: Final = frozenset({"tool_call", "component"})
"""What a call says."""


def merge_events(before: KeptEvents, writes: Sequence[KeptEvents]) -> KeptEvents:
    """Batch reducer for a delta channel: of each subject the event with the highest number."""
    turn, upto, kept = before.get("turn", ""), before.get("upto", 0), {**before.get("kept", {})}
    for write in writes:
        if write["turn"] != turn:
            turn, kept = write["turn"], {}
        upto = max(upto, write["upto"])
        for subject, event in write["kept"].items():
            known = kept.get(subject)
            if known is None or known["seq"] <= event["seq"]:
                kept[subject] = event
    if len(kept) > MOST_CALLS:
        kept = _drop_oldest_calls(kept)
    return KeptEvents(turn=turn, upto=upto, kept=kept)


def _drop_oldest_calls(kept: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    calls = [(event["seq"], name) for name, event in kept.items() if event["type"] in OF_CALLS]
    gone = {name for _, name in sorted(calls)[:-MOST_CALLS]}
    return {name: event for name, event in kept.items() if name not in gone}


# Nearly every step writes it, and what is kept does not grow.
Events = Annotated[KeptEvents, DeltaChannel(merge_events, snapshot_frequency=300)]


def merge_components(
    before: list[AnyUIMessage], writes: Sequence[Iterable[AnyUIMessage] | AnyUIMessage]
) -> list[AnyUIMessage]:
    """Batch reducer for a delta channel: by id, the component with the higher number counts.

    One without a number, which an application has pushed, replaces what is there; `merge` in its
    metadata adds its props. Removing an unknown id changes nothing.
    """
    merged: dict[str, Any] = {old["id"]: old for old in before}
    for write in writes:
        for new in [cast("Any", write)] if isinstance(write, Mapping) else write:
            known = merged.get(new["id"])
            if new["type"] == "remove-ui":
                merged.pop(new["id"], None)
            elif known is None:
                merged[new["id"]] = new
            else:
                merged[new["id"]] = _pick_newer(known, cast("Component", new))
    return list(merged.values())


def _pick_newer(known: Component, new: Component) -> Component:
    about, before = new.get("metadata") or {}, known.get("metadata") or {}
    if "seq" in about and about["seq"] < before.get("seq", 0):
        return known
    if about.get("merge"):
        return {**new, "props": {**known["props"], **new["props"]}}
    return new


Components = Annotated[list[AnyUIMessage], GrowingChannel(merge_components, snapshot_frequency=100)]
