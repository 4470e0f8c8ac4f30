"""Run tasks as soon as what they wait for is done: no barriers, finished ones survive a kill.

Each task is one durable LangGraph `@task`, created up front in a fixed order: after a crash or an
interrupt the same order finds the recorded results, and only unfinished tasks run again.
"""

import asyncio
import bisect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import reduce
from typing import Any, Generic, TypeVar

from langgraph.errors import GraphBubbleUp, GraphDrained
from langgraph.func import task

from ..state.outcome import Spend, add_spend

R = TypeVar("R")


class _NotStarted(GraphBubbleUp):
    """Raised in a task that must not start now, so that nothing is recorded for it."""


class _Slots:
    """At most `size` holders; who waits gets in by place, lowest first."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def take(self, place: int) -> None:
        # Everything that became ready in the same moment queues up before anyone is served.
        await asyncio.sleep(0)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bisect.insort(self._waiting, (place, turn), key=lambda entry: entry[0])
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            self._give_up(place, turn)
            raise

    def give(self) -> None:
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._free and self._waiting:
            _, turn = self._waiting.pop(0)
            if not turn.done():
                self._free -= 1
                turn.set_result(None)

    def _give_up(self, place: int, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():
            self.give()
        else:
            self._waiting = [entry for entry in self._waiting if entry != (place, turn)]


class _Run(Generic[R]):
    """One pass over a plan: the futures of its tasks and the slots they share."""

    def __init__(
        self,
        waits: Mapping[str, Sequence[str]],
        start: Callable[[str, dict[str, R]], Awaitable[R]],
        *,
        slots: int,
        drained: Callable[[], bool],
        ended: Callable[[R], object],
    ) -> None:
        self._waits = waits
        self._start = start
        self._slots = _Slots(slots)
        self._drained = drained
        self._ended = ended
        self._done: dict[str, asyncio.Future[R]] = {}

    async def run(self, order: Sequence[str]) -> list[R | BaseException]:
        loop = asyncio.get_running_loop()
        self._done = {name: loop.create_future() for name in order}
        before = _RUN.set(self)
        watchers = [
            asyncio.ensure_future(self._watch(name, _durable(name, place)))
            for place, name in enumerate(order)
        ]
        _RUN.reset(before)
        return await asyncio.gather(*watchers, return_exceptions=True)

    async def _watch(self, name: str, future: Any) -> R:
        """Pass a task's end on to those that wait for it, however it ended."""
        try:
            result: R = await future
        except BaseException:
            self._done[name].cancel()
            raise
        self._ended(result)
        self._done[name].set_result(result)
        return result

    async def one(self, name: str, place: int) -> R:
        """Run one task when its turn has come."""
        results = await self._results(self._waits[name])
        await self._slots.take(place)
        try:
            if self._drained():
                raise _NotStarted(name)
            return await self._start(name, results)
        finally:
            self._slots.give()

    async def _results(self, names: Sequence[str]) -> dict[str, R]:
        """Wait for other tasks; where one was interrupted, this one has nothing to do yet."""
        ends = {name: self._done[name] for name in names}
        if running := [end for end in ends.values() if not end.done()]:
            await asyncio.wait(running)
        if stopped := [name for name, end in ends.items() if end.cancelled()]:
            raise _NotStarted(stopped[0])
        return {name: end.result() for name, end in ends.items()}


_RUN: ContextVar[_Run[Any]] = ContextVar("loopwright_run")


async def _one(name: str, place: int) -> Any:
    return await _RUN.get().one(name, place)


# LangGraph looks into a function once if it finds it by its name in its module, else at every call.
_durable: Any = task(_one, name="task")  # type: ignore[call-overload]  # its overloads forbid a name


async def run_ready(
    order: Sequence[str],
    waits: Mapping[str, Sequence[str]],
    start: Callable[[str, dict[str, R]], Awaitable[R]],
    *,
    slots: int,
    drained: Callable[[], bool],
    ended: Callable[[R], object] = lambda _: None,
) -> dict[str, R]:
    """Run every task once those it waits for are done, at most `slots` side by side.

    Args:
        order: Task names, dependencies first; earlier ones get a slot first. Must be the same
            after a resume.
        waits: Task name to the names it waits for.
        start: Runs one task, given the results of those it waited for. Failures that are data
            are returned; what it raises cancels nobody, and is raised here after all have rested.
        slots: How many run at once.
        drained: Says that nothing new may start.
        ended: Told every result as it comes, those recorded before a crash first.

    Raises:
        GraphBubbleUp: A task was interrupted, or the run was drained before all were done.
    """
    run = _Run(waits, start, slots=slots, drained=drained, ended=ended)
    ends = await run.run(order)
    failures = [e for e in ends if isinstance(e, BaseException)]
    _raise_first(failures)
    return {
        name: r for name, r in zip(order, ends, strict=True) if not isinstance(r, BaseException)
    }


def _raise_first(failures: Sequence[BaseException]) -> None:
    """Raise what matters most: a question, then a real failure, then the drain."""
    questions = [e for e in failures if isinstance(e, GraphBubbleUp) and not _is_rest(e)]
    errors = [e for e in failures if not isinstance(e, GraphBubbleUp)]
    for failure in [*questions, *errors]:
        raise failure
    if failures:
        rest = next((e for e in failures if isinstance(e, GraphDrained)), None)
        raise rest or GraphDrained("drain requested")


def _is_rest(error: BaseException) -> bool:
    return isinstance(error, _NotStarted | GraphDrained)


def spent_by(ends: Sequence[Mapping[str, Any]]) -> Spend:
    """What the attempts used together, without seconds: they ran side by side."""
    total = reduce(add_spend, (end["spend"] for end in ends), Spend())
    total.pop("seconds", None)
    return total


def seconds_before(waits: Mapping[str, Sequence[str]], known: Mapping[str, float]) -> float:
    """Active seconds of a pass that was cut short, from what its tasks are known to have used.

    The longest way through the plan: tasks beside each other share their seconds.
    """
    until: dict[str, float] = {}
    for name, others in waits.items():
        start = max((until[other] for other in others), default=0.0)
        until[name] = start + known.get(name, 0.0)
    return max(until.values(), default=0.0)
