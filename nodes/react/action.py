"""Action: takes the step the thought asked for, with the full definitions of the tools."""

from functools import partial
from typing import Any, Final

from langgraph.runtime import Runtime

from ...calls.gate import open_calls
from ...calls.of_message import settle_ids
from ...models.ask import Answer, ask
from ...models.drafts import drafted
from ...models.hidden_tags import read_words
from ...state.calls import stopped_by
from ...state.context import Context
from ...state.messages import ENDS, ROLE, is_words
from ...state.react import ReactState, ReactUpdate
from ...stream.shown import next_message
from ...text.told import say
from ...turn.budget import limit_reason
from ...turn.scope import scope_of
from ..conversation import own
from ..parts import Parts
from .phases import MOST_ASKS, opening

_SHOWN: Final = 300


async def action(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the calls and plan them; an answer without a call ends the loop."""
    scope, iteration = await scope_of(state, runtime, parts), state.iteration
    scope.emit({"type": "phase", "role": "action", "action": "acting", "iteration": iteration})
    catalog = await parts.toolbox.catalog(scope.user)
    messages, tools = opening(scope, "action", state, catalog)
    demanded = state.demanded and bool(tools)
    answer: Answer[Any] = await ask(
        scope, parts.models, "action", messages, tools=tools,
        read=partial(
            read_words, with_tools=bool(tools), must_call=demanded, answers=state.request
        ),
        listeners=drafted(scope, next_message(state), "action"), most_asks=MOST_ASKS,
    )  # fmt: skip
    message = answer.message
    update = ReactUpdate(phase="action", spend=scope.used(answer.spend), warnings=scope.notes)
    if is_words(message):
        return update | _without_call(state, answer)
    calls = await open_calls(
        scope, parts.toolbox, message, round_=iteration, complete=answer.complete
    )
    if stopped := stopped_by(calls):
        return update | ReactUpdate(halt="DENIED", unmet=[stopped])
    kept = own(settle_ids(message, calls), next_message(state), "action")
    return update | ReactUpdate(calls=calls, messages=[kept])


def _without_call(state: ReactState, answer: Answer[Any]) -> ReactUpdate:
    """End with the text; say so where the thought had asked for a step."""
    if answer.refused == "hook":
        return ReactUpdate(halt=limit_reason("hook"), unmet=answer.problems[-1:])
    if answer.refused:  # back to the thought, which has one more turn to answer
        return ReactUpdate()
    update = ReactUpdate(should_continue=False)
    if answer.message.text:
        update["messages"] = [
            own(answer.message, next_message(state), "action", answer.reasoning, {ENDS: True})
        ]
    unmet = [say("answer_not_sound", problem=problem) for problem in answer.problems]
    if state.demanded:
        unmet = [_step_not_taken(state)]
    return update | ReactUpdate(unmet=unmet, task_completed=not unmet)


def _step_not_taken(state: ReactState) -> str:
    newest = state.messages[-1]
    if newest.additional_kwargs.get(ROLE) != "thought":
        return say("thought_was_empty")
    return say("step_not_taken", step=newest.text[:_SHOWN])
