"""Work: every unfinished task runs the executor graph as soon as its dependencies are done."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Interrupt
from typing_extensions import TypedDict

from ...state.calls import Evidence
from ...state.context import Context
from ...state.contracts import FINISHED
from ...state.evidence_checks import make_report
from ...state.history import History
from ...state.loop import PlanState, PlanUpdate
from ...state.outcome import Spend
from ...state.plan import Task, apply_wishes, map_dependencies, sort_by_dependencies
from ...stream.events import make_call_events
from ...stream.turn_messages import add_messages, make_answers, make_phase_message, make_report_id
from ...text.sentences import say
from ...turn.begin import describe_evidence
from ...turn.budget import Budget, get_limit_reason
from ...turn.event_emitter import show_questions
from ...turn.schedule import run_ready, sum_spend
from ...turn.scope import RunScope, make_scope, share_scope
from ..parts import Parts

RunTask = Callable[[Any, RunnableConfig], Awaitable[Any]]


class TaskEnd(TypedDict):
    """The end of one attempt at a task, as JSON that survives a crash; `task` is what changed."""

    task: Task
    evidence: list[Evidence]
    wishes: dict[str, str]
    spend: Spend
    warnings: list[str]


async def work(
    state: PlanState, runtime: Runtime[Context], *, parts: Parts, run_task: RunTask
) -> PlanUpdate:
    """Run the plan; failed tasks are data, a question or a drain leaves the rest to the resume."""
    scope = await make_scope(state, runtime, parts)
    tasks = _Tasks(scope, state, run_task)
    order = [t["id"] for t in sort_by_dependencies(state.todos) if t["status"] == "pending"]
    waits = {i: [w for w in ids if w in order] for i, ids in map_dependencies(state.todos).items()}
    ended = await run_ready(
        scope, runtime, order, waits, tasks.run, ended=tasks.note_end, asked=tasks.show_asked
    )
    update = fold_ends(state.todos, ended) | PlanUpdate(spend=sum_spend(scope, ended))
    tasks.tell_wishes(update)
    update["messages"] = add_messages(state, tasks.collect_messages(ended))
    unfinished = any(end["task"]["status"] != "completed" for end in ended)
    return update | _limit(scope.budget, unfinished=unfinished)


def _limit(budget: Budget, *, unfinished: bool) -> PlanUpdate:
    """End the run where a limit is reached; spent tool calls are no matter once all is done."""
    spent = budget.reached_limit
    if spent is None or (spent == "tool_calls" and not unfinished):
        return PlanUpdate()
    return PlanUpdate(halt=get_limit_reason(spent), should_continue=False)


def fold_ends(tasks: Sequence[Task], ends: Sequence[TaskEnd]) -> PlanUpdate:
    """What the ends of a pass change in the run: tasks, evidence and warnings."""
    ended = {end["task"]["id"] for end in ends}
    wishes = {i: status for end in ends for i, status in end["wishes"].items()}
    others = apply_wishes([t for t in tasks if t["id"] not in ended], wishes)
    return PlanUpdate(
        todos=[*(end["task"] for end in ends), *others],
        evidence=[record for end in ends for record in end["evidence"]],
        warnings=[text for end in ends for text in end["warnings"]],
    )


@dataclass(frozen=True)
class _Tasks:
    """Runs single tasks of one pass."""

    scope: RunScope
    state: PlanState
    run_task: RunTask
    read: list[Evidence] = field(default_factory=list)
    """What tasks of this pass have read, whose reports those after them are told."""

    async def run(self, task_id: str, waited_for: dict[str, TaskEnd]) -> TaskEnd:
        """Run one task, unless a dependency failed or the allowance is spent."""
        tasks = {task["id"]: task for task in self.state.todos}
        task = tasks[task_id]
        # Those that were done before this pass, and those of it; an end holds what it changed.
        known = [t for t in self.state.todos if t["status"] == "completed"]
        known += [tasks[i] | end["task"] for i, end in waited_for.items()]
        stopped = self._cannot_start(task, known)
        if stopped:
            return end_of(task, {"status": "blocked", "feedback": stopped})
        self._tell(task, "in_progress")
        began = time.monotonic()
        surroundings = replace(self.scope.around, past=self._collect_past(waited_for.values()))
        with share_scope(replace(self.scope, around=surroundings)):
            final = await self.run_task(
                {
                    "request": self.state.request,
                    "turn_id": self.state.turn_id,
                    "hook_context": self.state.hook_context,
                    "task": task,
                    "results_so_far": results_for(task, known),
                },
                self.scope.build_inner_config(f"task {task_id}"),
            )
        return end_of(task, final, time.monotonic() - began)

    def note_end(self, end: TaskEnd) -> None:
        """Count and tell how a task ended, in this process or before a crash."""
        self.scope.budget.count_branch(end["task"]["id"], end["spend"])
        self.read.extend(end["evidence"])
        (task,) = (task for task in self.state.todos if task["id"] == end["task"]["id"])
        calls = (record for record in end["evidence"] if record["tool"] is not None)
        for event in (event for record in calls for event in make_call_events(record)):
            self.scope.emit(event)
        result = end["task"].get("result") or end["task"].get("feedback", "")
        report = make_report_id(self.state.turn_id, task)
        under = {"message_id": report} if self._report(end["task"]) else {}
        self._tell(task, end["task"]["status"], result=result, **under)

    def tell_wishes(self, update: PlanUpdate) -> None:
        """Tell of the tasks whose status others have changed."""
        for task in cast("list[Task]", update["todos"]):
            if "description" in task:  # those that ended have only what changed
                self._tell(task, task["status"])

    def _collect_past(self, waited_for: Iterable[TaskEnd]) -> History:
        """What a task knows from before; it is read from the run, not saved with each task."""
        state, ended = self.state, [r for end in waited_for for r in end["evidence"]]
        records = [*state.earlier, *(r for r in [*state.evidence, *ended] if r["tool"] is not None)]
        return History(state.conversation, state.attachments, records, [*self.read])

    def collect_messages(self, ends: Sequence[TaskEnd]) -> list[AnyMessage]:
        """What there is to show of the pass: answers to calls that were asked about, reports."""
        evidence = [
            *self.scope.around.heard.values(),
            *(r for end in ends for r in end["evidence"]),
        ]
        reports = (one for end in ends for one in self._report(end["task"]))
        return [*make_answers(self.state, evidence), *reports]

    def _report(self, ended: Task) -> list[AIMessage]:
        (task,) = (task for task in self.state.todos if task["id"] == ended["id"])
        if ended["attempts"] == task.get("attempts", 0):
            return []  # it never began
        result = ended.get("result") or ended.get("feedback", "")
        text = f"{task['id']}. {task['description']}: {ended['status']}\n\n{result}"
        return make_phase_message(
            self.state, "executor", text, make_report_id(self.state.turn_id, task)
        )

    async def show_asked(self, questions: Sequence[Interrupt], ends: Sequence[TaskEnd]) -> None:
        """Show what is asked, and before it what ended."""
        await show_questions(self.state, "executor", questions, self.collect_messages(ends))

    def _cannot_start(self, task: Task, known: list[Task]) -> str:
        if spent := self.scope.budget.reached_limit:
            return say("allowance_spent", limit=spent)
        missing = missing_for(task, known)
        return say("waits_for", tasks=", ".join(missing)) if missing else ""

    def _tell(self, task: Task, status: str, **about: str) -> None:
        told = {"id": task["id"], "description": task["description"], **about}
        self.scope.emit({"type": "task", **told, "status": status, "attempt": task["attempts"] + 1})


def end_of(task: Task, final: Mapping[str, Any], seconds: float = 0.0) -> TaskEnd:
    """The end of an attempt, from the executor graph's final state; counts go on.

    Without calls the report is the evidence. A stopped task says which calls it made.
    """
    rounds, status, result = final.get("round", 0), final["status"], final.get("result", "")
    evidence: list[Evidence] = final.get("evidence", [])
    open_ = status == "pending"
    if result and not evidence:
        evidence = [make_report(task["id"], result, completed=status == "completed")]
    ended = Task(
        id=task["id"],
        status=status,
        result=result,
        feedback=final.get("feedback", "") or (describe_evidence(evidence) if open_ else ""),
        denied="" if status == "completed" else final.get("denied", ""),
        before=task.get("rounds", 0),
        rounds=task.get("rounds", 0) + rounds,
        rounds_this_turn=task.get("rounds_this_turn", 0) + rounds,
        attempts=task.get("attempts", 0) + (1 if rounds else 0),
        seconds=task.get("seconds", 0.0) + seconds,
        evidence=[record["id"] for record in evidence if record["status"] == "success"],
    )
    return TaskEnd(
        task=ended,
        evidence=evidence,
        wishes=final.get("wishes", {}),
        spend=final.get("spend", {}),
        warnings=final.get("warnings", []),
    )


def results_for(task: Task, known: Sequence[Task]) -> list[dict[str, str]]:
    """The results a task builds on: its dependencies', or all earlier ones in a sequential plan."""
    wanted = task.get("depends_on")
    return [
        {"id": other["id"], "description": other["description"], "result": other.get("result", "")}
        for other in known
        if other["status"] == "completed" and (wanted is None or other["id"] in wanted)
    ]


def missing_for(task: Task, known: Sequence[Task]) -> list[str]:
    """The dependencies of a task that did not come to an end it can build on."""
    usable = {t["id"] for t in known if t["status"] in FINISHED}
    return [name for name in task.get("depends_on") or [] if name not in usable]
