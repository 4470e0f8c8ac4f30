"""A thread in PostgreSQL made smaller, while runs of others go on."""

from contextlib import nullcontext
from functools import partial
from typing import Any

from ..journal.port import Fence
from ..threads.pruning import LeftError, Rows, ThreadPruning
from ..threads.what_stays import Keeps
from .pool import executed
from .saver import TABLES, LeasedPostgresSaver
from .schema import HOLDS, showing


def prune(connection: Any, thread: str, keeps: Keeps, fence: Fence | None) -> str | bool:
    """Remove what is not kept of a thread, in one transaction; see `Database.prune`.

    The lease is looked at last: while it is, nobody can renew it. Who has lost it removes nothing.
    """
    execute = partial(executed, connection)
    saver = LeasedPostgresSaver(partial(nullcontext, connection))
    saver.follows = False
    rows = Rows(execute, saver, lambda _: True, TABLES)
    try:
        with connection.transaction():
            removed = ThreadPruning(rows).prune(thread, keeps)
            if fence is not None:
                execute(f"SELECT {HOLDS}", showing(fence))
            return removed
    except LeftError as left:
        return str(left)
