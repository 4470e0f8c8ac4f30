"""Ask a human about one tool call. One interrupt, one action, nothing done before it."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from ..calls.approval import (
    answer_schema,
    build_call_question,
    check_answer,
    check_permission,
    decision_key,
    list_undecided,
    make_decision,
)
from ..calls.gate import Gate, apply_grants
from ..calls.grants import make_grant
from ..state.calls import CallState, CallsUpdate
from ..state.context import Context
from ..turn.scope import make_scope, report_to_outer
from .parts import Parts


async def approve(state: CallState, runtime: Runtime[Context], *, parts: Parts) -> CallsUpdate:
    """Put the first undecided call to the human and keep the answer under its key.

    An answer that does not fit is no decision: the call is asked about again, with the problem.
    """
    report_to_outer(state)
    call = list_undecided(state.calls, state.decisions)[0]
    key = decision_key(call)
    asked = build_call_question(call, state.objections.get(key, ""))
    answer = interrupt(asked, response_schema=answer_schema(call))
    # Somebody has answered: what their answer allows may run, and what it edits may ask again.
    scope = replace(await make_scope(state, runtime, parts), can_ask=True)
    gate = partial(Gate.for_run, parts.toolbox, scope)
    judged = answer.type in ("approve", "edit") and not (call.get("form") or call.get("doubt"))
    if not (objection := check_answer(call, answer)) and judged:
        objection = check_permission(call, answer, await gate())
    if objection:
        return CallsUpdate(objections={key: objection})
    decision = make_decision(call, answer, datetime.now(UTC))
    update = CallsUpdate(decisions={key: decision})
    if decision["type"] == "approve" and not (call.get("doubt") or call.get("form")):
        shown = call.get("definition", "")
        given = make_grant(call["name"], call["server"], call["args"], answer.remember, shown)
        if given is not None:
            await scope.journal.grant(scope.thread, given)
            now = await gate()  # this approval has answered other questions of the message too
            update["calls"] = [
                c if c["id"] == call["id"] else apply_grants(c, now, [given]) for c in state.calls
            ]
    return update
