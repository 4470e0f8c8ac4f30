"""Executor: one model turn on one task; it calls tools or reports."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from ...calls.gate import open_calls, set_call_ids
from ...models.ask import Answer, ask
from ...models.drafts import make_field_listeners
from ...state.calls import STOPPED, find_stop_in_calls
from ...state.context import Context
from ...state.contracts import ExecutorResponse, decide_task
from ...state.history import build_call_index
from ...state.loop import TaskState, TaskUpdate
from ...state.messages import PACKAGE, ROLE, is_words, make_signature
from ...state.plan import task_view
from ...text.loose_json import extract
from ...text.sentences import say
from ...tools.catalog import Catalog
from ...turn.repetition import LAST_STRIKE, LOOP_DETECTED, find_repeated_words
from ...turn.scope import RunScope, make_scope
from ..parts import Parts

SHOWN = ("id", "description", "acceptance_criteria", "inputs", "feedback")
_ENDS = {"complete": "completed", "skip": "skipped", "fail": "failed"}


async def executor(state: TaskState, runtime: Runtime[Context], *, parts: Parts) -> TaskUpdate:
    """Ask for the next step of the task and read what it means."""
    scope = await make_scope(state, runtime, parts)
    if scope.run.stopped():
        return end_after_calls(STOPPED, "")
    round_ = state.round + 1
    number = state.task.get("rounds", 0) + round_
    task = state.task["id"]
    about = {"role": "executor", "action": "thinking", "task": task, "round": number}
    scope.emit({"type": "phase", **about})
    catalog = await parts.toolbox.catalog(scope.user)
    last = state.task.get("rounds_this_turn", 0) + round_ > scope.context.max_executor_rounds
    messages, tools = _build_request(scope, state, catalog, last=last)
    answer = await ask(
        scope, parts.models, "executor", messages,
        contract=ExecutorResponse, bump=state.task.get("attempts", 0),
        tools=tools, spare_tools=catalog.spare_specs, may_call=not last,
        listeners=make_field_listeners(scope, "executor", ExecutorResponse, task=task),
    )  # fmt: skip
    update = TaskUpdate(
        round=round_,
        calls=[],
        spend=scope.add_seconds(answer.spend),
        warnings=scope.notes,
        messages=[_sign_message(answer.message, task, number)],
    )
    if is_words(answer.message):
        return update | _read_report(state, answer, scope, last=last)
    if last:
        return update | _end_task("failed", answer.message.text, say("no_report"))
    calls = await open_calls(
        scope, parts.toolbox, answer.message, round_=number, complete=answer.complete
    )
    stopped = find_stop_in_calls(calls)
    if stopped or scope.run.stopped():
        return update | end_after_calls("denied" if stopped else STOPPED, stopped)
    return update | TaskUpdate(
        calls=calls, messages=[_sign_message(set_call_ids(answer.message, calls), task, number)]
    )


def end_after_calls(reason: str, why: str) -> TaskUpdate:
    """A doubt with nobody to ask, a loop or a hook fails the task; a stop leaves it open."""
    if reason == STOPPED:
        return _end_task("pending", "", "")
    return _end_task("failed", "", why) | TaskUpdate(denied=reason)


def _sign_message(message: AIMessage, task: str, number: int) -> AIMessage:
    """The message under an id of this turn: providers repeat ids, and a known id replaces."""
    extra = message.additional_kwargs | make_signature("executor")
    return message.model_copy(update={"id": f"{task}.{number}", "additional_kwargs": extra})


def _build_request(
    scope: RunScope, state: TaskState, catalog: Catalog, *, last: bool
) -> tuple[list[BaseMessage], list[dict[str, Any]]]:
    """Role and task first, then this task's own scratch: each call extends the one before it.

    The tools begin with those for what is left out of what was before.
    """
    past = scope.around.past
    index = build_call_index(past.records)
    is_left_out = any("left_out" in first for first in [*past.conversation[:1], *index[:1]])
    words = " ".join(str(state.task.get(name) or "") for name in SHOWN[1:3])
    found = [*catalog.deferred_tools.find_likely(words), *state.found]
    tools = [*(catalog.spare_specs() if is_left_out else ()), *catalog.specs(found)]
    data = {
        "more_tools": catalog.deferred_tools.render_listing(),
        "conversation": past.conversation,
        "request": state.request,
        "earlier_evidence": index,
        "task": task_view(state.task, *SHOWN),
        "results_so_far": state.results_so_far,
        "additional_context": scope.join_hook_notes(state.hook_context),
    }
    told = [_tell(say("last_round"))] if last else []
    history = _add_cues([*state.messages, *told])
    return [*scope.build_opening("executor", data, past.blocks), *history], tools


def _add_cues(messages: Sequence[AnyMessage]) -> Iterator[BaseMessage]:
    """The messages, with a cue after words of the assistant that nobody answers.

    Some providers take such words for the beginning of the next answer.
    """
    for message, follows in zip_longest(messages, messages[1:]):
        yield message
        if is_words(message) and (follows is None or follows.type == "ai"):
            yield _tell(say("next_step"))


def _tell(text: str, **marks: object) -> HumanMessage:
    """Words of ours, which are not taken for words of the user."""
    return HumanMessage(text, additional_kwargs={ROLE: PACKAGE, **marks})


def _read_report(
    state: TaskState, answer: Answer[ExecutorResponse], scope: RunScope, *, last: bool
) -> TaskUpdate:
    """End the task, start it afresh or go on, by the report's flags; never by its words."""
    report = answer.parsed
    if answer.refused == "stop":
        return end_after_calls(STOPPED, "")
    if answer.refused == "hook":
        return end_after_calls("denied", "; ".join(answer.problems))
    if report is None:
        return _end_task("failed", answer.message.text, "; ".join(answer.problems))
    decision = decide_task(report, state.task["id"])
    if decision in _ENDS:
        why = "" if decision == "complete" else report.summary
        ended = _end_task(_ENDS[decision], report.summary, why)
        wishes: dict[str, str] = {t.id: t.status for t in report.todos if t.id != state.task["id"]}
        return ended | TaskUpdate(wishes=wishes)
    if last:
        return _end_task("failed", report.summary, say("not_completed_in_time"))
    spoken = AIMessage(answer.message.text or report.summary)
    return _next_step(state, spoken, scope, afresh=decision == "retry")


