"""The queue of turns: jobs of procrastinate in the Postgres database that keeps their threads.

A job holds its thread as its lock, so that one turn of a thread is delivered at a time; answers
have a higher priority. A turn that is planned for later holds no lock: procrastinate counts any
job of a lock that waits, whatever its time, so a message would wait for Monday's. When its time
comes a worker puts it behind those that wait. What a turn comes to is in `TurnRecords`.

The package is an extra, imported when a queue is opened. It gets our pool, and brings its schema.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from croniter import CroniterError, croniter
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, UniqueViolation
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.schema import SchemaManager
from procrastinate.sync_psycopg_connector import SyncPsycopgConnector
from psycopg import sql
from psycopg.rows import dict_row

from ...state.errors import DatabaseError, SettingsError, ThreadBusy
from ...text.canonical import hash_of, make_storable
from ..base.worker_threads import run_in_worker
from ..journal.sql import get_cause
from ..journal.tables import SHORTER, TOO_LONG
from ..locks.thread_locks import LockedBy, lock_thread_blocking
from .turns import State, Turn, TurnRecords, check_same

TURN: Final = "loopwright:turn"
PLAN: Final = "loopwright:plan"
"""Names of tasks: a turn for its thread, and one that is due later."""

ANSWER_FIRST: Final = 10
"""The priority of answers; messages have none."""

_TWICE: Final = (UniqueViolation, psycopg.errors.UniqueViolation)

_LONGEST: Final = 40

_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtextextended('loopwright queue', 0))"
_MADE: Final = (
    "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS jobs,"
    " to_regproc('procrastinate_fetch_job_v2') IS NOT NULL AS fits,"
    " to_regclass('loopwright_one_job') IS NOT NULL AS ours,"
    " to_regclass('loopwright_turns') IS NOT NULL AS earlier"
)
OURS: Final = (
    # procrastinate's own index knows only what waits: beside a turn that is being run it would let
    # the same one wait, which the lock holds up, and which keeps the first from being put back.
    "CREATE UNIQUE INDEX IF NOT EXISTS loopwright_one_job ON procrastinate_jobs (queueing_lock)"
    f" WHERE status IN ('todo', 'doing') AND task_name = '{TURN}'",
    "CREATE INDEX IF NOT EXISTS loopwright_jobs_of_thread ON procrastinate_jobs"
    f" ((args->>'thread'), (args->>'turn')) WHERE task_name IN ('{TURN}', '{PLAN}')",
    # Beside a backlog of 200,000 jobs a fetch takes 5 ms without this one, and 80 ms where they
    # are another graph's; with it, the index of `speed_up`, and a plan that knows which graphs
    # are meant, 1 ms (PostgreSQL 15).
    "CREATE INDEX IF NOT EXISTS loopwright_jobs_of_lock ON procrastinate_jobs (lock)"
    " WHERE status IN ('todo', 'doing')",
    "ALTER FUNCTION procrastinate_fetch_job_v2 SET plan_cache_mode = force_custom_plan",
)
"""What its tables want for us: the jobs of a thread, whatever became of them, and of a lock."""

# Whoever waits to make an index has all others wait that enqueue, for as long as a transaction is
# open that has enqueued: it is made by the next worker then.
_NOT_LONG: Final = "SET LOCAL lock_timeout = '1s'"
_OF_QUEUES: Final = (
    "CREATE INDEX {name} ON procrastinate_jobs (priority DESC, id)"
    " WHERE status = 'todo' AND queue_name = ANY({queues}::varchar[])"
)

JOB: Final = f"j.task_name IN ('{TURN}', '{PLAN}')"
_ROWS: Final = (
    "SELECT j.id, j.status::text AS job, j.task_name, j.queue_name, j.args, j.scheduled_at,"
    " r.state, r.why, r.outcome, r.tries, to_timestamp(r.since) AS since,"
    " (SELECT min(at) FROM procrastinate_events e WHERE e.job_id = j.id) AS enqueued"
    " FROM procrastinate_jobs j LEFT JOIN loopwright_taken r"
    f" ON r.thread = j.args->>'thread' AND r.name = j.args->>'turn' WHERE {JOB}"
)
_FIND: Final = (
    f"{_ROWS} AND j.args->>'thread' = ? AND j.args->>'turn' = ? ORDER BY j.id DESC LIMIT 1"
)
_OF_THREAD: Final = " AND j.args->>'thread' = ?"
_WAKE: Final = (
    f"UPDATE procrastinate_jobs j SET scheduled_at = NULL WHERE {JOB}{_OF_THREAD}"
    " AND j.status = 'todo' AND j.lock IS NOT NULL AND j.scheduled_at > clock_timestamp()"
)
_DROP: Final = f"DELETE FROM procrastinate_jobs j WHERE {JOB}{_OF_THREAD}"
_BEGIN: Final = "SELECT 1"
"""Begins the caller's transaction, where that is not done: a block in it is a savepoint then."""

