"""A worker's side of the queue: it takes turns, and reports how they ended.

A job is delivered at least once, and `take` may be called again for the same turn. So every failure
is repaired in the same way, whether a worker died, an answer of the database was lost or an end
could not be reported: a job without a living worker is delivered again.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import get_channel_for_queues

from ...state.errors import DatabaseError, SettingsError
from ..base.worker_threads import run_in_worker
from .queue import JOB, PLAN, TURN, TurnQueue, find_next_time, name_queue, parse_job
from .turns import Turn

_PRUNED: Final = 30.0
"""Seconds without a sign of life after which any worker of these tables counts as dead."""

_PAUSE: Final = 1.0
"""Seconds between two attempts to hear of new turns."""

_SLEEP: Final = timedelta(hours=1)
"""Until a thread is looked at again that asks: an answer wakes it, whoever gave it."""

# These two read no backlog: OFFSET 0 has jobs looked up one by one, whatever the planner expects,
# and a thread's name, whose collation is "C", finds an index only by that of its column.
_WAKE_ALL: Final = (
    "UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo' AND id = ANY(ARRAY("
    " SELECT job.id FROM loopwright_taken r JOIN loopwright_threads t ON t.name = r.thread"
    f" CROSS JOIN LATERAL (SELECT j.id FROM procrastinate_jobs j WHERE {JOB}"
    " AND j.args->>'thread' = r.thread AND j.args->>'turn' = r.name"
    " AND j.status = 'todo' AND j.scheduled_at > clock_timestamp() OFFSET 0) job"
    " WHERE r.state = 'asks' AND t.state <> 'asks'"
    " AND (t.until IS NULL OR t.until < clock_timestamp())))"
)
# A thread whose last turn was given up after its run died is left alone.
_DIED: Final = (
    "SELECT t.name, t.graph, t.token FROM loopwright_threads t WHERE t.graph = ANY(?)"
    " AND t.state IN ('unfinished', 'asks') AND t.until < clock_timestamp() AND NOT EXISTS"
    f' (SELECT 1 FROM procrastinate_jobs j WHERE {JOB} AND j.lock = t.name COLLATE "default"'
    " AND j.status IN ('todo', 'doing'))"
    " AND NOT EXISTS (SELECT 1 FROM loopwright_taken r"
    ' WHERE r.thread = t.name COLLATE "default" AND'
    " (r.name = 'resume ' || t.token AND r.state IN ('ended', 'aside', 'dequeued')"
    " OR r.state = 'aside' AND r.since >= extract(epoch FROM t.updated)))"
)


class Delivery:
    """One worker of a queue, for these graphs; for one event loop."""

    def __init__(self, queue: TurnQueue, graphs: Collection[str], lease: float) -> None:
        """What it is given it keeps for `lease` seconds without a sign of life."""
        self.queue, self.graphs, self.lease = queue, [*graphs], lease
        self._names = sorted(map(name_queue, graphs))
        self.held = set[int]()
        """The numbers of the jobs that it is at."""
        self.arrived = asyncio.Event()
        """Something was enqueued."""
        self._worker: int | None = None

    @property
    def repairs_every(self) -> float:
        """Seconds between two calls of `repair`, which is a sign of life as well."""
        return min(5.0, self.lease / 3)

    async def fetch(self) -> Turn | None:
        """The next turn that may run, if there is one; raises DatabaseError."""
        with self.queue.explain_errors():
            job = await self._fetch_job()
        if job is None or job.id is None:
            return None
        self.held.add(job.id)
        return parse_job(job)

    async def _fetch_job(self) -> Job | None:
        jobs = self.queue.jobs
        for first in (True, False):
            if self._worker is None:
                await run_in_worker(self.queue, self.queue.speed_up, self._names)
                self._worker = await jobs.register_worker()
            try:
                return await jobs.fetch_job(self._names, self._worker)
            except ConnectorException as error:
                if not (first and isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation)):
                    raise
                self._worker = None  # it was taken for dead
        return None

    async def finish(self, turn: Turn) -> None:
        """The turn is over: there is nothing to deliver any more."""
        await self._settle(turn, Status.SUCCEEDED)

    async def set_aside(self, turn: Turn, why: str) -> None:
        """Nobody delivers it until somebody enqueues it again."""
        await run_in_worker(self.queue, self.queue.records.give_up, turn, "aside", why)
        await self._settle(turn, Status.FAILED)

    async def _settle(self, turn: Turn, status: Status) -> None:
        told = self.queue.jobs.finish_job_by_id_async
        await self._tell(told(turn.job or 0, status, delete_job=status is Status.SUCCEEDED))

    async def put_back(self, turn: Turn, seconds: float | None) -> None:
        """Have it delivered again after a while; None: when its thread has been answered."""
        wait = _SLEEP if seconds is None else timedelta(seconds=seconds)
        at = datetime.now(UTC) + wait
        await self._tell(self.queue.jobs.retry_job_by_id_async(turn.job or 0, at))
        if seconds is None:
            await run_in_worker(self.queue, self._wake_if_answered, turn)

    def _wake_if_answered(self, turn: Turn) -> None:
        """An answer may have come before it slept."""
        record = self.queue.records.read(turn.thread, turn.id)
        if record is not None and record.state != "asks":
            self.queue.wake(turn.thread)

    async def release(self, turn: Turn) -> None:
        """Its time has come: put it behind those of its thread, and plan its next time."""
        at = turn.at or datetime.now(UTC)
        records = self.queue.records
        known = await run_in_worker(records, records.read, turn.thread, turn.id)
        if known is None or not known.over:  # else it was taken back meanwhile
            name = f"{turn.id} {at:%Y-%m-%dT%H:%M:%SZ}" if turn.every else turn.id
            await self.queue.add_due(replace(turn, id=name, at=None, every=""))
            if turn.every:  # a new job each time: those of an old one's events are kept with it
                with suppress(SettingsError):  # it names no other time
                    await self.queue.add_due(replace(turn, at=find_next_time(turn.every, at)))
        await self.finish(turn)

    async def _tell(self, told: Any) -> None:
        """Tell the database what became of a job; another worker may have been given it since."""
        with self.queue.explain_errors():
            try:
                await told
            except ConnectorException as error:
                if not isinstance(error.__cause__, psycopg.errors.RaiseException):
                    raise

    async def repair(self) -> None:
        """Give a sign of life, and give out again what nobody is at."""
        jobs, held = self.queue.jobs, {*self.held}  # what ends while it is asked is no more "doing"
        with self.queue.explain_errors():
            if self._worker is not None:
                await jobs.update_heartbeat(self._worker)
            await jobs.prune_stalled_workers(max(_PRUNED, self.lease))
            stalled = [*await jobs.get_stalled_jobs(seconds_since_heartbeat=self.lease)]
            if self._worker is not None:
                mine = await jobs.list_jobs_async(worker_id=self._worker, status=Status.DOING.value)
                stalled += [job for job in mine if job.id not in held]
            for job in stalled:
                if job.id is not None and job.task_name in {TURN, PLAN}:
                    at = job.scheduled_at or datetime.now(UTC)  # a plan keeps its time
                    with suppress(ConnectorException):  # another worker was faster
                        await jobs.retry_job_by_id_async(job.id, at)
        for row in await run_in_worker(self.queue, self._wake_and_find_dead):
            resume = Turn(
                id=f"resume {row['token']}", thread=row["name"], graph=row["graph"],
                state="waiting", kind="resume",
            )  # fmt: skip
            await self.queue.add_due(resume)

    def _wake_and_find_dead(self) -> Sequence[Any]:
        """Wake turns whose thread was answered; the dead runs that nobody enqueued."""
        with self.queue.explain_errors():
            self.queue.pool.fetch_rows(_WAKE_ALL, [])
            died: Sequence[Any] = self.queue.pool.fetch_rows(_DIED, [self.graphs])
            return died

    async def leave(self) -> None:
        """Say that this worker is no more."""
        if self._worker is not None:
            with suppress(ConnectorException, DatabaseError):
                await self.queue.jobs.unregister_worker(self._worker)

    async def listen(self, report: Callable[[str], None]) -> None:
        """Set `arrived` whenever something is enqueued; for a task that is cancelled.

        A pool between us and the server passes no notices on: then it says so and ends.
        """
        pool = self.queue.pool
        channels = [f'LISTEN "{one}"' for one in get_channel_for_queues(self._names)]
        while True:
            with suppress(psycopg.Error):
                if not await run_in_worker(self.queue, pool.is_direct):
                    report(
                        "behind a connection pool nothing tells of turns: it looks once a second"
                    )
                    return
                async with await psycopg.AsyncConnection.connect(
                    pool.conninfo, autocommit=True, **pool.alive
                ) as connection:
                    await connection.execute("; ".join(channels))
                    self.arrived.set()
                    async for _ in connection.notifies():
                        self.arrived.set()
            await asyncio.sleep(_PAUSE)
