"""The channels of what people see of a run: events and UI components."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, cast

from langgraph.channels.delta import DeltaChannel
from langgraph.graph.ui import AnyUIMessage
from typing_extensions import TypedDict

from .append_only import GrowingChannel

Component = dict[str, Any]


class KeptEvents(TypedDict, total=False):
    """What the state keeps of the events of a turn; as a write, what one node told."""

    turn: str
    """The user turn they are of; the next one begins anew."""
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
    return KeptEvents(turn=turn, upto=upto, kept=_drop_oldest_calls(kept))


def _drop_oldest_calls(kept: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Without the oldest calls, where there are too many."""
    if len(kept) <= MOST_CALLS:
        return kept
    calls = [(event["seq"], name) for name, event in kept.items() if event["type"] in OF_CALLS]
    gone = {name for _, name in sorted(calls)[:-MOST_CALLS]}
    return {name: event for name, event in kept.items() if name not in gone} if gone else kept


# Nearly every step writes it, and what is kept does not grow.
Events = Annotated[KeptEvents, DeltaChannel(merge_events, snapshot_frequency=300)]


def merge_components(
    before: list[AnyUIMessage], writes: Sequence[Iterable[AnyUIMessage] | AnyUIMessage]
) -> list[AnyUIMessage]:
    """Batch reducer for a delta channel: by id, the one with the higher number counts.

    One without a number, which an application has pushed, replaces what is there; `merge` in its
    metadata adds its props. To remove what is not there changes nothing.
    """
    merged = [*before]
    places = {one["id"]: place for place, one in enumerate(merged)}
    for write in writes:
        for one in [cast("Any", write)] if isinstance(write, Mapping) else write:
            place = places.get(one["id"])
            if place is None:
                if one["type"] == "ui":
                    places[one["id"]] = len(merged)
                    merged.append(one)
            elif one["type"] == "remove-ui":
                merged.pop(place)
                places = {left["id"]: at for at, left in enumerate(merged)}
            else:
                merged[place] = _pick_newer(
                    cast("Component", merged[place]), cast("Component", one)
                )
    return merged


def _pick_newer(known: Component, one: Component) -> Any:
    about, before = one.get("metadata") or {}, known.get("metadata") or {}
    if "seq" in about and about["seq"] < before.get("seq", 0):
        return known
    if about.get("merge"):
        return {**one, "props": {**known["props"], **one["props"]}}
    return one


Components = Annotated[list[AnyUIMessage], GrowingChannel(merge_components, snapshot_frequency=100)]
