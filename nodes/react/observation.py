"""Observation: sums up in a sentence what the calls brought. It may call no tool."""

from typing import Any

from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners
from ...models.hidden_tags import read_words
from ...state.context import Context
from ...state.react import ReactState, ReactUpdate
from ...stream.turn_messages import make_message_id
from ...turn.scope import make_scope
from ..conversation import sign_message
from ..parts import Parts
from .phases import MOST_ASKS, build_request


async def observation(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the sentence; without one the thought goes by the results themselves."""
    scope = await make_scope(state, runtime, parts)
    about = {"role": "observation", "action": "observing", "iteration": state.iteration}
    scope.emit({"type": "phase", **about})
    catalog = await parts.toolbox.catalog(scope.user)
    messages, tools = build_request(scope, "observation", state, catalog)
    name = make_message_id(state)
    answer: Answer[Any] = await ask(
        scope, parts.models, "observation", messages, tools=tools, may_call=False,
        read=read_words, listeners=make_draft_listeners(scope, name, "observation"),
        most_asks=MOST_ASKS,
    )  # fmt: skip
    update = ReactUpdate(
        phase="observation", spend=scope.add_seconds(answer.spend), warnings=scope.notes
    )
    if answer.message.text:
        update["messages"] = [sign_message(answer.message, name, "observation", answer.reasoning)]
    return update
