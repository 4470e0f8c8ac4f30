"""What is asked of all threads in PostgreSQL: one statement by an index, and no thread is read."""

from collections.abc import Sequence
from typing import Any, Final

from ...text.canonical import storable
from ..locks.held import name_of
from ..threads.listing import Found, Wanted
from .schema import ENDED, FREE, HELD, UNENDED

# A thread of which nothing is saved, and a part of one, have no time of a change.
_WHERE: Final = {
    None: "updated IS NOT NULL",
    "unfinished": f"({UNENDED} OR status <> 'complete') AND updated IS NOT NULL",
    "waiting": "state = 'asks' AND updated IS NOT NULL",
    "expired": f"{UNENDED} AND updated IS NOT NULL AND {ENDED}",
}
# OFFSET keeps those apart that are left: few of them are expired, so none is sought by its age.
_AMONG: Final = f"(SELECT * FROM loopwright_threads WHERE {UNENDED} OFFSET 0) AS left_open"
_ORDER: Final = {"newest": "updated DESC", "oldest": "updated", "largest": "bytes DESC"}

BYTES: Final = " + ".join(
    f"coalesce((SELECT sum(pg_column_size({column})) FROM {table} WHERE thread_id = name), 0)"
    for table, column in (
        ("checkpoints", "checkpoint"), ("checkpoint_blobs", "blob"), ("checkpoint_writes", "blob"),
    )
)  # fmt: skip
SIZE: Final = f"SELECT coalesce(sum({BYTES}), 0) AS size FROM loopwright_threads"

PRUNABLE: Final = (
    "SELECT name FROM loopwright_threads t WHERE updated IS NOT NULL AND EXISTS (SELECT 1"
    " FROM checkpoints c WHERE c.thread_id = t.name AND c.checkpoint_ns = ''"
    " AND c.parent_checkpoint_id IS NOT NULL) ORDER BY name"
)
"""Threads of which there is more than where they stand."""

OWNS: Final = "SELECT FROM loopwright_threads WHERE name = %s AND updated IS NOT NULL"
"""A thread that this package's saver has saved: others may have theirs in the same tables."""

_PART: Final = "name >= %(from)s AND name < %(to)s"
_FORGET: Final = (
    f"DELETE FROM loopwright_waiting WHERE name = %(name)s OR {_PART}",
    # A thread of which something is saved is no part, whatever its id.
    "DELETE FROM loopwright_threads WHERE"
    f" (name = %(name)s OR {_PART} AND updated IS NULL) AND ({FREE} OR token = %(token)s)",
)


def finding(wanted: Wanted) -> tuple[str, Sequence[object]]:
    """The statement that finds threads, and its values."""
    free = f" AND {FREE}" if wanted.which and not wanted.held else ""
    among = _AMONG if wanted.which == "expired" else "loopwright_threads"
    sql = (
        f"SELECT name, state = 'asks' AS asks, ({BYTES})::bigint AS bytes, {HELD} AS held,"
        f" {UNENDED} AND {ENDED} AS expired FROM {among}"
        f" WHERE {_WHERE[wanted.which]}{free} ORDER BY {_ORDER[wanted.order]}"
    )
    return (sql, []) if wanted.limit is None else (f"{sql} LIMIT %s", [wanted.limit])


def found(rows: Sequence[Any]) -> list[Found]:
    """What such a statement has found."""
    return [
        Found(row["name"], row["asks"], bool(row["held"]), bool(row["expired"]), row["bytes"])
        for row in rows
    ]


def forget(connection: Any, thread: str, token: int | None) -> None:
    """Remove its row and those of its parts, unless another run holds it, and who waits for it."""
    name, part = storable(thread), name_of(thread, "part").removesuffix("part")
    about = {"name": name, "from": part, "to": f"{part[:-1]}\x0b", "token": token}
    with connection.transaction():
        for statement in _FORGET:
            connection.execute(statement, about)
