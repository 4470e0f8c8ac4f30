"""Ask a human about one tool call. One interrupt, one action, nothing done before it."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ..calls.approval import (
    answer_schema,
    decided,
    decision_key,
    misplaced,
    objection_to,
    question,
    undecided,
)
from ..calls.gate import Gate, released
from ..calls.policy import grant
from ..state.calls import CallState, CallsUpdate
from ..state.context import Context
from ..turn.scope import hear, scope_of
from .parts import Parts


async def approve(state: CallState, runtime: Runtime[Context], *, parts: Parts) -> CallsUpdate:
    """Put the first undecided call to the human and keep the answer under its key.

    An answer to another question, or an edit that cannot run, is no decision: the call stays
    undecided, and is asked about again with what is wrong.
    """
    hear(state)
    call = undecided(state.calls, state.decisions)[0]
    key = decision_key(call)
    asked = question(call, state.objections.get(key, ""))
    answer = interrupt(asked, response_schema=answer_schema(call))
    # Somebody has answered: what their answer allows may run, and what it edits may ask again.
    scope = replace(await scope_of(state, runtime, parts), can_ask=True)
    gate = partial(Gate.of, parts.toolbox, scope)
    objection = misplaced(call, answer)
    if not objection and answer.type == "edit" and not call.get("form"):
        objection = objection_to(call, answer.name, answer.args, await gate())
    if objection:
        return CallsUpdate(objections={key: objection})
    decision = decided(call, answer, datetime.now(UTC))
    update = CallsUpdate(decisions={key: decision})
    if decision["type"] == "approve" and not (call.get("doubt") or call.get("form")):
        given = grant(call["name"], call["server"], call["args"], answer.remember)
        if given is not None:
            await scope.journal.grant(scope.thread, given)
            now = await gate()  # this approval has answered other questions of the message too
            update["calls"] = [
                c if c["id"] == call["id"] else released(c, now, [given]) for c in state.calls
            ]
    return update
