"""Work: every unfinished task runs the executor graph as soon as its dependencies are done."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.loop import PlanState, PlanUpdate, changes
from ...state.outcome import Spend, add_spend
from ...state.plan import Task, in_order, waits_for
from ...state.told import say
from ...turn.budget import Budget, limit_reason
from ...turn.schedule import run_ready, seconds_before, spent_by
from ...turn.scope import RunScope, around, scope_of
from ..parts import Parts
from .task_ends import TaskEnd, carried, end_of, gathered, missing_for, results_for

RunTask = Callable[[Any], Awaitable[Any]]


async def work(
    state: PlanState, runtime: Runtime[Context], *, parts: Parts, run_task: RunTask
) -> PlanUpdate:
    """Run the plan; failed tasks are data, a question or a drain leaves the rest to the resume."""
    scope = await scope_of(state, runtime, parts)
    budget, tasks = scope.budget, _Tasks(scope, state, run_task)
    order = [t["id"] for t in in_order(state.todos) if t["status"] == "pending"]
    waits = {i: [w for w in ids if w in order] for i, ids in waits_for(state.todos).items()}
    budget.span = partial(seconds_before, waits)
    with around(scope):
        ends = await run_ready(
            order,
            waits,
            tasks.run,
            slots=scope.context.max_parallel_tasks,
            drained=lambda: bool(runtime.drain_requested),
            ended=lambda end: budget.recall(end["id"], end["spend"]),
        )
    ended = list(ends.values())
    update = gathered(state.todos, ended)
    before = Spend(seconds=budget.recalled_seconds)
    update["spend"] = scope.used(add_spend(before, spent_by(ended)))
    unfinished = any(end["status"] != "completed" for end in ended)
    return changes(state, update | _limit(budget, unfinished=unfinished))


def _limit(budget: Budget, *, unfinished: bool) -> PlanUpdate:
    """End the run where a limit is reached; spent tool calls are no matter once all is done."""
    spent = budget.exhausted
    if spent is None or (spent == "tool_calls" and not unfinished):
        return PlanUpdate()
    return PlanUpdate(halt=limit_reason(spent), should_continue=False)


@dataclass(frozen=True)
class _Tasks:
    """Runs single tasks of one pass."""

    scope: RunScope
    state: PlanState
    run_task: RunTask

    async def run(self, task_id: str, waited_for: dict[str, TaskEnd]) -> TaskEnd:
        """Run one task, unless a dependency failed or the allowance is spent."""
        task = next(t for t in self.state.todos if t["id"] == task_id)
        done = [carried(t) for t in self.state.todos if t["status"] == "completed"]
        known = [*done, *waited_for.values()]
        stopped = self._cannot_start(task, known)
        if stopped:
            self._tell(task, "blocked")
            return end_of(task, {"status": "blocked", "feedback": stopped})
        self._tell(task, "in_progress")
        began = time.monotonic()
        final = await self.run_task(
            {
                "request": self.state.request,
                "turn_id": self.state.turn_id,
                "hook_context": self.state.hook_context,
                "task": task,
                "results_so_far": results_for(task, known),
            }
        )
        end = end_of(task, final, time.monotonic() - began)
        self._tell(task, end["status"])
        return end

    def _cannot_start(self, task: Task, known: list[TaskEnd]) -> str:
        if spent := self.scope.budget.exhausted:
            return say("allowance_spent", limit=spent)
        missing = missing_for(task, known)
        return say("waits_for", tasks=", ".join(missing)) if missing else ""

    def _tell(self, task: Task, status: str) -> None:
        about = {"id": task["id"], "description": task["description"]}
        self.scope.emit(
            {"type": "task", **about, "status": status, "attempt": task["attempts"] + 1}
        )
