"""The connections to PostgreSQL: checked only after a rest, with prepared statements if they may.

Between two statements a pool such as PgBouncer may give the session to somebody else, who knows
none of the statements that were prepared in it. It also invents the process id that it tells a
client, which a server does not.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from ...state.errors import SettingsError
from ..base.worker_threads import WorkerThreads
from ..journal.sql import BUSY_SECONDS

T = TypeVar("T")

CONNECTIONS: Final = 10
"""How many there are at most."""

_IDLE_SECONDS: Final = 300.0
"""Connections unused for longer are closed: firewalls drop idle ones silently."""

_RESTED: Final = 5.0
"""Seconds after which a connection may have been cut without a word."""

_ALIVE: Final = {
    "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 20_000, "connect_timeout": int(BUSY_SECONDS),
}  # fmt: skip
"""A server that is gone without a word is noticed before a lease has ended: who waits for its
answer renews nothing."""

_PREPARE_AFTER: Final = 2
_KNOWN: Final = 200
"""Statements of a connection that stay prepared."""

CUT: Final = frozenset({"08", "57"})
"""Classes of SQLSTATEs: the connection is broken, or somebody at the server has ended it."""

_PROCESS: Final = "SELECT pg_backend_pid() AS process"
_GIVES: Final = re.compile(r"^\s*(SELECT|WITH)\b|\bRETURNING\b")


class Pool:
    """Connections in autocommit mode with rows as dicts; what it does not have is psycopg's pool's.

    Where one is found broken the others are checked before they are used.
    """

    def __init__(self, psycopg: Any, pools: Any, url: str, connections: int) -> None:
        """Keep so many connections at most; none is open yet."""
        self._used: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self.broken: type[Exception] = psycopg.Error
        # What saves waits for nobody else; another connection renews leases.
        saving = connections // 4
        self.hands, self.saving = WorkerThreads(connections - saving - 1), WorkerThreads(saving)
        self.pool = pools.ConnectionPool(
            url,
            max_size=connections,
            min_size=1,
            max_idle=_IDLE_SECONDS,
            timeout=BUSY_SECONDS,
            reconnect_timeout=BUSY_SECONDS,
            reconnect_failed=_retry_connect,
            open=False,
            configure=self._configure,
            kwargs={
                "autocommit": True, "prepare_threshold": None, "client_encoding": "utf8",
                "row_factory": psycopg.rows.dict_row,
                **{name: value for name, value in _ALIVE.items() if name not in url},
            },
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        """Whatever psycopg's pool has."""
        return getattr(self.pool, name)

    @contextmanager
    def connection(self, timeout: float | None = None) -> Iterator[Any]:
        """One of them, for a block."""
        connection = self._get_sound_connection(timeout)
        try:
            with connection:
                yield connection
        except self.broken:
            # psycopg takes statements for prepared that the server skipped after an error.
            connection.close()
            self._used.clear()
            raise
        finally:
            self.pool.putconn(connection)

    @contextmanager
    def begin_transaction(
        self, first: tuple[str, Sequence[object]]
    ) -> Iterator["PooledTransaction"]:
        """A transaction that begins with a statement; what it answers is not asked.

        What runs after it gives its rows. The first that does may be run twice: on another
        connection where one is found cut.
        """
        with ExitStack() as held:
            yield PooledTransaction(self, held, first)

    def run(self, work: Callable[[Any], T]) -> T:
        """Do what may be done twice, on one of them, and again where that is found cut."""
        with ExitStack() as held:
            connection = held.enter_context(self.connection())
            try:
                return work(connection)
            except self.broken as error:
                if not _is_cut(error, connection):
                    raise
                self._used.clear()
        with self.connection() as connection:
            return work(connection)

    def fetch_rows(self, sql: str, values: Sequence[object]) -> list[Any]:
        """Those of a statement that may be run twice."""
        return self.run(partial(execute_statement, sql=sql, values=values))

    def recheck_all(self) -> None:
        """Have all of them checked before they are used."""
        self._used.clear()

    def _get_sound_connection(self, timeout: float | None) -> Any:
        """One that is not broken, as far as can be told; psycopg's pool would rest between two."""
        for _ in range(self.pool.max_size):
            connection, now = self.pool.getconn(timeout), time.monotonic()
            rested = now - self._used.get(connection, -_RESTED) >= _RESTED
            self._used[connection] = now
            try:
                if rested:
                    self.pool.check_connection(connection)
            except self.broken:
                connection.close()
                self.pool.putconn(connection)
            else:
                return connection
        return self.pool.getconn(timeout)

    def _configure(self, connection: Any) -> None:
        self._used[connection] = time.monotonic()
        process = connection.execute(_PROCESS).fetchone()["process"]
        direct = process == connection.info.backend_pid
        connection.prepare_threshold = _PREPARE_AFTER if direct else None
        connection.prepared_max = _KNOWN
        if connection.info.parameter_status("standard_conforming_strings") == "off":
            connection.execute("SET standard_conforming_strings = on")  # so is SQL written here


