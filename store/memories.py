"""What is remembered of a user beyond one thread: where it lies in a LangGraph store, and whose."""

from typing import Any, Final, Literal, get_args

from langgraph.store.base import BaseStore, Item, PutOp
from typing_extensions import TypedDict

from ..state.errors import SettingsError

MOST_MEMORIES: Final = 200
"""Of one user."""
LONGEST_MEMORY: Final = 1_000
"""Characters of one."""

Whose = Literal["user", "customer"]
"""Whom a server or a program has named, or whom a tool of a desk has verified."""

_PLACE: Final = ("loopwright", "memory")
_LIMIT: Final = 10 * MOST_MEMORIES
"""More than a user has: those who write at the same moment may pass the limit a little."""
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789@-")


class Memory(TypedDict):
    """One thing that is remembered. The time `when` is ISO 8601 in UTC.

    `foreign`: who wrote it may have read words of a stranger before. `confidential`: or something
    that must not leave.
    """

    id: str
    text: str
    when: str
    thread: str
    foreign: bool
    confidential: bool


def memories_of(user: str, whose: Whose = "user") -> tuple[str, ...]:
    """Where a store has somebody's memories.

    All but small letters and digits is spelled as bytes, and a last label ends the name: so no
    database takes one user for another one, whatever it thinks of capitals, `_`, `%` and prefixes.
    A SettingsError where nobody is named.
    """
    if not user:
        msg = "Nobody is named: say whose memories are meant."
        raise SettingsError(msg)
    name = user.encode("utf-8", "surrogatepass")
    return (*_PLACE, "".join(chr(b) if b in _PLAIN else f"~{b:02x}" for b in name), whose)


def read_memory(item: Item) -> Memory:
    """An entry of the store; of one that does not say where it comes from a stranger is thought."""
    value: dict[str, Any] = item.value
    text, when, thread = (str(value.get(name, "")) for name in ("text", "when", "thread"))
    foreign, secret = (value.get(name) is not False for name in ("foreign", "confidential"))
    return Memory(
        id=item.key, text=text, when=when, thread=thread, foreign=foreign, confidential=secret
    )


def list_memories(store: BaseStore, user: str) -> list[Memory]:
    """All that is remembered of a user, or of a customer with this id, newest first.

    The user is as a server has authenticated them, or as `configurable` names them in `user_id`.
    """
    found = [read_memory(item) for item in _list_items(store, user)]
    return sorted(found, key=lambda one: one["when"], reverse=True)


def delete_memories(store: BaseStore, user: str, id: str | None = None) -> int:
    """Delete what is remembered of a user, or only the one with this id; gives how many."""
    gone = [one for one in _list_items(store, user) if id in (None, one.key)]
    if gone:
        store.batch([PutOp(one.namespace, one.key, None) for one in gone])
    return len(gone)


def _list_items(store: BaseStore, user: str) -> list[Item]:
    places = [memories_of(user, whose) for whose in get_args(Whose)]
    return [one for place in places for one in store.search(place, limit=_LIMIT)]
