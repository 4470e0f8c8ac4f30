"""What a SQL database has to bring for the journal, and for the queue of turns beside it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from ...state.errors import DatabaseError
from .port import Fence

T = TypeVar("T")
P = ParamSpec("P")

Execute = Callable[[str, Sequence[object]], list[Any]]


class NotDone(Exception):
    """A block of which nothing counts, because its connection was cut: it may be done again."""


def again(method: Callable[P, T]) -> Callable[P, T]:
    """Have a method whose block is not done do it once more.

    Raises:
        DatabaseError: It is not done then either.
    """

    @wraps(method)
    def twice(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except NotDone:
            pass
        try:
            return method(*args, **options)
        except NotDone as error:
            raise DatabaseError(str(error)) from error

    return twice


class Tables(Protocol):
    """What differs from one SQL database to the next; safe to use from several threads.

    Attributes:
        name: The database, for error messages.
        number: The type of a column that counts its rows.
        errors: What its driver raises.
        made: Everything is there already: whoever may make no tables uses those that are there.
        packs: Whether long texts take less room in it packed; others pack by themselves.
        now: The seconds since 1970 by its clock.
        free: What holds of the row `turn` whose thread can be run now, as far as rows tell it.
        died: Chooses the threads of these graphs whose run died in its turn, not those that it
            let go (a pause, a breakpoint, an error): name, graph, token of the last holder, when
            they changed; "" where no rows tell that.
        skips: Has a choice pass over rows that another one is choosing.
    """

    name: str
    number: str
    errors: tuple[type[Exception], ...]
    made: bool
    packs: bool
    now: str
    free: str
    died: str
    skips: str

    def block(
        self, thread: str | None = None, fence: Fence | None = None
    ) -> AbstractContextManager[Execute]:
        """A block whose statements count all or not at all, alone with the rows of a thread.

        A statement's values stand as `?`; it gives rows, to be read by column name. Without a
        thread each statement is a transaction of its own.

        Raises:
            NotDone: The connection was cut, and nothing counts.
            LeaseLost: The fence of the run, or else the lease by which this process holds the
                thread, is another's by now; told before or after the block, and nothing counts.
        """

    def holds(self, thread: str) -> tuple[str, Sequence[object]]:
        """What a single statement asks for that is only to count under the thread's lease.

        A condition and its values, which fails the statement as `block` would.
        """

    def token(self, name: str) -> int | None:
        """Of the lease by which this process holds a name; None where the database has none.

        A run's fence is this token then, and is checked by `block`.
        """

    def is_race(self, error: Exception) -> bool:
        """Whether it comes only from another process that creates the same tables."""

    def close(self) -> None:
        """Close what is its own, when nobody uses it any more."""
