"""Which questions of a thread are really open.

A graph that a durable task runs saves its own steps under a namespace of its own. A crash after it
took an answer, and before its task ended, leaves the question at the head of the thread: LangGraph
shows it again, and would ignore whatever is answered then.
"""

from collections.abc import Mapping

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt, StateSnapshot

from .checks import Head, as_question


def inner_places(head: Head) -> dict[str, set[str]]:
    """Question id to the namespaces in which a graph inside a task may have asked it."""
    asked = list(head.asked())
    tasks = {task for task, _ in asked}
    places: dict[str, set[str]] = {}
    for task, question in asked:
        places.setdefault(question.id, set()).update(
            f"{node}:{outer}|task:{task}" for node in head.waiting() for outer in tasks - {task}
        )
    return places


def all_places(head: Head) -> set[str]:
    """The namespaces of `inner_places`, of all questions."""
    return set().union(*inner_places(head).values())


def open_questions(head: Head, inner: Mapping[str, CheckpointTuple | None]) -> list[Interrupt]:
    """The questions that wait, without those whose answer an inner graph has taken.

    Args:
        head: The head of the thread.
        inner: Namespace of `all_places` to its newest checkpoint, None where none is saved.
    """
    places = inner_places(head)
    heads = {place: Head(saved) for place, saved in inner.items() if saved is not None}
    return [
        question
        for question in head.interrupts()
        if _waits(question, [heads[place] for place in places[question.id] if place in heads])
    ]


def _waits(question: Interrupt, asked_in: list[Head]) -> bool:
    still = {waiting.id for place in asked_in for waiting in place.interrupts()}
    return not asked_in or question.id in still


def without_answered(state: StateSnapshot, waiting: list[Interrupt]) -> StateSnapshot:
    """The state as LangGraph tells it, with only these questions."""
    ids = {question.id for question in waiting}

    def kept(questions: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        return tuple(question for question in questions if as_question(question).id in ids)

    return state._replace(
        interrupts=kept(state.interrupts),
        tasks=tuple(task._replace(interrupts=kept(task.interrupts)) for task in state.tasks),
    )
