"""Observation: sums up in a sentence what the calls brought. It may call no tool."""

from typing import Any

from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.drafts import drafted
from ...models.hidden_tags import read_words
from ...state.context import Context
from ...state.react import ReactState, ReactUpdate
from ...stream.shown import next_message
from ...turn.scope import scope_of
from ..conversation import own
from ..parts import Parts
from .phases import MOST_ASKS, opening


async def observation(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the sentence; without one the thought goes by the results themselves."""
    scope = await scope_of(state, runtime, parts)
    about = {"role": "observation", "action": "observing", "iteration": state.iteration}
    scope.emit({"type": "phase", **about})
    catalog = await parts.toolbox.catalog(scope.user)
    messages, tools = opening(scope, "observation", state, catalog)
    name = next_message(state)
    answer: Answer[Any] = await ask(
        scope, parts.models, "observation", messages, tools=tools, may_call=False,
        read=read_words, listeners=drafted(scope, name, "observation"),
        most_asks=MOST_ASKS,
    )  # fmt: skip
    update = ReactUpdate(phase="observation", spend=scope.used(answer.spend), warnings=scope.notes)
    if answer.message.text:
        update["messages"] = [own(answer.message, name, "observation", answer.reasoning)]
    return update