def _next_step(state: TaskState, spoken: AIMessage, scope: RunScope, *, afresh: bool) -> TaskUpdate:
    """Go on after a report that ends nothing, unless it said the same again after a warning."""
    said, context = [*_list_recent_words(state.messages), _read_summary(spoken)], scope.context
    chant = find_repeated_words(said, context.loop_repeats, context.loop_phrases)
    strikes = state.strikes + bool(chant)
    if chant:
        scope.emit({"type": "loop", "task": state.task["id"], "strike": strikes, "what": chant})
    if chant and strikes >= LAST_STRIKE:
        return end_after_calls(LOOP_DETECTED, say("loop_of_these_words", words=chant))
    told: list[Any] = [spoken, _tell(say("nudge" if chant else "next_step"))]
    if afresh:
        note = _tell(say("started_afresh", report=said[-1]), **{_SAID: said})
        told = [RemoveMessage(id=REMOVE_ALL_MESSAGES), note, *(told[1:] if chant else [])]
    return TaskUpdate(strikes=strikes, messages=told)


_SAID: Final = "said"
"""Key in a note's `additional_kwargs`: what was said in the messages that it stands for."""


def _list_recent_words(messages: Sequence[AnyMessage]) -> list[str]:
    """What the executor said since its last call or nudge: whoever calls tools is not chanting."""
    said: list[str] = []
    for message in reversed(messages):
        if message.type == "tool" or message.text == say("nudge"):
            break
        said[:0] = message.additional_kwargs.get(_SAID, [])
        if message.type == "ai":
            said.insert(0, _read_summary(message))
    return said


def _read_summary(message: AnyMessage) -> str:
    """The words of a report; the JSON around them is the same each time."""
    summary = (extract(message.text)[0] or {}).get("summary")
    return summary if isinstance(summary, str) else message.text


def _end_task(status: str, result: str, feedback: str) -> TaskUpdate:
    return TaskUpdate(status=status, result=result, feedback=feedback)
