"""strategy: how a turn is dealt with, by what is known; no model is asked."""

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import Asked, DeskState, DeskUpdate, Strategy, compute_patience
from ...text.sentences import say, say_to
from ...turn.scope import make_scope
from .shared.desk import Desk


async def strategy(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Choose between answering, asking back, doing what was agreed, ending, and a human."""
    scope = await make_scope(state, runtime, desk.parts)
    chosen, why = choose_strategy(state)
    scope.emit({"type": "strategy", "strategy": chosen, "intent": state.intent, "why": why})
    update = DeskUpdate(strategy=chosen, why=why, answer="", asked="")
    if chosen == "clarify":
        more = state.clarifications + 1
        asked = DeskUpdate(answer=state.answer, asked="detail", clarifications=more)
        return update | asked | DeskUpdate(proposal=None, task_completed=True)
    if chosen == "say":
        words, asks = _choose_words(state, desk)
        said = DeskUpdate(answer=words, asked=asks, task_completed=True)
        return update | said | DeskUpdate(proposal=None)
    keeps = chosen in ("carry_out", "hand_off")
    return update if keeps else update | DeskUpdate(proposal=None)


def choose_strategy(state: DeskState) -> tuple[Strategy, str]:
    """How the turn is dealt with, and why."""
    if state.intent == "sensitive":
        return "hand_off", say("desk_sensitive")
    if state.intent == "human":
        return "hand_off", say("desk_asked_for_human")
    if state.consent in ("yes", "no"):
        return _choose_by_consent(state)
    if state.intent == "closing":
        return "close", ""
    if state.again >= compute_patience(state):
        return "hand_off", say("desk_not_settled")
    if not state.answer:
        return ("say" if state.intent == "chat" and not state.mood else "answer"), ""
    if state.clarifications < compute_patience(state):
        return "clarify", ""
    return "hand_off", say("desk_no_progress")


def _choose_by_consent(state: DeskState) -> tuple[Strategy, str]:
    """What a plain yes or no to what was asked comes to."""
    if state.open_proposal:
        return ("carry_out" if state.consent == "yes" else "say"), ""
    if state.asked == "else":
        return ("say" if state.consent == "yes" else "close"), ""
    if state.consent == "yes":
        return "say", ""
    if state.again >= compute_patience(state):
        return "hand_off", say("desk_not_settled")
    return "answer", ""


def _choose_words(state: DeskState, desk: Desk) -> tuple[str, Asked]:
    """What is said by code, and what it asks."""
    language = state.language
    if not state.consent:
        return desk.company.find_words("greeting", language) or say_to(language, "desk_hello"), ""
    if state.open_proposal:
        return say_to(language, "desk_not_done"), "else"
    if state.asked == "else":
        return say_to(language, "desk_tell_me"), ""
    return say_to(language, "desk_anything_else"), "else"
