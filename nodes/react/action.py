"""Action: takes the step the thought asked for, with the full definitions of the tools."""

import time
from functools import partial
from typing import Any, Final

from langgraph.runtime import Runtime

from ...calls.gate import settle_ids
from ...calls.stored import has_stored
from ...calls.tool_hooks import stopped_by
from ...models.ask import Answer, ask
from ...models.thoughts import read_words
from ...state.context import Context, context_of
from ...state.loop import changes
from ...state.react import ENDS, ReactState, ReactUpdate
from ...turn.allowance import ledger_for, limit_reason, spent_since
from ...turn.events import emitter
from ...turn.scope import user_id
from ..parts import Parts
from ..planned import planned_calls
from .phases import opening, own

MOST_ASKS: Final = 2
_SHOWN: Final = 300


async def action(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the calls and plan them; an answer without a call ends the loop."""
    began, context, emit = time.monotonic(), context_of(runtime), emitter(runtime)
    emit({"type": "phase", "role": "action", "action": "acting", "iteration": state.iteration})
    catalog = await parts.toolbox.catalog(user_id())
    specs = catalog.specs(capped=has_stored(state.messages))
    demanded = state.demanded and bool(specs)
    answer: Answer[Any] = await ask(
        parts.models, "action", opening("action", state, context, parts), context=context,
        ledger=await ledger_for(context, state, parts.journal),
        tools=specs, emit=emit, hooks=parts.hooks,
        read=partial(read_words, with_tools=bool(specs), must_call=demanded), most_asks=MOST_ASKS,
    )  # fmt: skip
    message = answer.message
    update = ReactUpdate(
        phase="action", spend=spent_since(began, answer.spend), warnings=answer.notes
    )
    if not (message.tool_calls or message.invalid_tool_calls):
        return changes(state, update | _without_call(state, answer))
    calls = await planned_calls(
        message, path=state.path, round_=state.iteration, complete=answer.complete,
        catalog=catalog, context=context, parts=parts, emit=emit,
    )  # fmt: skip
    if stopped := stopped_by(calls):
        return changes(state, update | ReactUpdate(halt="DENIED", unmet=[stopped]))
    update |= ReactUpdate(calls=calls, messages=[own(settle_ids(message, calls), state, "action")])
    return changes(state, update)


def _without_call(state: ReactState, answer: Answer[Any]) -> ReactUpdate:
    """End with the text; say so where the thought had asked for a step."""
    if answer.refused == "hook":
        return ReactUpdate(halt=limit_reason("hook"), unmet=answer.problems[-1:])
    if answer.refused:  # back to the thought, which has one more turn to answer
        return ReactUpdate()
    update = ReactUpdate(should_continue=False)
    if answer.message.text:
        update["messages"] = [own(answer.message, state, "action", **{ENDS: True})]
    unmet = [f"The answer is not sound: {problem}." for problem in answer.problems]
    if state.demanded:
        unmet = [f"No tool was called for the step: {state.messages[-1].text[:_SHOWN]}"]
    return update | ReactUpdate(unmet=unmet, task_completed=not unmet)
