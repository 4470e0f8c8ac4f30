"""close: the customer has said that nothing is left; they are asked once how satisfied they are."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate
from ...state.told import say
from .desk import Desk


async def close(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:  # noqa: ARG001 - as nodes are called
    """Say good-bye."""
    words = say("desk_goodbye") if state.asked_satisfied else say("desk_satisfied")
    return DeskUpdate(answer=words, asked_satisfied=True, closed=True, task_completed=True)
