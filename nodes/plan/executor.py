"""Executor: one model turn on one task; it calls tools or reports."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from ...calls.gate import open_calls
from ...calls.of_message import settle_ids
from ...models.ask import Answer, ask
from ...models.drafts import drafting
from ...models.reading import extract
from ...state.calls import STOPPED, stopped_by
from ...state.context import Context
from ...state.contracts import ExecutorResponse, decide_task
from ...state.loop import TaskState, TaskUpdate
from ...state.messages import is_words, signature
from ...state.past import index_of
from ...state.plan import task_view
from ...text.told import say
from ...tools.catalog import Catalog
from ...turn.repetition import LAST_STRIKE, LOOP_DETECTED, repeated_text
from ...turn.scope import RunScope, scope_of
from ..parts import Parts

SHOWN = ("id", "description", "acceptance_criteria", "inputs", "feedback")
_ENDS = {"complete": "completed", "skip": "skipped", "fail": "failed"}


async def executor(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Ask for the next step of the task and read what it means."""
    scope = await scope_of(state, runtime, parts)
    if scope.run.stopped():
        return ended_by_calls(STOPPED, "")
    round_ = state.round + 1
    number = state.task.get("rounds", 0) + round_
    task = state.task["id"]
    about = {"role": "executor", "action": "thinking", "task": task, "round": number}
    scope.emit({"type": "phase", **about})
    catalog = await parts.toolbox.catalog(scope.user)
    last = state.task.get("rounds_this_turn", 0) + round_ > scope.context.max_executor_rounds
    answer = await ask(
        scope, parts.models, "executor", _messages(scope, state, catalog, last=last),
        contract=ExecutorResponse, bump=state.task.get("attempts", 0),
        tools=catalog.specs(_found(state, catalog)), may_call=not last,
        listeners=drafting(scope, "executor", ExecutorResponse, task=task),
    )  # fmt: skip
    update = TaskUpdate(
        round=round_,
        calls=[],
        spend=scope.used(answer.spend),
        warnings=scope.notes,
        messages=[_own(answer.message, task, number)],
    )
    if is_words(answer.message):
        return update | _report(state, answer, scope, last=last)
    if last:
        return update | _ended("failed", answer.message.text, say("no_report"))
    calls = await open_calls(
        scope, parts.toolbox, answer.message, round_=number, complete=answer.complete
    )
    stopped = stopped_by(calls)
    if stopped or scope.run.stopped():
        return update | ended_by_calls("denied" if stopped else STOPPED, stopped)
    return update | TaskUpdate(
        calls=calls, messages=[_own(settle_ids(answer.message, calls), task, number)]
    )


def ended_by_calls(reason: str, why: str) -> TaskUpdate:
    """A doubt with nobody to ask, a loop or a hook fails the task; a stop leaves it open."""
    if reason == STOPPED:
        return _ended("pending", "", "")
    return _ended("failed", "", why) | TaskUpdate(denied=reason)


def _own(message: AIMessage, task: str, number: int) -> AIMessage:
    """The message under an id of this turn: providers repeat ids, and a known id replaces."""
    extra = message.additional_kwargs | signature("executor")
    return message.model_copy(update={"id": f"{task}.{number}", "additional_kwargs": extra})


def _found(state: TaskState, catalog: Catalog) -> list[str]:
    """Of many tools those that the task's words are likely to mean, and those that were found."""
    words = (str(state.task.get(name) or "") for name in SHOWN[1:3])
    return [*catalog.shelf.likely(" ".join(words)), *state.found]


def _messages(
    scope: RunScope, state: TaskState, catalog: Catalog, *, last: bool
) -> list[BaseMessage]:
    """Role and task first, then this task's own scratch: each call extends the one before it."""
    data = {
        "more_tools": catalog.shelf.listed(),
        "conversation": scope.around.past.conversation,
        "request": state.request,
        "earlier_evidence": index_of(scope.around.past.records),
        "task": task_view(state.task, *SHOWN),
        "results_so_far": state.results_so_far,
        "additional_context": scope.hook_notes(state.hook_context),
    }
    told = [HumanMessage(say("last_round"))] if last else []
    history = _cued([*state.messages, *told])
    return [*scope.opening("executor", data, scope.around.past.blocks), *history]


def _cued(messages: Sequence[AnyMessage]) -> Iterator[BaseMessage]:
    """The messages with a cue behind words of the assistant that no other side answers.

    A tool may have added them; some providers take them for the beginning of the next answer.
    """
    for message, follows in zip_longest(messages, messages[1:]):
        yield message
        if is_words(message) and (follows is None or follows.type == "ai"):
            yield HumanMessage(say("next_step"))


def _report(
    state: TaskState, answer: Answer[ExecutorResponse], scope: RunScope, *, last: bool
) -> TaskUpdate:
    """End the task, start it afresh or go on, by the report's flags; never by its words."""
    report = answer.parsed
    if answer.refused == "hook":
        return ended_by_calls("denied", "; ".join(answer.problems))
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
    return _next_step(state, spoken, scope)


def _next_step(state: TaskState, spoken: AIMessage, scope: RunScope) -> TaskUpdate:
    """Go on after a report that ends nothing, unless it said the same again after a warning."""
    said = [_said(message) for message in [*_unbroken(state.messages), spoken]]
    chant = repeated_text(said, scope.context.loop_phrases)
    if not chant:
        return TaskUpdate(messages=[spoken, HumanMessage(say("next_step"))])
    strikes = state.strikes + 1
    scope.emit({"type": "loop", "task": state.task["id"], "strike": strikes, "what": chant})
    if strikes >= LAST_STRIKE:
        return ended_by_calls(LOOP_DETECTED, say("loop_of_these_words", words=chant))
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
    summary = (extract(message.text)[0] or {}).get("summary")
    return summary if isinstance(summary, str) else message.text


def _ended(status: str, result: str, feedback: str) -> TaskUpdate:
    return TaskUpdate(status=status, result=result, feedback=feedback)
