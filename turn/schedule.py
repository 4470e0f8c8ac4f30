"""Run tasks as soon as the tasks they wait for are done; finished ones survive a kill.

Each task is a durable LangGraph `@task`, created up front in a fixed order: after a crash or an
interrupt the same order finds the recorded results, and only unfinished tasks run again.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Generic, TypeVar

from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt
from langgraph.func import task
from langgraph.runtime import Runtime
from langgraph.types import Interrupt

from ..state.outcome import Spend, add_spend
from ..store.locks.control import poll_wish
from .scope import RunScope, share_scope

R = TypeVar("R")


class _NotStarted(GraphBubbleUp):
    """Raised in a task that must not start now, so that nothing is recorded for it."""


_Place = tuple[int, ...]
"""Where a task stands in the order; of a part of one also which part."""


class _Slots:
    """At most `free` holders; who waits gets in by place, lowest first."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: list[tuple[_Place, asyncio.Future[None]]] = []

    async def take(self, place: _Place) -> None:
        # Everything that became ready in the same moment queues up before anyone is served.
        await asyncio.sleep(0)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (place, turn))  # no two tasks have one place
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was served in the same moment
                self.give()
            raise

    def give(self) -> None:
        self._free += 1
        self._serve()

    def _serve(self) -> None:
        while self._free and self._waiting:
            _, turn = heapq.heappop(self._waiting)
            if not turn.done():  # else who waited was cancelled
                self._free -= 1
                turn.set_result(None)


@dataclass
class _Run(Generic[R]):
    """One pass over a plan: the futures of its tasks and the slots they share."""

    waits: dict[str, Sequence[str]]
    start: Callable[[str, dict[str, R]], Awaitable[R]]
    ended: Callable[[R], object]
    runtime: Runtime[Any]
    slots: _Slots
    at: _Place = ()
    """The task whose parts these tasks are."""
    lent: set[_Place] = field(default_factory=set)
    """Tasks that gave their slot to their parts."""
    done: dict[str, asyncio.Future[R]] = field(default_factory=dict)

    async def run(self, order: Sequence[str]) -> list[R | BaseException]:
        loop = asyncio.get_running_loop()
        self.done = {name: loop.create_future() for name in order}
        before = _RUN.set(self)
        watchers = [
            asyncio.ensure_future(self._watch(name, _durable(name, (*self.at, place))))
            for place, name in enumerate(order)
        ]
        _RUN.reset(before)
        return await asyncio.gather(*watchers, return_exceptions=True)

    async def _watch(self, name: str, future: Any) -> R:
        """Pass a task's end on to those that wait for it, however it ended."""
        try:
            result: R = await future
        except BaseException:
            self.done[name].cancel()
            raise
        self.ended(result)
        self.done[name].set_result(result)
        return result

    async def run_one(self, name: str, place: _Place) -> R:
        """Run one task when its turn has come; it has nothing to do where one before it rests."""
        others = {other: self.done[other] for other in self.waits[name]}
        if running := [end for end in others.values() if not end.done()]:
            await asyncio.wait(running)
        if any(end.cancelled() for end in others.values()):
            raise _NotStarted(name)
        await self.slots.take(place)
        try:
            if await poll_wish(self.runtime.control) or self.runtime.drain_requested:
                raise _NotStarted(name)
            _TASK.set((self, name, place))
            return await self.start(name, {other: end.result() for other, end in others.items()})
        finally:
            if place not in self.lent:
                self.slots.give()


_RUN: ContextVar[_Run[Any]] = ContextVar("loopwright_run")
_TASK: ContextVar[tuple[_Run[Any], str, _Place]] = ContextVar("loopwright_task")


async def _run_one(name: str, place: _Place) -> Any:
    return await _RUN.get().run_one(name, place)


# LangGraph looks into a function once if it finds it by its name in its module, else at every call.
_durable: Any = task(_run_one, name="task")  # type: ignore[call-overload]  # its overloads forbid a name


