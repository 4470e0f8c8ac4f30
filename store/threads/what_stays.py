"""Making threads smaller: what is kept of one, in whatever database, and what is told of it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from ...state.errors import SettingsError

RUNS: Final = "a run holds it"
"""Why a thread is left as it is that cannot be locked."""


class Saved(NamedTuple):
    """One checkpoint of a thread's own graph.

    Attributes:
        id: Its id; the later, the greater.
        parent: The one it followed, if any.
        begins: A new message begins a turn with it.
        at: Tells when it was saved.
    """

    id: str
    parent: str | None
    begins: bool
    at: Callable[[], datetime]


Keeps = Callable[[str, Sequence[Saved]], set[str]]
"""Takes the newest checkpoint's id and all checkpoints; gives the ids of those that stay."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of the threads.

    Attributes:
        threads: Those of which something was removed.
        left: Those that were left as they are, each with the reason.
        before: Size of the database before, in bytes.
        after: Its size now.
        shrunk: The file was written anew; else what was removed is used again by what comes.
    """

    threads: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    before: int = 0
    after: int = 0
    shrunk: bool = True


def what_stays(
    keep: Literal["latest"] | None, turns: int | None, older_than: timedelta | None
) -> Keeps:
    """What stays, by what is asked for.

    Raises:
        SettingsError: It is not exactly one of the three, or makes no sense.
    """
    if sum(given is not None for given in (keep, turns, older_than)) != 1:
        msg = 'Say what is kept of a thread by one of keep="latest", turns=N and older_than=….'
        raise SettingsError(msg)
    if turns is not None:
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            msg = f"turns={turns!r} keeps no turn: give a whole number from 1 on."
            raise SettingsError(msg)
        return lambda newest, saved: _last_turns(turns, newest, saved)
    if older_than is not None:
        if not isinstance(older_than, timedelta) or older_than < timedelta():
            msg = f"older_than={older_than!r} is no age: give one such as timedelta(days=30)."
            raise SettingsError(msg)
        try:
            since = datetime.now(UTC) - older_than
        except OverflowError:
            since = datetime.min.replace(tzinfo=UTC)
        return lambda newest, saved: {newest, *(one.id for one in saved if one.at() >= since)}
    if keep != "latest":
        msg = f'keep={keep!r} is not known: it takes "latest"; see also turns= and older_than=.'
        raise SettingsError(msg)
    return lambda newest, saved: {newest}  # noqa: ARG005 - see Keeps


def _last_turns(turns: int, newest: str, saved: Sequence[Saved]) -> set[str]:
    """The last turns of the thread as it stands; what was left by a fork is not among them."""
    by_id = {one.id: one for one in saved}
    line: set[str] = set()
    at: str | None = newest
    while at in by_id and turns:
        line.add(at)
        turns -= by_id[at].begins
        at = by_id[at].parent
    return line


def severed(kept: Collection[str], saved: Iterable[Saved]) -> list[str]:
    """Which of those that stay lose the one they followed."""
    return [one.id for one in saved if one.id in kept and one.parent and one.parent not in kept]
