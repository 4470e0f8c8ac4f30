"""What is refused before a run touches a saved thread, each in a sentence of its own."""

import re
from collections.abc import Container
from dataclasses import replace
from typing import Any, Final

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.types import Command, Interrupt
from pydantic import ValidationError

from ..state.context import Context
from ..state.errors import AnswerRejected, LoopwrightError, SettingsError, ThreadIncompatible
from ..state.questions import Answer, Words
from .head import Head

_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")


def check_nodes(
    head: Head, nodes: Container[str], channels: Container[str], *, thread: str, graph: str
) -> None:
    """Refuse a thread that waits at a node this graph does not have."""
    if missing := head.missing(nodes, channels):
        names = ", ".join(repr(name) for name in missing)
        msg = (
            f"Thread {thread!r} waits at {names}, which the graph {graph!r} does not have: another"
            " version or another graph saved it. Continue it with that one, or start a new thread."
        )
        raise ThreadIncompatible(msg)


def check_command(command: Command[Any]) -> None:
    """Refuse a command that says nothing, as `Command(resume=None)` does."""
    if command.resume is None and not command.update and not command.goto:
        msg = (
            "Command(resume=None) carries no answer, because None means 'not answered' to"
            ' LangGraph; answer with a value, for example Command(resume={"type": "approve"}).'
        )
        raise AnswerRejected(msg)


def check_storable(command: Command[Any], serde: SerializerProtocol, *, thread: str) -> None:
    """Refuse an answer that a checkpoint cannot hold, before anything takes it."""
    try:
        serde.dumps_typed(command.resume)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        msg = (
            f"The answer to thread {thread!r} cannot be saved, its question stays open: {error}."
            " Send large numbers as text, and flatter values."
        )
        raise AnswerRejected(msg) from error


def address_answer(
    command: Command[Any], pending: list[Interrupt], *, thread: str, addressed: bool
) -> Command[Any]:
    """Give a bare answer the id of the first pending question; check the ids of a mapping.

    Addressed answers are not stored before the question has accepted them, bare ones are: one
    bad answer would be replayed at every later resume.

    Args:
        command: what the caller resumes with.
        pending: the open questions in task order.
        thread: the thread's id.
        addressed: the run names an older checkpoint, where answered questions are asked again.
    """
    if command.resume is None or (addressed and not pending):
        return command
    if not pending:
        msg = (
            f"Thread {thread!r} has no question waiting for an answer; continue it with"
            " input None, or send a new message."
        )
        raise AnswerRejected(msg)
    if not _is_map(command.resume):
        return replace(command, resume={pending[0].id: command.resume})
    ids = [question.id for question in pending]
    if unknown := [key for key in command.resume if key not in ids]:
        msg = (
            f"No question {', '.join(unknown)} is pending on thread {thread!r}; pending:"
            f" {', '.join(ids)}. Answer one of those."
        )
        raise AnswerRejected(msg)
    return command


def _is_map(resume: object) -> bool:
    """Whether LangGraph would read the value as answers by interrupt id."""
    return (
        isinstance(resume, dict)
        and bool(resume)
        and all(isinstance(key, str) and _INTERRUPT_ID.fullmatch(key) for key in resume)
    )


def in_words(error: ValidationError, *, thread: str) -> LoopwrightError | None:
    """A refused answer or a wrong setting in one sentence; None where it is about neither."""
    details = "; ".join(
        f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}".removeprefix(": ").rstrip(".")
        for detail in error.errors(include_url=False)
    ).replace("Value error, ", "")
    if error.title in {Answer.__name__, Words.__name__}:
        msg = f"The answer to thread {thread!r} is not taken, its question stays open: {details}."
        return AnswerRejected(msg)
    if error.title == Context.__name__:
        return SettingsError(f"The run's context is wrong: {details}.")
    return None
