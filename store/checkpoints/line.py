"""The one thread that uses a database's connection: whatever waits in its line is saved together.

Many threads would only wait for the connection, and for each other's turn in the interpreter: an
event loop that gives its turn away for an instant gets it back behind all of them.
"""

import asyncio
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

_MOST: Final = 32
"""Jobs done together: more would let too many runs go on in the same moment."""

_IDLE: Final = 5.0
"""Seconds after which a thread without work ends."""

_PATIENCE: Final = 0.02
"""Seconds that a job waits for the one it is to be done with, after it or others were done."""

_LONGEST: Final = 0.2
"""Seconds that it waits at all."""

_FAILURES: Final = 1_000
"""Jobs that failed while nobody waited, whose company may still come."""


class Company(NamedTuple):
    """Jobs of the same thread and name count all or not at all.

    One that `waits` is left in the line until one comes that does not, and is done with it. Where
    it fails that other one fails, too. Whoever `leaves` it there is not told how it ended: before
    others may rely on it, he has `rest` called. One that waits `long` does so until whatever is
    done next for its thread.
    """

    thread: str
    name: Hashable
    waits: bool = False
    leaves: bool = True
    result: Any = None
    """What who leaves it there is given."""
    long: bool = False


class _Job(NamedTuple):
    work: Callable[[], Any]
    since: float
    done: asyncio.Future[Any] | None = None
    company: Company | None = None
    ends: threading.Event | None = None
    """Of a job that ends the waiting of its thread's others."""

    @property
    def waits(self) -> bool:
        """Whether it is better done with another one."""
        return self.company is not None and self.company.waits

    @property
    def name(self) -> Hashable:
        """The same for all that count together."""
        return id(self) if self.company is None else self.company[:2]


class _End(NamedTuple):
    job: _Job
    result: Any
    error: BaseException | None


