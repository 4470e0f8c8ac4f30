"""confirm: what was answered or done is given with the question whether that settles it."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate
from ...text.sentences import say_to
from .shared.desk import Desk


async def confirm(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:  # noqa: ARG001 - as nodes are called
    """Ask, once an issue."""
    question = say_to(state.language, "desk_solved")
    return DeskUpdate(
        answer=f"{state.answer}\n\n{question}", asked="solved",
        confirmed=[*state.confirmed, state.issue],
    )  # fmt: skip