_AWAY: Final = (
    "Cannot use the queue of turns in {database!r} ({cause}): what was enqueued is kept there, and"
    " waits until the database can be used again."
)
_NO_RIGHT: Final = (
    "The queue of turns is not made yet in {database!r}, and this user may not make it ({cause}):"
    " run `loopwright doctor --prepare --db …` as one who may make tables there."
)
_EARLIER: Final = (
    "SELECT count(*) AS n FROM loopwright_turns WHERE state IN ('waiting', 'begun', 'asks')"
)
_LEFT: Final = (
    "{n} turns wait in {database!r} in the queue of an earlier loopwright, and this one does not"
    " run those: let its workers end them first."
)
_FOREIGN: Final = (
    "The tables of procrastinate in {database!r} are not those of version 3.10: apply its"
    " migrations (procrastinate schema --migrations-path), then try again."
)


class PooledConnector(SyncPsycopgConnector):
    """What procrastinate asks is asked through our pool; async in a worker thread."""

    def __init__(self, pool: Any) -> None:
        """Use an open pool, which whoever opened it closes."""
        super().__init__()
        self.open(pool)
        self.hands = pool.hands

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        """See BaseConnector."""
        await run_in_worker(self, self.execute_query, query, **arguments)

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        """See BaseConnector."""
        return await run_in_worker(self, self.execute_query_one, query, **arguments)

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        """See BaseConnector."""
        return await run_in_worker(self, self.execute_query_all, query, **arguments)

    async def execute_query_all_async_with_connection(
        self, connection: Any, query: Any, **arguments: Any
    ) -> list[dict[str, Any]]:
        """See BaseConnector; by a connection of either kind.

        In a savepoint, so that a refusal leaves the caller's block whole.
        """
        if not isinstance(connection, psycopg.AsyncConnection):
            return await run_in_worker(self, self._ask_within, connection, query, arguments)
        await connection.execute(_BEGIN)
        async with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query, self._wrap_json(arguments))
            return await cursor.fetchall()

    def _ask_within(self, connection: Any, query: Any, arguments: Any) -> list[dict[str, Any]]:
        connection.execute(_BEGIN)
        with connection.transaction():
            return self.execute_query_all_with_connection(connection, query, **arguments)


