"""Connections to PostgreSQL: checked after an idle time, with prepared statements if possible.

Between two statements a pool such as PgBouncer may give the session to another client, which has
not prepared these statements. It also invents the process id that it sends to a client; a server
does not.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from ...state.errors import SettingsError
from ..base.worker_threads import WorkerThreads
from ..journal.sql import BUSY_SECONDS, get_cause

log = logging.getLogger(__name__)

T = TypeVar("T")

CONNECTIONS: Final = 10
"""How many there are at most."""

_IDLE_SECONDS: Final = 300.0
"""Connections unused for longer are closed: firewalls drop idle ones silently."""

_RESTED: Final = 5.0
"""Seconds after which a connection may have been cut without a word."""

_SILENT: Final = 5.0
"""Seconds after which a server is noticed that is gone without a word."""

_AGAIN: Final = 0.2
"""Seconds until the next try to connect; psycopg's pool would pause for ever longer."""

_BRIEFLY: Final = 0.5
"""Seconds for which a connection is waited for once all have waited their time for the server."""

_ALIVE: Final = {
    "keepalives_idle": 2, "keepalives_interval": 1, "keepalives_count": 3,
    "tcp_user_timeout": int(_SILENT * 1000), "connect_timeout": int(BUSY_SECONDS),
}  # fmt: skip

_PREPARE_AFTER: Final = 2
_KNOWN: Final = 200
"""Statements of a connection that stay prepared."""

CUT: Final = ("08", "57", "25P03")
"""How SQLSTATEs begin of a connection that is broken, or that the server has ended."""

_SETTINGS: Final = {"standard_conforming_strings": "on", "DateStyle": "ISO"}
"""Of a session: so is SQL written here, and times read."""

_PROCESS: Final = "SELECT pg_backend_pid() AS process"
_GIVES: Final = re.compile(r"^\s*(SELECT|WITH)\b|\bRETURNING\b")


class Pool:
    """Connections in autocommit mode with rows as dicts; the rest is psycopg's pool.

    If one is found broken, older ones are no longer used. An outage has one deadline: a later
    caller waits only for the rest of it, so that waits in a row take no longer than one.
    """

    def __init__(self, psycopg: Any, pools: Any, url: str, connections: int) -> None:
        """Keep so many connections at most; none is open yet."""
        self._used: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._cut, self._told = 0.0, False
        self._deadline: float | None = None
        self.broken: type[Exception] = psycopg.Error
        # What saves waits for nobody else; another connection renews leases.
        saving = connections // 4
        self.alive = {name: value for name, value in _ALIVE.items() if name not in url}
        """How each connection is to notice that its server is gone."""
        self.hands, self.saving = WorkerThreads(connections - saving - 1), WorkerThreads(saving)
        self.pool = pools.ConnectionPool(
            url,
            max_size=connections,
            min_size=1,
            max_idle=_IDLE_SECONDS,
            timeout=BUSY_SECONDS,
            reconnect_timeout=_AGAIN,
            reconnect_failed=_retry_connect,
            open=False,
            configure=self._configure,
            kwargs={
                "autocommit": True, "prepare_threshold": None, "client_encoding": "utf8",
                "row_factory": psycopg.rows.dict_row,
                **self.alive,
            },
        )  # fmt: skip
        _POOLS.add(self)
        logging.getLogger("psycopg.pool").addFilter(_tell_others)

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
        except self.broken as error:
            if _is_cut(error, connection):
                self.mark_cut(connection)
            # psycopg takes statements for prepared that the server skipped after an error.
            connection.close()
            raise
        finally:
            self.pool.putconn(connection)

    @contextmanager
    def begin_transaction(
        self, first: tuple[str, Sequence[object]]
    ) -> Iterator["PooledTransaction"]:
        """A transaction that begins with a statement, once another one is run in it.

        That one may be run twice: on another connection where the first is found cut.
        """
        with ExitStack() as held:
            yield PooledTransaction(self, held, first)

    def run(self, work: Callable[[Any], T]) -> T:
        """Run a repeatable block on a connection, and once more if that one was broken."""
        with ExitStack() as held:
            connection = held.enter_context(self.connection())
            try:
                return work(connection)
            except self.broken as error:
                if not _is_cut(error, connection):
                    raise
                self.mark_cut(connection)
        with self.connection() as connection:
            return work(connection)

    def fetch_rows(self, sql: str, values: Sequence[object]) -> list[Any]:
        """Those of a statement that may be run twice."""
        return self.run(partial(execute_statement, sql=sql, values=values))

    def mark_cut(self, connection: Any) -> None:
        """It was found cut, at the latest now: the server may be away since it was taken."""
        self._cut = now = time.monotonic()
        self._deadline = self._find_deadline(max(self._used.get(connection, now), now - _SILENT))

    def hears(self, record: logging.LogRecord) -> bool:
        """Whether psycopg's pool tells this of ours; of an outage people are told once."""
        about: list[Any] = [*(record.args or ())]
        ours = self.pool.name in about
        if ours and not self._told:
            self._told = True
            log.warning(
                "PostgreSQL does not answer (%s): what needs it waits", get_cause(about[-1])
            )
        return ours or any(one in self._used for one in about)

    def _get_sound_connection(self, timeout: float | None) -> Any:
        """One that is not broken, as far as can be told; psycopg's pool would rest between two."""
        while True:
            connection, now = self._wait_for_connection(timeout), time.monotonic()
            used, self._used[connection] = self._used.get(connection, now), now
            try:
                if used >= self._cut:
                    if now - used >= _RESTED:
                        self.pool.check_connection(connection)
                    self._note_answer()
                    return connection
            except self.broken:
                self.mark_cut(connection)
            connection.close()
            self.pool.putconn(connection)

    def _wait_for_connection(self, timeout: float | None) -> Any:
        now = time.monotonic()
        deadline = self._find_deadline(now)
        try:
            return self.pool.getconn(max(deadline - now, _BRIEFLY) if timeout is None else timeout)
        except self.broken:
            self._deadline = deadline
            raise

    def _find_deadline(self, since: float) -> float:
        """The deadline of the current outage, or a new one if there is none or it is long over."""
        known = self._deadline
        return since + BUSY_SECONDS if known is None or since > known + BUSY_SECONDS else known

    def _note_answer(self) -> None:
        self._deadline = None
        if self._told:
            self._told = False
            log.warning("PostgreSQL answers again")

    def is_direct(self) -> bool:
        """Whether a connection is a session of the server, with nothing in between."""
        with self.connection() as connection:
            return connection.prepare_threshold is not None

    def _configure(self, connection: Any) -> None:
        self._used[connection] = time.monotonic()
        process = connection.execute(_PROCESS).fetchone()["process"]
        direct = process == connection.info.backend_pid
        connection.prepare_threshold = _PREPARE_AFTER if direct else None
        connection.prepared_max = _KNOWN
        for name, value in _SETTINGS.items():
            if not (connection.info.parameter_status(name) or value).startswith(value):
                connection.execute(f"SET {name} = {value}")


