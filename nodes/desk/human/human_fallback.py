"""A customer is not left alone where no model can be reached: the turn goes to a human."""

from collections.abc import Awaitable, Callable

from langgraph.runtime import Runtime

from ....state.context import Context
from ....state.desk import DeskState, DeskUpdate
from ....state.errors import ModelCallFailed, ModelUnavailable
from ..shared.desk import Desk

Phase = Callable[..., Awaitable[DeskUpdate]]


async def run_or_hand_off(
    state: DeskState, runtime: Runtime[Context], *, desk: Desk, phase: Phase
) -> DeskUpdate:
    """The phase, or an end of the turn that is handed over."""
    try:
        return await phase(state, runtime, desk=desk)
    except (ModelCallFailed, ModelUnavailable) as error:
        return DeskUpdate(halt="ERROR", unmet=[str(error)], warnings=[str(error)], calls=[])
