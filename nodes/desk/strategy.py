"""strategy: how a turn is dealt with, by what is known; no model is asked."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate, Strategy, patience
from ...state.told import say
from ...turn.scope import scope_of
from .desk import Desk


async def strategy(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Choose between answering, asking back, doing what was agreed, ending, and a human."""
    scope = await scope_of(state, runtime, desk.parts)
    chosen, why = chosen_for(state)
    scope.emit({"type": "strategy", "strategy": chosen, "intent": state.intent, "why": why})
    update = DeskUpdate(strategy=chosen, why=why)
    if chosen == "clarify":
        return update | DeskUpdate(clarifications=state.clarifications + 1)
    return update | DeskUpdate(answer="")


def chosen_for(state: DeskState) -> tuple[Strategy, str]:
    """How the turn is dealt with, and why."""
    if state.intent == "sensitive":
        return "hand_off", say("desk_sensitive")
    if state.intent == "human":
        return "hand_off", say("desk_asked_for_human")
    if state.consent == "yes" and state.proposal is not None:
        return "carry_out", ""
    if state.intent == "closing":
        return "close", ""
    if not state.answer:
        return "answer", ""
    if state.clarifications < patience(state):
        return "clarify", ""
    return "hand_off", say("desk_no_progress")
