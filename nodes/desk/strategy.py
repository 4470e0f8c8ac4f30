"""strategy: how a turn is dealt with, by what is known; close ends a conversation."""

from typing import Final

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import Asked, DeskState, DeskUpdate, Strategy, compute_patience
from ...text.sentences import say, say_to
from ...turn.scope import RunScope, make_scope
from .desk import Desk
from .proposals import emit_proposal, put_again


async def strategy(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Choose between answering, asking back, doing what was agreed, ending, and a human."""
    scope = await make_scope(state, runtime, desk.parts)
    chosen, why = choose_strategy(state)
    scope.emit({"type": "strategy", "strategy": chosen, "intent": state.intent, "why": why})
    update = DeskUpdate(strategy=chosen, why=why, answer="", asked="") | _settle_proposal(
        scope, state, chosen
    )
    if chosen == "clarify":
        more = state.clarifications + 1
        return update | DeskUpdate(
            answer=state.answer, asked="detail", clarifications=more, task_completed=True
        )
    if chosen == "say":
        words, asks = _choose_words(state, desk)
        if again := update.get("proposal"):
            words = f"{words}\n\n{again['words']}"
        return update | DeskUpdate(answer=words, asked=asks, task_completed=True)
    return update


def _settle_proposal(scope: RunScope, state: DeskState, chosen: Strategy) -> DeskUpdate:
    """What becomes of the question for a yes: it is answered, put once more, or not done."""
    put = state.proposal
    if put is None or chosen == "hand_off":
        return DeskUpdate()
    if state.consent == "unclear" and chosen == "say":
        again = put_again(state, put)
        emit_proposal(scope, state, again)
        return DeskUpdate(proposal=again)
    if state.consent == "unclear" and chosen == "answer":  # check puts it once more
        return DeskUpdate()
    digests = {call["digest"] for call in put["calls"]}
    left = [one for one in state.put if one not in digests]
    update = DeskUpdate(put=left if state.consent in ("yes", "no") else state.put)
    if chosen == "carry_out":
        return update
    return update | DeskUpdate(proposal=None, declined=[call["line"] for call in put["calls"]])


def choose_strategy(state: DeskState) -> tuple[Strategy, str]:
    """How the turn is dealt with, and why."""
    if state.intent == "sensitive":
        return "hand_off", say("desk_sensitive")
    if state.intent == "human":
        return "hand_off", say("desk_asked_for_human")
    if state.consent in ("yes", "no"):
        return _choose_by_consent(state)
    if state.consent == "unclear" and state.proposal is not None:
        if state.proposal["asks"] >= _MOST_ASKS:
            return "hand_off", say("desk_no_clear_yes")
        return ("answer" if state.asks_else else "say"), ""
    return _choose_by_progress(state)


def _choose_by_progress(state: DeskState) -> tuple[Strategy, str]:
    """What a message comes to that answers no question."""
    if state.intent == "closing":
        return "close", ""
    if state.again >= compute_patience(state):
        return "hand_off", say("desk_not_settled")
    if not state.answer:
        return ("say" if state.intent == "chat" and not state.mood else "answer"), ""
    if state.clarifications < compute_patience(state):
        return "clarify", ""
    return "hand_off", say("desk_no_progress")


_MOST_ASKS: Final = 2
"""How often one change is put to the customer before a human takes over."""


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
    if state.consent == "unclear":
        return say_to(language, "desk_unclear"), ""
    if not state.consent:
        return desk.company.find_words("greeting", language) or say_to(language, "desk_hello"), ""
    if state.open_proposal:
        return say_to(language, "desk_not_done"), "else"
    if state.asked == "else":
        return say_to(language, "desk_tell_me"), ""
    return say_to(language, "desk_anything_else"), "else"


async def close(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:  # noqa: ARG001 - as nodes are called
    """Say good-bye, or ask for a mark, which happens once a thread."""
    update = DeskUpdate(asked_satisfied=True, closed=True, task_completed=True)
    if not state.asked_satisfied:
        return update | DeskUpdate(
            answer=say_to(state.language, "desk_satisfied"), asked="satisfied"
        )
    bye = desk.company.find_words("goodbye", state.language)
    return update | DeskUpdate(answer=bye or say_to(state.language, "desk_goodbye"))
