"""action takes the step that the thought asked for; observation sums up what came of it."""

from functools import partial
from typing import Any, Final

from langgraph.runtime import Runtime

from ...calls.gate import open_calls, set_call_ids
from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners
from ...models.hidden_tags import read_words
from ...state.calls import find_stop_in_calls
from ...state.context import Context
from ...state.messages import ENDS, ROLE, is_words
from ...state.react import ReactState, ReactUpdate
from ...stream.turn_messages import make_message_id
from ...text.sentences import say
from ...turn.budget import get_limit_reason
from ...turn.scope import make_scope
from ..conversation import sign_message
from ..parts import Parts
from .phases import MOST_ASKS, build_request

_SHOWN: Final = 300


async def action(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the calls and plan them; an answer without a call ends the loop."""
    scope, iteration = await make_scope(state, runtime, parts), state.iteration
    scope.emit({"type": "phase", "role": "action", "action": "acting", "iteration": iteration})
    catalog = await parts.toolbox.catalog(scope.user)
    messages, tools = build_request(scope, "action", state, catalog)
    demanded = state.demanded and bool(tools)
    answer: Answer[Any] = await ask(
        scope,
        parts.models,
        "action",
        messages,
        tools=tools,
        spare_tools=catalog.spare_specs,
        read=partial(read_words, with_tools=bool(tools), must_call=demanded, answers=state.request),
        listeners=make_draft_listeners(scope, make_message_id(state), "action"),
        most_asks=MOST_ASKS,
    )
    message = answer.message
    update = ReactUpdate(
        phase="action", spend=scope.add_seconds(answer.spend), warnings=scope.notes
    )
    if is_words(message):
        return update | _without_call(state, answer)
    calls = await open_calls(
        scope, parts.toolbox, message, round_=iteration, complete=answer.complete
    )
    if stopped := find_stop_in_calls(calls):
        return update | ReactUpdate(halt="DENIED", unmet=[stopped])
    kept = sign_message(set_call_ids(message, calls), make_message_id(state), "action")
    return update | ReactUpdate(calls=calls, messages=[kept])


def _without_call(state: ReactState, answer: Answer[Any]) -> ReactUpdate:
    """End with the text; say so where the thought had asked for a step."""
    if answer.refused == "hook":
        return ReactUpdate(halt=get_limit_reason("hook"), unmet=answer.problems[-1:])
    if answer.refused:  # back to the thought, which has one more turn to answer
        return ReactUpdate()
    update = ReactUpdate(should_continue=False)
    if answer.message.text:
        update["messages"] = [
            sign_message(
                answer.message, make_message_id(state), "action", answer.reasoning, {ENDS: True}
            )
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
        spare_tools=catalog.spare_specs,
        read=read_words, listeners=make_draft_listeners(scope, name, "observation"),
        most_asks=MOST_ASKS,
    )  # fmt: skip
    update = ReactUpdate(
        phase="observation", spend=scope.add_seconds(answer.spend), warnings=scope.notes
    )
    if answer.message.text:
        update["messages"] = [sign_message(answer.message, name, "observation", answer.reasoning)]
    return update
