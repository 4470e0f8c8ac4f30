"""What only grows, without a cost that grows with it: lists, and the channels that save them.

`Grown` is a list of things with ids to which something is added without a walk over what is there.
A version of such a list shares its index with the one it was made from: in every version that has
an id, it stands where the index says. Nobody else changes them; where somebody has, they are
indexed anew.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

from langgraph.channels.delta import DeltaChannel

T = TypeVar("T")


class GrowingChannel(DeltaChannel[list[T]]):
    """Saved as writes, and whole after so many, which become more as it grows.

    Whole every hundred writes, a long list would be saved as often as it has hundreds: half of it
    has to be new, so all that is ever saved whole is about twice its length. Who reads it reads at
    most half of it write by write.
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
    """A list that knows where each id stands."""

    __slots__ = ("_known", "_places")

    _known: int
    _places: dict[str, int]

    def __init__(self, items: Iterable[T] = ()) -> None:
        """These items, not indexed yet."""
        super().__init__(items)
        self._places, self._known = {}, -1

    @classmethod
    def of(cls, items: Iterable[T], id_of: Callable[[T], str]) -> Self:
        """A new version of items; of equal ids the last counts, at the first place."""
        if isinstance(items, IndexedList) and items._known == len(items):
            return cls._from_index(items, items._places)
        by_id = {id_of(item): item for item in items}
        return cls._from_index(by_id.values(), {name: place for place, name in enumerate(by_id)})

    @classmethod
    def _from_index(cls, items: Iterable[T], places: dict[str, int]) -> Self:
        made = cls(items)
        made._places, made._known = places, len(made)
        return made

    def put(
        self,
        item: T,
        id_of: Callable[[T], str],
        join: Callable[[T, T], T] = lambda _, new: new,
    ) -> None:
        """Add an item, or join it with the one of its id; only whoever made this version may."""
        name = id_of(item)
        place = self._places.setdefault(name, len(self))
        if place > len(self) or (place < len(self) and id_of(self[place]) != name):
            # Another version has this id elsewhere.
            self._places = {id_of(one): place for place, one in enumerate(self)}
            place = self._places.setdefault(name, len(self))
        if place == len(self):
            self.append(item)
        else:
            self[place] = join(self[place], item)
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
        """Elsewhere it is a plain list."""
        return list, ([*self],)
