"""What a listener makes of a stream that loses, repeats and reorders: the rule of `events`, run.

It is small so that a front end in another language can say the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .components import Component
from .events import Event, subject_of
from .views import all_components, components_of


@dataclass
class Replay:
    """What a front end knows of a thread. `hear` each chunk of the `custom` stream as it comes.

    `take` the state when a stream is begun, begun again, or has ended, and where a number is
    `missing`. Whatever was lost, repeated or reordered before, it then has what the state has, and
    what comes late changes nothing of it.

    Attributes:
        turn: The user turn whose events are kept.
        upto: The number up to which the state was taken.
        kept: By subject: the newest event of the turn.
        drawn: By id: the components, each once.
        heard: The numbers beyond `upto` that were heard.
    """

    turn: str = ""
    upto: int = 0
    kept: dict[str, Event] = field(default_factory=dict)
    drawn: dict[str, Component] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)

    def take(self, values: Mapping[str, Any]) -> None:
        """Begin from the state; what was heard and it does not confirm is forgotten."""
        events = values.get("events") or {}
        self.turn, self.upto = events.get("turn", ""), events.get("upto", 0)
        self.kept, self.heard = {**events.get("kept", {})}, set()
        self.drawn = {one["id"]: one for one in values.get("ui") or ()}

    def hear(self, chunk: Mapping[str, Any]) -> None:
        """Take in one chunk; components are drawn from the events, so their own chunks say nothing.

        A front end that draws the chunks of type `ui` instead takes of each id the highest
        `metadata.seq`.
        """
        number = chunk.get("seq", 0)
        if number <= self.upto or number in self.heard:
            return
        newest = number > max(self.heard, default=self.upto)
        self.heard.add(number)
        if chunk["turn"] != self.turn:
            if not newest:
                return
            self.turn, self.kept = chunk["turn"], {}
        self._fold(chunk)

    def _fold(self, event: Event) -> None:
        subject = subject_of(event)
        known = self.kept.get(subject, {}).get("seq", 0)
        as_then = {**self.kept, subject: event}
        for one in components_of(as_then, event):
            before = self.drawn.get(one["id"], {}).get("metadata", {}).get("seq", 0)
            if event["seq"] > before:
                self.drawn[one["id"]] = one
        if subject and event["seq"] > known:
            self.kept[subject] = event
            self.drawn |= all_components(self.kept)

    @property
    def missing(self) -> bool:
        """Whether a number was not heard, so that the state knows more."""
        return len(self.heard) < max(self.heard, default=self.upto) - self.upto
