"""What is refused of an answer or a context, each in a sentence of its own."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Interrupt
from pydantic import ValidationError

from ..state.context import Context
from ..state.errors import AnswerRejected, LoopwrightError, SettingsError
from ..state.limits import explain_excess
from ..state.messages import explain_unreadable
from ..state.questions import Answer, TextAnswer, Words, is_for_operator
from ..store.base import langgraph_keys as keys
from ..stream.meters import AGENT, ERROR, RUNS, STATUS, measure
from .run import Run

_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")


def check_input(run: Run) -> None:
    """Refuse an input that says nothing, cannot be saved or cannot be read, before anything runs.

    Raises AnswerRejected for a command without an answer, SettingsError for anything else.
    """
    if isinstance(run.input, Command):
        _check_command(run.input)
    elif not run.is_nested and (why := _explain_unstorable(run, run.input, "input")):
        msg = f"The input for thread {run.thread!r} cannot be saved, so nothing was run: {why}"
        raise SettingsError(msg)
    _check_messages(run.input, thread=run.thread)


def _check_command(command: Command[Any]) -> None:
    """Refuse a command that says nothing, as `Command(resume=None)` does."""
    if command.resume is None and not command.update and not command.goto:
        msg = (
            "Command(resume=None) carries no answer, because None means 'not answered' to"
            ' LangGraph; answer with a value, for example Command(resume={"type": "approve"}).'
        )
        raise AnswerRejected(msg)


def address_answer(
    run: Run, answer: Command[Any], pending: Sequence[Interrupt], *, asked: Sequence[Interrupt] = ()
) -> Command[Any]:
    """Give a bare answer the id of the first pending question; check the ids of a mapping.

    LangGraph saves a bare answer before its question has accepted it, and would repeat a bad one at
    every resume. At an older checkpoint answered questions are asked again; if none was `asked`
    there, nobody has seen the question yet.
    """
    _check_storable_answer(run, answer)
    given: Any = answer.resume
    if given is None:
        return answer
    if run.has_checkpoint_id and asked and not pending:
        check_answerer(run, given, asked)
        return answer
    if not pending:
        msg = (
            f"Thread {run.thread!r} has no question waiting for an answer; continue it with"
            " input None, or send a new message."
        )
        raise AnswerRejected(msg)
    if not _is_map(given):
        given = {pending[0].id: given}
    ids = [question.id for question in pending]
    if unknown := [key for key in given if key not in ids]:
        msg = (
            f"No question {', '.join(unknown)} is pending on thread {run.thread!r}; pending:"
            f" {', '.join(ids)}. Answer one of those."
        )
        raise AnswerRejected(msg)
    check_answerer(run, given, pending)
    return replace(answer, resume=given)


def check_answerer(run: Run, resume: Any, pending: Iterable[Interrupt]) -> None:
    """Refuse a customer's answer to a question of the operator's; None is no answer."""
    if resume is None or not run.customer:
        return
    theirs = [one.id for one in pending if is_for_operator(one.value)]
    if wrong := [one for one in theirs if not _is_map(resume) or one in resume]:
        msg = (
            f"Only the operator answers the question {', '.join(wrong)} on thread {run.thread!r}:"
            " nothing was taken, and it stays open. Wait for the operator, or send a new message."
        )
        raise AnswerRejected(msg)


def answer_inner_run(run: Run, asked: Sequence[Interrupt]) -> Run:
    """A run in a graph that resumes; a customer's bare answer comes to it where something is asked.

    Else the next question would take it, also one of the operator's.
    """
    pad = run.configurable[keys.SCRATCHPAD]
    check_answerer(run, run.configurable.get(keys.RESUME_MAP) or pad.get_null_resume(), asked)
    if asked or not run.customer:
        return run
    return run.with_configurable(
        keys.SCRATCHPAD, replace(pad, get_null_resume=lambda _=False: None)
    )


def _check_storable_answer(run: Run, answer: Command[Any]) -> None:
    """Refuse an answer that a checkpoint cannot hold, before anything takes it."""
    if why := _explain_unstorable(run, answer.resume, "answer"):
        msg = f"The answer to thread {run.thread!r} cannot be saved, its question stays open: {why}"
        raise AnswerRejected(msg)


def _explain_unstorable(run: Run, value: object, door: str) -> str:
    """Why a checkpoint cannot hold a value, and what to do; "" where it can."""
    if why := explain_excess(door, value):
        return f"{why}. Send less at once, or let a tool read it."
    if run.saver is None:
        return ""
    try:
        run.saver.serde.dumps_typed(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"{error}. Send large numbers as text, and flatter values."
    return ""


def _check_messages(given: object, *, thread: str) -> None:
    """Refuse what cannot be read as messages, before the thread leaves where it stands."""
    values = given.update if isinstance(given, Command) else given
    why = ""
    if isinstance(values, Mapping) and "messages" in values:
        why = explain_unreadable(values["messages"])
    elif isinstance(given, str | bytes | int | float | list | tuple):
        why = f"it is a {type(given).__name__}, not an object with `messages`"
    if why:
        msg = (
            f"The input for thread {thread!r} cannot be read, so nothing was run:"
            f" {why.rstrip('.')}."
            ' Send {"messages": [{"role": "user", "content": "…"}]}.'
        )
        raise SettingsError(msg)


def _is_map(resume: object) -> bool:
    """Whether LangGraph would read the value as answers by interrupt id."""
    return (
        isinstance(resume, dict)
        and bool(resume)
        and all(isinstance(key, str) and _INTERRUPT_ID.fullmatch(key) for key in resume)
    )


@contextmanager
def report_failure(run: Run, graph: str) -> Iterator[None]:
    """Tell the meter of a run that an error ends, and whoever called it in words."""
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as error:
        if not run.is_nested:
            kind = {ERROR: type(error).__name__}
            measure(RUNS, 1, {AGENT: graph, STATUS: "error", **kind})
        if isinstance(error, ValidationError) and (
            words := translate_error(error, thread=run.thread)
        ):
            raise words from error
        raise


def translate_error(error: ValidationError, *, thread: str) -> LoopwrightError | None:
    """A refused answer or a wrong setting in one sentence; None where it is about neither."""
    details = "; ".join(
        f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}".removeprefix(": ").rstrip(".")
        for detail in error.errors(include_url=False)
    ).replace("Value error, ", "")
    if error.title in {kind.__name__ for kind in (Answer, TextAnswer, Words)}:
        msg = f"The answer to thread {thread!r} is not taken, its question stays open: {details}."
        return AnswerRejected(msg)
    if error.title == Context.__name__:
        return SettingsError(f"The run's context is wrong: {details}.")
    return None
