"""Executor: one model turn on one task; it calls tools or reports."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from ...calls.gate import open_calls, settle_ids
from ...calls.results import has_stored
from ...models.ask import Answer, ask
from ...models.reading import extract
from ...state.calls import left_in_doubt, stopped_after, stopped_by
from ...state.context import Context, Emit
from ...state.contracts import ExecutorResponse, decide_task
from ...state.loop import TaskState, TaskUpdate
from ...state.messages import signature
from ...state.plan import task_view
from ...state.repetition import LAST_STRIKE, LOOP_DETECTED, loop_told, repeated_text
from ...state.told import say
from ...turn.scope import RunScope, scope_of
from ..call_tools import CallsUpdate
from ..parts import Parts

SHOWN = ("id", "description", "acceptance_criteria", "inputs", "feedback")
_ENDS = {"complete": "completed", "skip": "skipped", "fail": "failed"}


async def executor(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Ask for the next step of the task and read what it means."""
    scope = await scope_of(state, runtime, parts)
    ended = _ended_by_calls(state, scope.emit)
    if ended:
        return ended
    round_ = state.round + 1
    number = state.task.get("rounds", 0) + round_
    task = state.task["id"]
    scope.emit(
        {"type": "phase", "role": "executor", "action": "thinking", "task": task, "round": number}
    )
    catalog = await parts.toolbox.catalog(scope.user)
    last = state.task.get("rounds_this_turn", 0) + round_ >= scope.context.max_executor_rounds
    answer = await ask(
        scope, parts.models, "executor", _messages(scope, state, last=last),
        contract=ExecutorResponse, bump=state.task.get("attempts", 0),
        tools=() if last else catalog.specs(capped=has_stored(state.messages)),
    )  # fmt: skip
    update = TaskUpdate(
        round=round_,
        calls=[],
        spend=scope.used(answer.spend),
        warnings=scope.notes,
        messages=[_own(answer.message, task, number)],
    )
    if not (answer.message.tool_calls or answer.message.invalid_tool_calls):
        return update | _report(state, answer, scope.emit, last=last)
    if last:
        return update | _ended("failed", answer.message.text, say("no_report"))
    calls = await open_calls(
        scope, parts.toolbox, answer.message, round_=number, complete=answer.complete
    )
    if stopped := stopped_by(calls):
        return update | _stopped(stopped)
    return update | TaskUpdate(
        calls=calls, messages=[_own(settle_ids(answer.message, calls), task, number)]
    )


def ended_by_doubt(_: RunScope, changed: CallsUpdate) -> TaskUpdate:
    """A call that may have run, with nobody to ask, fails the task."""
    doubtful = [record for record in changed["evidence"] if left_in_doubt(record)]
    if not doubtful:
        return TaskUpdate()
    words = "; ".join(f"{record['tool']} ({record['id']})" for record in doubtful)
    return _ended("failed", "", say("task_in_doubt", calls=words)) | TaskUpdate(denied="uncertain")


def _ended_by_calls(state: TaskState, emit: Emit) -> TaskUpdate | None:
    """The end of a task whose last calls went round in circles, or after which a hook ended it."""
    if state.strikes >= LAST_STRIKE:
        return _stuck(state, loop_told(state.evidence), emit)
    stopped = stopped_after(state.messages)
    return _stopped(stopped) if stopped else None


def _stopped(why: str) -> TaskUpdate:
    """End the task because a hook does not let it go on."""
    return _ended("failed", "", why) | TaskUpdate(denied="denied", calls=[])


def _own(message: AIMessage, task: str, number: int) -> AIMessage:
    """The message under an id of this turn: providers repeat ids, and a known id replaces."""
    extra = message.additional_kwargs | signature("executor")
    return message.model_copy(update={"id": f"{task}.{number}", "additional_kwargs": extra})


def _messages(scope: RunScope, state: TaskState, *, last: bool) -> list[BaseMessage]:
    """Role and task first, then this task's own scratch: each call extends the one before it."""
    opening = scope.opening("executor", _data(scope, state))
    return [*opening, *state.messages, *([HumanMessage(say("last_round"))] if last else [])]


def _data(scope: RunScope, state: TaskState) -> dict[str, object]:
    return {
        "request": state.request,
        "task": task_view(state.task, *SHOWN),
        "results_so_far": state.results_so_far,
        "additional_context": scope.hook_notes(state.hook_context),
    }


def _report(
    state: TaskState, answer: Answer[ExecutorResponse], emit: Emit, *, last: bool
) -> TaskUpdate:
    """End the task, start it afresh or go on, by the report's flags; never by its words."""
    report = answer.parsed
    if answer.refused == "hook":
        return _stopped("; ".join(answer.problems))
    if report is None:
        return _ended("failed", answer.message.text, "; ".join(answer.problems))
    decision = decide_task(report, state.task["id"])
    if decision in _ENDS:
        why = "" if decision == "complete" else report.summary
        ended = _ended(_ENDS[decision], report.summary, why)
        wishes: dict[str, str] = {t.id: t.status for t in report.todos if t.id != state.task["id"]}
        return ended | TaskUpdate(wishes=wishes)
    if last:
        return _ended("failed", report.summary, say("not_completed_in_time"))
    if decision == "retry":
        note = HumanMessage(say("started_afresh", report=report.summary))
        return TaskUpdate(messages=[RemoveMessage(id=REMOVE_ALL_MESSAGES), note])
    spoken = AIMessage(answer.message.text or report.summary)
    return _next_step(state, spoken, emit)


def _next_step(state: TaskState, spoken: AIMessage, emit: Emit) -> TaskUpdate:
    """Go on after a report that ends nothing, unless it says what was said over and over."""
    chant = repeated_text([_said(message) for message in [*_unbroken(state.messages), spoken]])
    if not chant:
        return TaskUpdate(messages=[spoken, HumanMessage(say("next_step"))])
    strikes = state.strikes + 1
    if strikes >= LAST_STRIKE:
        return _stuck(state, say("loop_of_these_words", words=chant), emit)
    emit({"type": "loop", "task": state.task["id"], "strike": strikes, "what": chant})
    return TaskUpdate(strikes=strikes, messages=[spoken, HumanMessage(say("nudge"))])


def _unbroken(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What the executor said since its last call or nudge: whoever calls tools is not chanting."""
    said: list[AnyMessage] = []
    for message in reversed(messages):
        if message.type == "tool" or message.text == say("nudge"):
            break
        if message.type == "ai":
            said.insert(0, message)
    return said


def _said(message: AnyMessage) -> str:
    """The words of a report; the JSON around them is the same each time."""
    summary = (extract(message.text).value or {}).get("summary")
    return summary if isinstance(summary, str) else message.text


def _stuck(state: TaskState, why: str, emit: Emit) -> TaskUpdate:
    """End the task: warned once, it went round in circles again."""
    emit({"type": "loop", "task": state.task["id"], "strike": LAST_STRIKE, "what": why})
    return _ended("failed", "", why) | TaskUpdate(denied=LOOP_DETECTED, strikes=LAST_STRIKE)


def _ended(status: str, result: str, feedback: str) -> TaskUpdate:
    return TaskUpdate(status=status, result=result, feedback=feedback)
