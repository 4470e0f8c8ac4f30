"""A thread in PostgreSQL made smaller, while runs of others go on."""

from collections.abc import Collection
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

from ...text.canonical import storable
from ..journal.port import Fence
from ..threads.pruning import LeftError, Rows, ThreadPruning
from ..threads.what_stays import Keeps
from .pool import executed
from .saver import KEEP_WRITTEN, PostgresSaver
from .schema import HOLDS, showing

_WEIGHED: Final = (
    "UPDATE loopwright_threads SET bytes ="
    " (SELECT coalesce(sum(octet_length(checkpoint) + coalesce(octet_length(written), 0)), 0)"
    " FROM loopwright_checkpoints WHERE thread_id = ?)"
    " + (SELECT coalesce(sum(octet_length(value)), 0) FROM loopwright_writes WHERE thread_id = ?)"
    " WHERE name = ?"
)


def prune(connection: Any, thread: str, keeps: Keeps, fence: Fence | None) -> str | bool:
    """Remove what is not kept of a thread, in one transaction; see `Database.prune`.

    The lease is looked at last: while it is, nobody can renew it. Who has lost it removes nothing.
    """
    execute, name = partial(executed, connection), storable(thread)
    rows = Rows(
        execute,
        PostgresSaver(partial(nullcontext, connection)),
        lambda _: True,
        checkpoints="loopwright_checkpoints",
        writes="loopwright_writes",
        # What was written onto the one before it stands in it.
        alone=", written_type = NULL, written = NULL",
        leaves=partial(_kept_for_others, connection),
    )
    try:
        with connection.transaction():
            removed = ThreadPruning(rows).prune(thread, keeps)
            if fence is not None:
                execute(f"SELECT {HOLDS}", showing(fence))
            if removed:
                execute(_WEIGHED, [name, name, name])
            return removed
    except LeftError as left:
        return str(left)


def _kept_for_others(connection: Any, thread: str, gone: Collection[str]) -> None:
    connection.execute(KEEP_WRITTEN, {"thread": storable(thread), "ns": "", "gone": [*gone]})
