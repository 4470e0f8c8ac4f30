"""What is checked before a run touches a saved thread, read from its head checkpoint alone."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from langgraph.checkpoint.base import CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, TASKS
from langgraph.graph import END
from langgraph.types import Command, Interrupt, Send
from pydantic import ValidationError

from ..state.context import Context
from ..state.errors import AnswerRejected, LoopwrightError, SettingsError, ThreadIncompatible
from ..state.questions import Answer, Words

NULL_TASK: Final = "00000000-0000-0000-0000-000000000000"
"""Task id of writes that belong to the checkpoint itself: LangGraph applies them first thing."""

RETURN: Final = "__return__"
"""The channel on which LangGraph keeps what a `@task` returned, until its node has ended."""

CUT_OFF: Final = "cut_off"
"""The channel of a graph that wants to know what a turn had finished when it was cut off."""

_CONTROL: Final = frozenset({ERROR, INTERRUPT, RESUME, "__error_source_node__"})
_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Head:
    """The newest (or the addressed) checkpoint of a thread, with its pending writes."""

    saved: CheckpointTuple

    @property
    def writes(self) -> list[PendingWrite]:
        """The writes of tasks that ran after the checkpoint."""
        return self.saved.pending_writes or []

    @property
    def own_writes(self) -> list[tuple[str, Any]]:
        """Values written onto the checkpoint itself, by an update given with a resume."""
        return [(c, v) for task, c, v in self.writes if task == NULL_TASK and c not in _CONTROL]

    @property
    def values(self) -> dict[str, Any]:
        """The plain channels; append-only ones (messages) are stored as writes and missing here."""
        return {**self.saved.checkpoint["channel_values"], **dict(self.own_writes)}

    @property
    def status(self) -> str | None:
        """The status of the last outcome, if the thread's last turn ended with one."""
        outcome = self.values.get("outcome")
        return outcome.get("status") if isinstance(outcome, Mapping) else None

    def returned(self) -> list[Any]:
        """What durable tasks (`@task`) of the step under way returned, before it was cut off."""
        return [value for _, channel, value in self.writes if channel == RETURN]

    def interrupts(self) -> list[Interrupt]:
        """The questions still waiting for an answer, in task order.

        As this checkpoint tells: see `open_questions` for what a crash may have left of it.
        """
        finished = {task for task, channel, _ in self.writes if channel not in _CONTROL}
        asked: dict[str, Interrupt] = {}
        answered: set[str] = set()
        for task, question in self.asked():
            asked[question.id] = question
            answered |= {question.id} if task in finished else set()
        return [question for key, question in asked.items() if key not in answered]

    def asked(self) -> Iterator[tuple[str, Interrupt]]:
        """Every question with the id of the task that asked, or passed it on, in task order."""
        for task, channel, value in self.writes:
            if channel == INTERRUPT:
                questions = value if isinstance(value, list | tuple) else [value]
                yield from ((task, as_question(question)) for question in questions)

    def waiting(self) -> set[str]:
        """Names of the nodes the saved run would go to next, known to this graph or not."""
        checkpoint = self.saved.checkpoint
        stored, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        names = _sent_to(stored.get(TASKS))
        for channel in stored:
            if channel.startswith("branch:to:"):
                name = _target(channel)
                seen = checkpoint["versions_seen"].get(name, {}).get(channel)
                if seen is None or versions[channel] > seen:  # type: ignore[operator] # one scheme per saver
                    names.add(name)
        for _, channel, value in self.writes:
            names |= _written_to(channel, value)
        return names - {END}

    def missing(self, nodes: Container[str], channels: Container[str]) -> list[str]:
        """Which of the nodes the thread still needs a graph does not have.

        LangGraph drops triggers, sends and half-filled joins it does not know without an error,
        so such a thread would silently end.
        """
        waiting = self.waiting()
        if waiting:
            stored = self.saved.checkpoint["channel_values"]
            joins = (c for c in stored if c.startswith("join:") and stored[c] and c not in channels)
            waiting |= {f"{_target(channel)} (join)" for channel in joins}
        return sorted(name for name in waiting if name not in nodes)


def as_question(saved: Any) -> Interrupt:
    """A saved question; LangGraph's server saves the fields of one as a dict."""
    if isinstance(saved, Mapping):
        return Interrupt(value=saved.get("value"), id=str(saved.get("id", "")))
    return cast("Interrupt", saved)


def _target(channel: str) -> str:
    return channel.split(":", 2)[2]


def _sent_to(packets: object) -> set[str]:
    known = packets if isinstance(packets, Iterable) else ()
    return {packet.node for packet in known if isinstance(packet, Send)}


def _written_to(channel: str, value: object) -> set[str]:
    if channel.startswith("branch:to:"):
        return {_target(channel)}
    return _sent_to([value]) if channel == TASKS else set()


def check_nodes(
    head: Head, nodes: Container[str], channels: Container[str], *, thread: str, graph: str
) -> None:
    """Refuse a thread that waits at a node this graph does not have.

    Raises:
        ThreadIncompatible: naming the nodes, the thread and what to do.
    """
    if missing := head.missing(nodes, channels):
        names = ", ".join(repr(name) for name in missing)
        msg = (
            f"Thread {thread!r} waits at {names}, which the graph {graph!r} does not have: another"
            " version or another graph saved it. Continue it with that one, or start a new thread."
        )
        raise ThreadIncompatible(msg)


def check_command(command: Command[Any]) -> None:
    """Refuse a command that says nothing.

    Raises:
        AnswerRejected: `Command(resume=None)`, which LangGraph cannot tell from no answer.
    """
    if command.resume is None and not command.update and not command.goto:
        msg = (
            "Command(resume=None) carries no answer, because None means 'not answered' to"
            ' LangGraph; answer with a value, for example Command(resume={"type": "approve"}).'
        )
        raise AnswerRejected(msg)


def check_storable(command: Command[Any], serde: SerializerProtocol, *, thread: str) -> None:
    """Refuse an answer that a checkpoint cannot hold, before anything takes it.

    Raises:
        AnswerRejected: saying what about it cannot be saved.
    """
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
        thread: the thread's id, for the messages.
        addressed: the run names an older checkpoint, where answered questions may be asked again.

    Raises:
        AnswerRejected: nothing is pending, or an id names no pending question.
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
