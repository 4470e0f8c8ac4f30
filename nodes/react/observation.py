"""Observation: sums up in a sentence what the calls brought. It has no tools."""

import time
from typing import Any, Final

from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.thoughts import read_words
from ...state.context import Context, context_of
from ...state.loop import changes
from ...state.react import ReactState, ReactUpdate
from ...turn.allowance import ledger_for, spent_since
from ...turn.events import emitter
from ..parts import Parts
from .phases import opening, own

MOST_ASKS: Final = 2


async def observation(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the sentence; without one the thought goes by the results themselves."""
    began, context, emit = time.monotonic(), context_of(runtime), emitter(runtime)
    emit(
        {
            "type": "phase",
            "role": "observation",
            "action": "observing",
            "iteration": state.iteration,
        }
    )
    answer: Answer[Any] = await ask(
        parts.models, "observation", opening("observation", state, context, parts),
        context=context, ledger=await ledger_for(context, state, parts.journal), emit=emit,
        read=read_words, most_asks=MOST_ASKS, hooks=parts.hooks,
    )  # fmt: skip
    update = ReactUpdate(
        phase="observation", spend=spent_since(began, answer.spend), warnings=answer.notes
    )
    if answer.message.text:
        update["messages"] = [own(answer.message, state, "observation")]
    return changes(state, update)