class Line:
    """Jobs in the order in which they come. Safe to use from any event loop."""

    def __init__(
        self, together: Callable[[], AbstractContextManager[object]],
        again: Callable[[BaseException], bool] = lambda _error: False,
    ) -> None:  # fmt: skip
        """What is done in a block of `together` counts all or not at all.

        `again` tells whether what failed by this error is to be done once more.
        """
        self._together, self._again = together, again
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()  # a forked child has no thread of its parent's
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed: dict[Hashable, BaseException] = {}
        self._left: Counter[str] = Counter()

    @property
    def is_here(self) -> bool:
        """Whether this is its thread, in the middle of a block."""
        return self._thread is threading.current_thread()

    async def run(self, work: Callable[[], T], company: Company | None = None) -> T | None:
        """Do it when its turn has come; it is done also where the caller is cancelled.

        One that is only left there gives its result at once.
        """
        now = time.monotonic()
        if company is not None and company.waits and company.leaves:
            self._put(_Job(work, now, None, company))
            result: T | None = company.result
            return result
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(_Job(work, now, done, company))
        return await done

    def rest(self, thread: str, *, sure: bool = False) -> None:
        """Wait until all is done that was left in the line for a thread; it blocks.

        Who wants to be `sure` gets the error of what could not be done.
        """
        with self._lock:
            left = self._left[thread] if self._process == os.getpid() else 0
        if left:
            ends = threading.Event()
            company = Company(thread, ends)
            self._put(_Job(lambda: None, time.monotonic(), None, company, ends))
            ends.wait()
        for name, error in tuple(self._failed.items()) if sure else ():
            if isinstance(name, tuple) and name[0] == thread:
                raise error

    def _put(self, job: _Job) -> None:
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if job.waits and job.company:
                self._left[job.company.thread] += 1
            self._jobs.put(job)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="loopwright saver", daemon=True
                )
                self._thread.start()

    def _work(self) -> None:
        waiting: list[_Job] = []
        kept: dict[str, list[_Job]] = {}
        ended = time.monotonic()
        while True:
            try:
                new = [self._jobs.get(timeout=_rest(waiting, ended))]
            except queue.Empty:
                if not (waiting or kept) and self._is_idle():
                    return
                new = []
            with suppress(queue.Empty):
                while len(new) < _MOST:
                    new.append(self._jobs.get_nowait())
            jobs, waiting = _ready([*waiting, *new], kept, ended)
            if jobs:
                self._tell(self._all_done(jobs))
                ended = time.monotonic()

    def _is_idle(self) -> bool:
        """Whether nothing has come any more; then the thread ends."""
        with self._lock:
            if self._jobs.empty():
                self._thread = None
            return self._thread is None

    def _all_done(self, jobs: list[_Job]) -> list[_End]:
        """Do them, but for those whose company has failed before."""
        ends = [_End(job, None, self._failed[job.name]) for job in jobs if job.name in self._failed]
        able = [job for job in jobs if job.name not in self._failed]
        ends += self._done(able) if able else []
        told = {end.job.name for end in ends if not end.job.waits}
        for job, _, error in ends:
            if error is not None and job.waits:
                self._failed[job.name] = error
        for name in told & self._failed.keys():
            del self._failed[name]
        while len(self._failed) > _FAILURES:
            del self._failed[next(iter(self._failed))]
        return ends

    def _done(self, jobs: list[_Job], *, again: bool = True) -> list[_End]:
        names = dict.fromkeys(job.name for job in jobs)
        try:
            with self._together():
                return [_End(job, job.work(), None) for job in jobs]
        except BaseException as error:  # noqa: BLE001 - whoever waits for the job gets it
            again = again and self._again(error)
            if len(names) == 1 and not again:
                return [_End(job, None, error) for job in jobs]
        if again:
            return self._done(jobs, again=False)
        # One of them cannot be done.
        apart = [[job for job in jobs if job.name == name] for name in names]
        return [end for part in apart for end in self._done(part)]

    def _tell(self, ends: list[_End]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_End]] = {}
        for end in ends:
            if end.job.done is not None:
                loops.setdefault(end.job.done.get_loop(), []).append(end)
        for loop, own in loops.items():
            with suppress(RuntimeError):  # closed meanwhile
                loop.call_soon_threadsafe(_settle, own)
        with self._lock:
            self._left -= Counter(
                job.company.thread for job, _, _ in ends if job.waits and job.company
            )
        for job, _, _ in ends:
            if job.ends is not None:
                job.ends.set()


def _settle(ends: list[_End]) -> None:
    for job, result, error in ends:
        if job.done is None or job.done.done():
            continue  # nobody waits any more
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)


def _until(job: _Job, ended: float) -> float:
    """How long a job waits for another one, since jobs were done before."""
    return min(max(job.since, ended) + _PATIENCE, job.since + _LONGEST) if job.waits else 0.0


def _rest(waiting: Sequence[_Job], ended: float) -> float:
    """How long nothing needs to be done."""
    if not waiting:
        return _IDLE
    return max(min(_until(job, ended) for job in waiting) - time.monotonic(), 0.0)


def _ready(
    jobs: Sequence[_Job], kept: dict[str, list[_Job]], ended: float
) -> tuple[list[_Job], list[_Job]]:
    """What is to be done now, and what waits on; `kept` are those that wait long, by thread."""
    now = time.monotonic()
    met = {job.name for job in jobs if not job.waits}
    resting = {job.company.thread for job in jobs if job.ends and job.company}
    ready, waiting = list[_Job](), list[_Job]()
    for job in jobs:
        thread = job.company.thread if job.company else ""
        if job.company is not None and job.company.long:
            before = [one for one in waiting if one.name == job.name]
            waiting = [one for one in waiting if one.name != job.name]
            kept.setdefault(thread, []).extend([*before, job])
        elif thread in resting or job.name in met or _until(job, ended) <= now:
            ready += [*kept.pop(thread, ()), job]
        else:
            waiting.append(job)
    return ready, waiting
