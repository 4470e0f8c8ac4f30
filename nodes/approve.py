"""Ask a human about one tool call. One interrupt, one action, nothing before it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict

from ..calls.gate import Gate, PlannedCall, decision_key, undecided
from ..calls.grants import Grant, grant
from ..calls.opening import released
from ..calls.question import decided, misplaced, objection_to, question
from ..state.calling import CallState
from ..state.context import Context, context_of
from ..state.questions import Answer
from ..turn.scope import thread_id, user_id
from .parts import Parts


class ApproveUpdate(TypedDict, total=False):
    """What an answer changes."""

    calls: list[Any]
    decisions: dict[str, dict[str, Any]]
    objections: dict[str, str]


async def approve(state: CallState, runtime: Runtime[Context], *, parts: Parts) -> ApproveUpdate:
    """Put the first undecided call to the human and keep the answer under its key.

    An answer to another question, or an edit that cannot run, is no decision: the call stays
    undecided, and is asked about again with what is wrong.
    """
    call = undecided(state.calls, state.decisions)[0]
    key = decision_key(call)
    answer = interrupt(question(call, state.objections.get(key, "")), response_schema=Answer)
    objection = misplaced(call, answer)
    if not objection and answer.type == "edit":
        gate = await _gate(runtime, parts)
        objection = objection_to(call, answer.name, answer.args, gate)
    if objection:
        return ApproveUpdate(objections={key: objection})
    decision = decided(call, answer, datetime.now(UTC))
    update = ApproveUpdate(decisions={key: decision})
    if decision["type"] == "approve" and not call.get("uncertain"):
        given = grant(call["name"], call["server"], call["args"], answer.remember)
        if given is not None:
            await parts.journal.grant(thread_id(), given)
            update["calls"] = _spared(state.calls, call, given, await _gate(runtime, parts))
    return update


async def _gate(runtime: Runtime[Context], parts: Parts) -> Gate:
    catalog, context = await parts.toolbox.catalog(user_id()), context_of(runtime)
    return Gate(catalog, parts.toolbox.policy, context, can_ask=True, agent=parts.name)


def _spared(
    calls: Sequence[PlannedCall], approved: PlannedCall, given: Grant, gate: Gate
) -> list[PlannedCall]:
    """The calls of the message, without the questions that this approval has answered too."""
    return [c if c["id"] == approved["id"] else released(c, gate, [given]) for c in calls]
