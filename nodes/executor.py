"""Executor: one model turn on one task; it calls tools or reports."""

import time

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from ..models.ask import Answer, ask
from ..state.context import Context, context_of
from ..state.contracts import ExecutorResponse, decide_task
from ..state.loop import TaskState, TaskUpdate
from ..tools.calls import has_stored
from ..tools.planning import plan_calls, settle_ids
from .allowance import ledger_for, spent_since
from .conversation import signature, task_view
from .events import emitter
from .parts import Parts
from .run_facts import can_ask, user_id

SHOWN = ("id", "description", "acceptance_criteria", "inputs", "feedback")
NEXT_STEP = "Go on with the task: call a tool, or report."
NO_REPORT = "no report within the allowed rounds"
LAST_ROUND = "This is the last round, no tools are left: report what you have, honestly."
_ENDS = {"complete": "completed", "skip": "skipped", "fail": "failed"}


async def executor(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Ask for the next step of the task and read what it means."""
    began, context, emit = time.monotonic(), context_of(runtime), emitter(runtime)
    round_ = state.round + 1
    number = state.task.get("rounds", 0) + round_
    task = state.task["id"]
    emit({"type": "phase", "role": "executor", "action": "thinking", "task": task, "round": number})
    catalog = await parts.toolbox.catalog(user_id())
    last = state.task.get("rounds_this_turn", 0) + round_ >= context.max_executor_rounds
    answer = await ask(
        parts.models, "executor", _messages(state, context, parts, last=last), context=context,
        ledger=ledger_for(context, state.spend, branch=task), contract=ExecutorResponse,
        bump=state.task.get("attempts", 0),
        tools=() if last else catalog.specs(capped=has_stored(state.messages)), emit=emit,
    )  # fmt: skip
    update = TaskUpdate(
        round=round_,
        calls=[],
        spend=spent_since(began, answer.spend),
        warnings=answer.notes,
        messages=[_own(answer.message, task, number)],
    )
    if not (answer.message.tool_calls or answer.message.invalid_tool_calls):
        return update | _report(state, answer, last=last)
    if last:
        return update | _ended("failed", answer.message.text, NO_REPORT)
    calls = plan_calls(
        answer.message, task=task, round_=number, catalog=catalog, context=context,
        policy=parts.toolbox.policy, can_ask=can_ask(context), complete=answer.complete,
    )  # fmt: skip
    return update | TaskUpdate(
        calls=calls, messages=[_own(settle_ids(answer.message, calls), task, number)]
    )


def _own(message: AIMessage, task: str, number: int) -> AIMessage:
    """The message under an id of this turn: providers repeat ids, and a known id replaces."""
    extra = message.additional_kwargs | signature("executor")
    return message.model_copy(update={"id": f"{task}.{number}", "additional_kwargs": extra})


def _messages(state: TaskState, context: Context, parts: Parts, *, last: bool) -> list[BaseMessage]:
    """Role and task first, then this task's own scratch: each call extends the one before it."""
    opening = parts.opening("executor", context, _data(state))
    return [*opening, *state.messages, *([HumanMessage(LAST_ROUND)] if last else [])]


def _data(state: TaskState) -> dict[str, object]:
    return {
        "request": state.request,
        "task": task_view(state.task, *SHOWN),
        "results_so_far": state.results_so_far,
    }


def _report(state: TaskState, answer: Answer[ExecutorResponse], *, last: bool) -> TaskUpdate:
    """End the task, start it afresh or go on, by the report's flags; never by its words."""
    report = answer.parsed
    if report is None:
        return _ended("failed", answer.message.text, "; ".join(answer.problems))
    decision = decide_task(report, state.task["id"])
    if decision in _ENDS:
        why = "" if decision == "complete" else report.summary
        ended = _ended(_ENDS[decision], report.summary, why)
        wishes: dict[str, str] = {t.id: t.status for t in report.todos if t.id != state.task["id"]}
        return ended | TaskUpdate(wishes=wishes)
    if last:
        return _ended("failed", report.summary, "not completed within the allowed rounds")
    if decision == "retry":
        note = HumanMessage(f"You chose to start afresh. Your last report: {report.summary}")
        return TaskUpdate(messages=[RemoveMessage(id=REMOVE_ALL_MESSAGES), note])
    return TaskUpdate(
        messages=[AIMessage(answer.message.text or report.summary), HumanMessage(NEXT_STEP)]
    )


def _ended(status: str, result: str, feedback: str) -> TaskUpdate:
    return TaskUpdate(status=status, result=result, feedback=feedback)
