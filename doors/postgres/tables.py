"""The journal in PostgreSQL: its tables, through a pool of connections."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from ..journal import Execute

_RACES: Final = frozenset({"23505", "40P01", "42701", "42710", "42P07"})
"""SQLSTATEs of migrations run side by side: duplicate row, column, object or table; deadlock."""

_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"


class PostgresTables:
    """The journal's tables in Postgres, through a pool of connections in autocommit mode."""

    number = "BIGSERIAL PRIMARY KEY"
    packs = False

    def __init__(self, pool: Any, errors: tuple[type[Exception], ...], name: str) -> None:
        """Use a pool that gives rows as dicts; whoever opened it closes it."""
        self.errors, self.name = errors, name
        self._pool = pool

    @contextmanager
    def block(self, thread: str | None = None) -> Iterator[Execute]:
        """See Tables."""
        with self._pool.connection() as connection:
            execute = partial(_executed, connection)
            if thread is None:
                yield execute
                return
            with connection.transaction():
                execute(_ONE_AT_A_TIME, [thread])
                yield execute

    def is_race(self, error: Exception) -> bool:
        """See Tables."""
        return getattr(error, "sqlstate", None) in _RACES

    def close(self) -> None:
        """The pool is closed by who opened it."""


def _executed(connection: Any, sql: str, values: Sequence[object]) -> list[Any]:
    cursor = connection.execute(sql.replace("?", "%s"), values)
    return [] if cursor.description is None else list(cursor.fetchall())