def _retry_connect(pool: Any) -> None:
    """Go on trying to connect while somebody waits: it pauses for no longer than it has tried."""
    if pool.get_stats().get("requests_waiting"):
        pool.resize(0, pool.max_size)
        pool.resize(1, pool.max_size)


def _is_cut(error: Exception, connection: Any) -> bool:
    """Whether a statement failed because its connection was ended; it may not know so yet.

    One that is closed after another failure has told which.
    """
    state = getattr(error, "sqlstate", None)
    return connection.closed if state is None else state[:2] in CUT


class PooledTransaction:
    """A transaction under way.

    Attributes:
        number: Its own, if its first statement gives that and another one's rows were read.
    """

    def __init__(self, pool: Pool, held: ExitStack, first: tuple[str, Sequence[object]]) -> None:
        """Begin it with this statement."""
        self._pool, self._held, self._first = pool, held, first
        self._began = False
        self.number: str | None = None
        try:
            self._connection = self._begin()
        except self._pool.broken:
            self._connection = self._begin_again()

    def _begin(self) -> Any:
        connection = self._held.enter_context(self._pool.connection())
        self._held.enter_context(send_together(connection))
        self._told = connection.execute(*self._first)
        return connection

    def __call__(self, sql: str, values: Sequence[object]) -> list[Any]:
        """See `Execute`."""
        began, self._began = self._began, True
        try:
            return self._execute(sql, values)
        except self._pool.broken as error:
            if began or not self.is_cut(error):
                raise
        self._connection = self._begin_again()
        return self._execute(sql, values)

    def is_cut(self, error: Exception) -> bool:
        """Whether it failed because its connection was ended."""
        return _is_cut(error, self._connection)

    def _execute(self, sql: str, values: Sequence[object]) -> list[Any]:
        rows = execute_statement(self._connection, sql, values)
        if self.number is None and _GIVES.search(sql):  # what was asked before is told by now
            self.number = (self._told.fetchone() or {}).get("number", "")
        return rows

    def _begin_again(self) -> Any:
        with suppress(self._pool.broken):
            self._held.close()
        self._pool.recheck_all()
        return self._begin()


def execute_statement(connection: Any, sql: str, values: Sequence[object]) -> list[Any]:
    """Run a statement whose values stand as `?`; see `Tables.block`."""
    cursor = connection.execute(sql.replace("?", "%s"), values)
    # To ask whether there are rows is to wait for them.
    return list(cursor.fetchall()) if _GIVES.search(sql) else []


@contextmanager
def send_together(connection: Any) -> Iterator[None]:
    """All that is sent in the block is one transaction, and goes in as few trips as it can.

    Without BEGIN all that comes before a Sync is one transaction, and a pipeline sends one Sync.
    """
    with connection.pipeline() as pipeline:
        try:
            yield
        except BaseException:
            with suppress(Exception):
                connection.execute("ROLLBACK")
            with suppress(Exception):  # what it told already
                pipeline.sync()
            raise


def check_connections(number: int) -> int:
    """How many connections there are at most.

    Raises:
        SettingsError: It is no number of connections.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"connections={number!r} is no number of connections: give a whole one from 1 on."
        raise SettingsError(msg)
    return number