class TurnQueue:
    """Turns that wait in a database; it blocks, and is safe to use from any thread."""

    def __init__(self, records: TurnRecords) -> None:
        """Keep them beside these records; raises DatabaseError where that cannot be."""
        tables = records.journal.open()
        self.records, self.hands, self.database = records, records.hands, tables.name
        self.pool = tables.pool
        self.jobs = JobManager(PooledConnector(self.pool))
        self.prepare()

    def prepare(self) -> None:
        """Make the tables that are missing; raises DatabaseError where this user may not."""
        self.records.open()
        with self.explain_errors(_NO_RIGHT), self.pool.connection() as connection:
            made = connection.execute(_MADE).fetchone()
            if made["earlier"] and (n := connection.execute(_EARLIER).fetchone()["n"]):
                raise DatabaseError(_LEFT.format(n=n, database=self.database))
            if not (made["jobs"] and made["fits"] and made["ours"]):
                with connection.transaction():
                    connection.execute(_ONE_AT_A_TIME)
                    made = connection.execute(_MADE).fetchone()
                    if not made["jobs"]:
                        connection.execute(SchemaManager.get_schema(), prepare=False)
                    elif not made["fits"]:
                        raise DatabaseError(_FOREIGN.format(database=self.database))
                    for statement in OURS:
                        connection.execute(statement)

    def speed_up(self, queues: Sequence[str]) -> None:
        """Have what waits in these found fast beside what waits in others, if we may."""
        name = f"loopwright_jobs_{hash_of(queues)[:12]}"
        errors = psycopg.errors
        with suppress(errors.InsufficientPrivilege, errors.DuplicateTable, errors.LockNotAvailable):
            if not self._fetch_rows("SELECT to_regclass(?) AS made", [name])[0]["made"]:
                with self.pool.connection() as connection, connection.transaction():
                    connection.execute(_NOT_LONG)
                    statement = sql.SQL(_OF_QUEUES).format(
                        name=sql.Identifier(name), queues=sql.Literal([*queues])
                    )
                    connection.execute(statement)

    async def add(self, turn: Turn, known: Turn | None, connection: Any = None) -> Turn:
        """Put a turn behind those of its thread, once; one that was set aside is tried again.

        `known` is what `find` gives for its id. With a `connection` it is there when the
        transaction of that counts.

        Raises SettingsError if another one has its id.
        """
        if known is None and await self.add_due(turn, connection):
            return turn
        known = known or await run_in_worker(self, self.find, turn.thread, turn.id)
        check_same(known, turn)
        left = known is not None and known.job is None and not known.over  # by who took it
        if known is None or not (left or known.state == "aside"):
            return known or turn  # None: what enqueued it does not count yet
        if known.job is None:
            await self.add_due(turn, connection)
        else:
            with self.explain_errors():
                await self.jobs.retry_job_by_id_async(known.job, datetime.now(UTC))
        await run_in_worker(self, self.records.leave, turn)
        return replace(known, state="waiting", why="", tries=0)

    async def add_due(self, turn: Turn, connection: Any = None) -> bool:
        """Put a turn behind those of its thread; False if it waits already, or is being run."""
        with self.explain_errors(), suppress(AlreadyEnqueued, *_TWICE):
            await self.jobs.defer_job_async(_make_job(turn), connection)
            return True
        return False

    def find(self, thread: str, name: str) -> Turn | None:
        """One turn, where it is known."""
        key = [make_storable(thread), make_storable(name)]
        if rows := self._fetch_rows(_FIND, key):
            return _parse_turn(rows[0])
        return self.records.read(thread, name)

    def list_turns(self, thread: str | None = None, most: int | None = None) -> list[Turn]:
        """Those that are to run, and those set aside, in the order in which they came."""
        of, values = ("", []) if thread is None else (_OF_THREAD, [make_storable(thread)])
        rows = self._fetch_rows(f"{_ROWS}{of} ORDER BY j.id LIMIT ?", [*values, most])
        return [_parse_turn(row) for row in rows]

    def dequeue(self, thread: str, name: str, locked_by: LockedBy) -> Turn | None:
        """Withdraw a turn that no worker holds; returns its current state.

        A failed turn's thread is locked meanwhile, because its holder may be running the turn.
        """
        turn = self.find(thread, name)
        if turn is None or turn.job is None or turn.state in {"ended", "dequeued"}:
            return turn
        if turn.why and turn.state != "aside":
            with suppress(ThreadBusy), lock_thread_blocking(locked_by, thread):
                return self._take_back(turn)
            return turn
        return self._take_back(turn)

    def _take_back(self, turn: Turn) -> Turn:
        if not self.records.give_up(turn, "dequeued"):  # it has begun meanwhile
            return self.find(turn.thread, turn.id) or turn
        self._fetch_rows(f"{_DROP} AND j.id = ?", [make_storable(turn.thread), turn.job])
        return replace(turn, state="dequeued", why="", at=None)

    def plan(self, at: datetime | timedelta | None, every: str) -> datetime | None:
        """When a turn is due first; raises SettingsError."""
        if at is not None and every:
            msg = "A turn is planned by at= or by every=, not by both."
            raise SettingsError(msg)
        if every:
            return find_next_time(every)
        due = datetime.now(UTC) + at if isinstance(at, timedelta) else at
        if due is not None and due.utcoffset() is None:
            msg = f"at={due} has no time zone: give datetime.now(UTC) + …, or a timedelta."
            raise SettingsError(msg)
        return due

    def wake(self, thread: str) -> None:
        """Have the turns of a thread looked at again that wait for an answer."""
        self._fetch_rows(_WAKE, [make_storable(thread)])

    def forget(self, thread: str) -> None:
        """Forget the jobs of a thread that is deleted, also of what runs: it begins no other."""
        self._fetch_rows(_DROP, [make_storable(thread)])

    def _fetch_rows(self, sql: str, values: Sequence[object]) -> list[Any]:
        with self.explain_errors():
            rows: list[Any] = self.pool.fetch_rows(sql, values)
            return rows

    @contextmanager
    def explain_errors(self, sentence: str = _AWAY) -> Iterator[None]:
        """What a driver raises in the block is told by a sentence with `database` and `cause`."""
        try:
            yield
        except (psycopg.Error, ConnectorException) as error:
            cause = error.__cause__ if isinstance(error, ConnectorException) else error
            if getattr(cause, "sqlstate", None) == TOO_LONG:
                raise SettingsError(SHORTER) from error
            why = get_cause(cause or error)
            told = _AWAY if isinstance(cause, psycopg.OperationalError) else sentence
            raise DatabaseError(told.format(database=self.database, cause=why)) from error


