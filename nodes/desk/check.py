"""check: what the customer is to be told holds, or is written anew, or is said plainly."""

import re
from typing import Final

from langgraph.runtime import Runtime

from ...state.context import Context
from ...state.desk import MOST_CLARIFICATIONS, DeskState, DeskUpdate, patience
from ...state.told import say
from ...turn.scope import scope_of
from .desk import Desk

_CITED: Final = re.compile(r"\[([\w.:-]+)\]")


async def check(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Judge the answer by code; the second time it fails it is not given."""
    scope = await scope_of(state, runtime, desk.parts)
    if state.proposal is not None and state.proposal["turn"] == state.turn:
        if why := state.proposal.get("why"):
            return DeskUpdate(strategy="hand_off", why=why)
        return DeskUpdate(answer=state.proposal["words"], task_completed=True)
    wrong = problems_of(state)
    scope.emit({"type": "check", "problems": wrong})
    if not wrong:
        answered = {**state.answered, state.issue: state.answer}
        return DeskUpdate(answered=answered, task_completed=True, improvements=[])
    if state.improvements or patience(state) < MOST_CLARIFICATIONS:
        return DeskUpdate(strategy="hand_off", why="; ".join(wrong), improvements=[])
    return DeskUpdate(improvements=wrong, answer="")


def problems_of(state: DeskState) -> list[str]:
    """What keeps an answer from being given."""
    cited = set(_CITED.findall(state.answer))
    wrong = [say("desk_unknown_source", id=one) for one in sorted(cited - state.sources.keys())]
    if not state.answer.strip():
        wrong.append(say("desk_says_nothing"))
    elif state.answered.get(state.issue) == state.answer:
        wrong.append(say("desk_same_answer"))
    if state.intent == "question" and state.sources and not cited:
        wrong.append(say("desk_no_source"))
    return wrong
