"""The store in PostgreSQL: LangGraph's own, on whichever connection is sound."""

from collections.abc import Callable, Iterable
from typing import Any

from langgraph.store.base import BaseStore, Op, Result

from ..hands import in_hands
from .leases import told_lost
from .pool import Pool


class PooledStore(BaseStore):
    """A store on whichever connection is free.

    Attributes:
        errors: What its driver raises.
        hands: The threads in which it is read and written.
    """

    supports_ttl = True

    def __init__(
        self, pool: Pool, over: Callable[[Any], Any], errors: tuple[type[Exception], ...]
    ) -> None:
        """Keep by what `over` makes of a connection."""
        self.errors, self.hands = errors, pool.hands
        self._pool, self._over = pool, over

    def setup(self) -> None:
        """Make the tables that are missing."""
        self._over(self._pool.pool).setup()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See LangGraph; each of them may be done twice."""
        given = [*ops]
        with told_lost(self.errors):
            done: list[Result] = self._pool.run(lambda one: self._over(one).batch(given))
        return done

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await in_hands(self, self.batch, list(ops))