def find_next_time(every: str, last: datetime | None = None) -> datetime:
    """The next time that a cron expression names, in UTC; raises SettingsError."""
    now = datetime.now(UTC)
    try:
        found: datetime = croniter(every, max(now, last or now)).get_next(datetime)
    except (CroniterError, AttributeError) as error:
        msg = (
            f"every={every!r} is no cron expression ({error}): '0 9 * * 1' is Mondays at nine, UTC."
        )
        raise SettingsError(msg) from error
    return found


def name_queue(graph: str) -> str:
    """Where turns of a graph wait; the channel that tells of them has 63 bytes, 23 of a prefix."""
    name = f"loopwright:{graph}"
    return name if len(name.encode()) <= _LONGEST else f"loopwright:{hash_of(graph)[:24]}"


def _make_job(turn: Turn) -> Job:
    thread, name = make_storable(turn.thread), make_storable(turn.id)
    body = {"thread": turn.thread, "id": turn.id, "every": turn.every, **turn.body}
    return Job(
        queue=name_queue(turn.graph), task_name=PLAN if turn.at else TURN,
        priority=ANSWER_FIRST if turn.kind == "answer" else 0,
        lock=None if turn.at else thread, queueing_lock=hash_of([thread, name]),
        scheduled_at=turn.at,
        task_kwargs={
            "thread": thread, "turn": name, "graph": turn.graph, "kind": turn.kind,
            "digest": turn.digest,
            "body": json.dumps(body),
        },
    )  # fmt: skip


def parse_job(job: Job, state: State = "begun") -> Turn:
    """The turn that a job delivers."""
    about: Mapping[str, Any] = job.task_kwargs
    body = json.loads(about["body"])
    return Turn(
        id=body.pop("id"), thread=body.pop("thread"), graph=about["graph"], state=state,
        at=job.scheduled_at if job.task_name == PLAN else None, every=body.pop("every"),
        tries=job.attempts, kind=about["kind"], body=body, digest=about["digest"], job=job.id,
    )  # fmt: skip


def _parse_turn(row: Mapping[str, Any]) -> Turn:
    job = Job(
        id=row["id"], queue=row["queue_name"], task_name=row["task_name"], lock=None,
        queueing_lock=None, task_kwargs=row["args"], scheduled_at=row["scheduled_at"],
    )  # fmt: skip
    rests: State = "planned" if job.task_name == PLAN else "waiting"
    state: State = row["state"] or ("begun" if row["job"] == "doing" else rests)
    if row["job"] not in {"todo", "doing"}:  # failed, or cancelled by procrastinate's own tools
        state = "aside"
    turn = parse_job(job, state)
    outcome = json.loads(row["outcome"]) if row["outcome"] else None
    since = row["since"] or row["enqueued"] or turn.since
    return replace(
        turn, outcome=outcome, why=row["why"] or "", tries=row["tries"] or 0, since=since
    )
