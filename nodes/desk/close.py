"""close: the customer has said that nothing is left; they are asked once how satisfied they are."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate
from ...text.sentences import say_to
from .shared.desk import Desk


async def close(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:  # noqa: ARG001 - as nodes are called
    """Say good-bye, or ask for a mark, which happens once a thread."""
    update = DeskUpdate(asked_satisfied=True, closed=True, task_completed=True)
    if not state.asked_satisfied:
        return update | DeskUpdate(
            answer=say_to(state.language, "desk_satisfied"), asked="satisfied"
        )
    bye = desk.company.find_words("goodbye", state.language)
    return update | DeskUpdate(answer=bye or say_to(state.language, "desk_goodbye"))
