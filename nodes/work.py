"""Work: every unfinished task runs the executor graph as soon as its dependencies are done."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.runtime import Runtime

from ..models.spend import Ledger
from ..state.context import Context, context_of
from ..state.evidence import Evidence, report_of
from ..state.loop import PlanState, PlanUpdate
from ..state.plan import Task, apply_wishes, in_order, waits_for
from ..state.spend import Spend, add_spend
from .allowance import ledger_for, limit_reason, sharing
from .events import Emit, emitter, events_to
from .schedule import run_ready

# What one run of the executor graph leaves behind: JSON, because it is checkpointed.
TaskEnd = dict[str, Any]
RunTask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def work(state: PlanState, runtime: Runtime[Context], *, run_task: RunTask) -> PlanUpdate:
    """Run the plan; failed tasks are data, a question or a drain leaves the rest to the resume."""
    context, emit = context_of(runtime), emitter(runtime)
    ledger = ledger_for(context, state.spend)
    tasks = {task["id"]: task for task in state.todos}
    ordered = [t["id"] for t in in_order(state.todos) if t["status"] == "pending"]
    waits = {i: [w for w in ids if w in ordered] for i, ids in waits_for(state.todos).items()}

    async def start(task_id: str, ends: dict[str, TaskEnd]) -> TaskEnd:
        known = [*(_finished(t) for t in state.todos if t["status"] == "completed"), *ends.values()]
        return await _run_one(state, tasks[task_id], known, ledger, emit, run_task)

    with sharing(ledger), events_to(emit):
        ends = await run_ready(
            ordered, waits, start,
            slots=context.max_parallel_tasks, drained=lambda: bool(runtime.drain_requested),
        )  # fmt: skip
    return _gathered(state, list(ends.values()), ledger)


async def _run_one(
    state: PlanState,
    task: Task,
    known: list[TaskEnd],
    ledger: Ledger,
    emit: Emit,
    run_task: RunTask,
) -> TaskEnd:
    """Run one task, unless a dependency failed or the allowance is spent."""
    stopped = _cannot_start(task, known, ledger)
    if stopped:
        emit(_task_event(task, "blocked"))
        return _end(task, {"status": "blocked", "feedback": stopped})
    emit(_task_event(task, "in_progress"))
    began = time.monotonic()
    final = await run_task(
        {
            "request": state.request,
            "task": task,
            "results_so_far": _results(task, known),
            "tier_bump": state.tier_bump,
        }
    )
    end = _end(task, final, time.monotonic() - began)
    emit(_task_event(task, end["status"]))
    return end


def _cannot_start(task: Task, known: list[TaskEnd], ledger: Ledger) -> str:
    if ledger.exhausted:
        return f"the allowance of {ledger.exhausted} is spent"
    status = {end["id"]: end["status"] for end in known}
    failed = [
        i for i in task.get("depends_on") or [] if status.get(i) not in {"completed", "skipped"}
    ]
    return f"waits for {', '.join(failed)}, which did not complete" if failed else ""


def _results(task: Task, known: list[TaskEnd]) -> list[dict[str, str]]:
    """The results a task builds on: its dependencies', or all earlier ones in a sequential plan."""
    wanted = task.get("depends_on")
    return [
        {"id": end["id"], "description": end["description"], "result": end["result"]}
        for end in known
        if end["status"] == "completed" and (wanted is None or end["id"] in wanted)
    ]


def _finished(task: Task) -> TaskEnd:
    return {key: task.get(key, "") for key in ("id", "description", "status", "result")}


def _end(task: Task, final: dict[str, Any], seconds: float = 0.0) -> TaskEnd:
    """The end of a task's attempt, in JSON."""
    return {
        "id": task["id"],
        "description": task["description"],
        "status": final["status"],
        "result": final.get("result", ""),
        "feedback": final.get("feedback", ""),
        "denied": final.get("denied", "") if final["status"] != "completed" else "",
        "rounds": task.get("rounds", 0) + final.get("round", 0),
        "attempts": task.get("attempts", 0) + (1 if final.get("round") else 0),
        "seconds": task.get("seconds", 0.0) + seconds,
        "records": final.get("records", []),
        "wishes": final.get("wishes", {}),
        "spend": final.get("spend", {}),
        "models": final.get("models", {}),
        "warnings": final.get("warnings", []),
    }


def _task_event(task: Task, status: str) -> dict[str, Any]:
    return {
        "type": "task",
        "id": task["id"],
        "description": task["description"],
        "status": status,
        "attempt": task.get("attempts", 0) + 1,
    }


_OF_TASK = ("id", "status", "result", "feedback", "denied", "rounds", "attempts", "seconds")


def _gathered(state: PlanState, ends: list[TaskEnd], ledger: Ledger) -> PlanUpdate:
    evidence: list[Evidence] = []
    spend = Spend()
    update = PlanUpdate(todos=[], models={}, warnings=[])
    for end in ends:
        records = end["records"] or _report_records(end)
        evidence += records
        proof = [record["id"] for record in records if record["status"] == "success"]
        update["todos"].append({key: end[key] for key in _OF_TASK} | {"evidence": proof})
        update["models"] |= end["models"]
        update["warnings"] += end["warnings"]
        spend = add_spend(spend, end["spend"])
    wishes = {i: status for end in ends for i, status in end["wishes"].items()}
    ended = {end["id"] for end in ends}
    update["todos"] += apply_wishes([t for t in state.todos if t["id"] not in ended], wishes)
    if ledger.exhausted:
        update |= {"halt": limit_reason(ledger.exhausted), "should_continue": False}
    return update | PlanUpdate(evidence=evidence, spend=spend)


def _report_records(end: TaskEnd) -> list[Evidence]:
    """A task that made no call has its report, if it made one."""
    if not end["result"]:
        return []
    return [report_of(end["id"], end["result"], completed=end["status"] == "completed")]