async def run_ready(
    scope: RunScope,
    runtime: Runtime[Any],
    order: Sequence[str],
    waits: Mapping[str, Sequence[str]],
    start: Callable[[str, dict[str, R]], Awaitable[R]],
    ended: Callable[[R], object],
    asked: Callable[[list[Interrupt], list[R]], Awaitable[None]],
    *,
    together: bool = False,
) -> list[R]:
    """Run every task of a node once those it waits for are done, out of the node's budget.

    `order` has dependencies first and must be the same after a resume; earlier tasks get a slot
    first. `waits` maps a task to those it waits for. `start` runs a task with their results: a
    failure that is data is returned, an exception is raised here after all tasks have ended.
    `ended` gets every result, recorded ones first. `asked` gets the questions of tasks, and the
    results so far, before questions are put or the run rests. With `together` all questions are
    put at once.

    Raises:
        GraphBubbleUp: A task was interrupted, or the run was drained before all were done.
    """
    slots = _Slots(scope.context.max_parallel_tasks)
    known = dict(waits)
    scope.budget.span = partial(estimate_seconds, known)
    with share_scope(scope):
        ends = await _Run(known, start, ended, runtime, slots).run(order)
    questions = collect_questions(ends)
    if any(isinstance(end, GraphBubbleUp) for end in ends):
        await asked(questions, [end for end in ends if not isinstance(end, BaseException)])
    if questions and together:
        raise GraphInterrupt(questions)
    return _collect_results(ends)


async def run_parts(
    order: Sequence[str],
    waits: Mapping[str, Sequence[str]],
    start: Callable[[str, dict[str, R]], Awaitable[R]],
    ended: Callable[[R], object],
) -> list[R]:
    """Run the parts of the task that calls this, as `run_ready` runs tasks.

    They share the slots of the pass; the task lends its own, which it does not need while its
    parts run, nor after that. Each part is durable by itself.
    """
    run, whole, place = _TASK.get()
    before = run.waits[whole]
    run.waits |= {name: [*before, *others] for name, others in waits.items()}
    if place not in run.lent:
        run.lent.add(place)
        run.slots.give()
    parts = _Run(dict(waits), start, ended, run.runtime, run.slots, place)
    return _collect_results(await parts.run(order))


def _collect_results(ends: Sequence[R | BaseException]) -> list[R]:
    """What the tasks gave; what one of them raised is raised now that all rest."""
    raise_first([end for end in ends if isinstance(end, BaseException)])
    return [end for end in ends if not isinstance(end, BaseException)]


def collect_questions(ends: Sequence[object]) -> list[Interrupt]:
    """What is asked, each once: a graph inside tells its questions by its tasks, too."""
    asked = [end.args[0] for end in ends if isinstance(end, GraphInterrupt) and end.args]
    return [*{question.id: question for questions in asked for question in questions}.values()]


def raise_first(failures: Sequence[BaseException]) -> None:
    """Raise what matters most: a question, then a real failure, then the drain."""
    rests = [e for e in failures if isinstance(e, _NotStarted | GraphDrained)]
    others = [e for e in failures if e not in rests]
    for failure in sorted(others, key=lambda e: not isinstance(e, GraphBubbleUp)):
        raise failure
    for rest in sorted(rests, key=lambda e: not isinstance(e, GraphDrained)):
        raise rest if isinstance(rest, GraphDrained) else GraphDrained("drain requested")


def sum_spend(scope: RunScope, ends: Sequence[Mapping[str, Any]]) -> Spend:
    """What the tasks used together, without the seconds of each: they ran side by side."""
    total = reduce(add_spend, (end["spend"] for end in ends), Spend())
    return scope.add_seconds(total | Spend(seconds=scope.budget.recalled_seconds))


def estimate_seconds(waits: Mapping[str, Sequence[str]], known: Mapping[str, float]) -> float:
    """Active seconds of a pass that was cut short, from what its tasks are known to have used.

    The longest way through the plan: tasks beside each other share their seconds.
    """
    until: dict[str, float] = {}
    for name, others in waits.items():
        start = max((until[other] for other in others), default=0.0)
        until[name] = start + known.get(name, 0.0)
    return max(until.values(), default=0.0)
