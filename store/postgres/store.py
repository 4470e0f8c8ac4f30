"""The store in PostgreSQL: LangGraph's own, on whichever connection is sound.

What a thread keeps there is its run's alone to put there, as its checkpoints are.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from langgraph.store.base import BaseStore, Op, PutOp, Result

from ...state.calls import thread_of_results
from ..base.hands import in_hands
from ..journal.port import Fence
from .leases import Leases, told_lost
from .pool import Pool, executed
from .schema import HOLDS, showing


class PooledStore(BaseStore):
    """A store on whichever connection is free.

    Attributes:
        errors: What its driver raises.
        hands: The threads in which it is read and written.
    """

    supports_ttl = True

    def __init__(
        self, pool: Pool, over: Callable[[Any], Any], errors: tuple[type[Exception], ...],
        leases: Leases,
    ) -> None:  # fmt: skip
        """Keep by what `over` makes of a connection."""
        self.errors, self.hands = errors, pool.hands
        self._pool, self._over, self._leases = pool, over, leases

    def setup(self) -> None:
        """Make the tables that are missing."""
        self._over(self._pool.pool).setup()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See LangGraph; each of them may be done twice.

        Raises:
            LeaseLost: What is put there is a thread's that is another's by now.
        """
        given = [*ops]
        shown = {fence for op in given if (fence := self._shown(op)) is not None}

        def work(connection: Any) -> list[Result]:
            with connection.transaction() if shown else nullcontext():
                for fence in sorted(shown):
                    executed(connection, f"SELECT {HOLDS}", showing(fence))
                found: list[Result] = self._over(connection).batch(given)
                return found

        with told_lost(self.errors):
            done: list[Result] = self._pool.run(work)
            return done

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await in_hands(self, self.batch, list(ops))

    def _shown(self, op: Op) -> Fence | None:
        if not isinstance(op, PutOp) or op.value is None:
            return None
        thread = thread_of_results(op.namespace)
        return None if thread is None else self._leases.of(thread)