_POOLS: Final = WeakSet[Pool]()


def _tell_others(record: logging.LogRecord) -> bool:
    """Whether what psycopg's pools tell is to be heard as it is: nothing of ours."""
    return not any(pool.hears(record) for pool in tuple(_POOLS))


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
    return bool(connection.closed if state is None else state.startswith(CUT))


class PooledTransaction:
    """A transaction under way.

    Between two statements the server waits for us, and it ends the session if that takes too long
    (`tables`): a process that is frozen there keeps no lock for good. The server counts only after
    a Sync, so one is sent whenever rows are asked for.

    Attributes:
        number: Its own, if its first statement gives that and another one's rows were read.
    """

    def __init__(self, pool: Pool, held: ExitStack, first: tuple[str, Sequence[object]]) -> None:
        """Nothing is sent yet."""
        self._pool, self._held, self._first = pool, held, first
        self._connection: Any = None
        self.number: str | None = None

    def __call__(self, sql: str, values: Sequence[object]) -> list[Any]:
        """See `Execute`."""
        if self._connection is not None:
            return self._execute(sql, values)
        try:
            return self._begin(sql, values)
        except self._pool.broken as error:
            if not self.is_cut(error):
                raise
        with suppress(self._pool.broken):
            self._held.close()
        self._pool.mark_cut(self._connection)
        return self._begin(sql, values)

    def is_cut(self, error: Exception) -> bool:
        """Whether it failed because its connection was ended."""
        return self._connection is not None and _is_cut(error, self._connection)

    def _begin(self, sql: str, values: Sequence[object]) -> list[Any]:
        self._connection = self._held.enter_context(self._pool.connection())
        self._pipeline = self._held.enter_context(send_together(self._connection, begin=True))
        self._told = self._connection.execute(*self._first)
        return self._execute(sql, values)

    def _execute(self, sql: str, values: Sequence[object]) -> list[Any]:
        cursor = self._connection.execute(sql.replace("?", "%s"), values)
        if not _GIVES.search(sql):
            return []
        self._pipeline.sync()
        if self.number is None:
            self.number = (self._told.fetchone() or {}).get("number", "")
        return list(cursor.fetchall())


def execute_statement(connection: Any, sql: str, values: Sequence[object]) -> list[Any]:
    """Run a statement whose values stand as `?`; see `Tables.block`."""
    cursor = connection.execute(sql.replace("?", "%s"), values)
    # To ask whether there are rows is to wait for them.
    return list(cursor.fetchall()) if _GIVES.search(sql) else []


@contextmanager
def send_together(connection: Any, *, begin: bool = False) -> Iterator[Any]:
    """All that is sent in the block is one transaction, and goes in as few trips as it can.

    Without BEGIN all that comes before a Sync is one transaction, and a pipeline sends one Sync.
    Whoever sends more of them has it begin.
    """
    with connection.pipeline() as pipeline:
        try:
            if begin:
                connection.execute("BEGIN")
            yield pipeline
            if begin:
                connection.execute("COMMIT")
        except BaseException:
            with suppress(Exception):
                connection.execute("ROLLBACK")
            with suppress(Exception):  # what it told already
                pipeline.sync()
            raise


def check_connections(number: int) -> int:
    """How many connections there are at most; raises SettingsError."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"connections={number!r} is no number of connections: give a whole one from 1 on."
        raise SettingsError(msg)
    return number
