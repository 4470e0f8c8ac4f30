"""The store in PostgreSQL: LangGraph's own, on whichever connection is sound.

What a thread keeps there is its run's alone to put there, as its checkpoints are.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final

from langgraph.store.base import BaseStore, Op, PutOp, Result

from ...state.calls import thread_of_results
from ..base.worker_threads import run_in_worker
from ..journal.port import Fence
from .leases import Leases, raise_lease_lost
from .pool import Pool, execute_statement
from .schema import BRIEFLY, HOLDS, build_fence_values

_HOLDS: Final = f"SELECT {BRIEFLY}, {HOLDS}"


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
        shown = {fence for op in given if (fence := self._find_fence(op)) is not None}

        def work(connection: Any) -> list[Result]:
            with connection.transaction() if shown else nullcontext():
                for fence in sorted(shown):
                    execute_statement(
                        connection, f"SELECT {BRIEFLY}, {HOLDS}", build_fence_values(fence)
                    )
                found: list[Result] = self._over(connection).batch(given)
                return found

        with raise_lease_lost(self.errors):
            done: list[Result] = self._pool.run(work)
            return done

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a worker thread."""
        return await run_in_worker(self, self.batch, list(ops))

    def _find_fence(self, op: Op) -> Fence | None:
        if not isinstance(op, PutOp) or op.value is None:
            return None
        thread = thread_of_results(op.namespace)
        return None if thread is None else self._leases.find_fence(thread)
