"""approve, for an agent: a delegation that a human has allowed is one like every other."""

from dataclasses import replace
from typing import cast

from langgraph.runtime import Runtime

from ....calls.approval import Decisions, apply_decision, decision_key
from ....calls.call_records import Call, update_call
from ....calls.gate import Gate
from ....state.agent import DELEGATE, AgentState, AgentUpdate
from ....state.context import Context
from ...approve import approve
from ..shared.agent import Agent


async def approve_delegation(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Put the first undecided call to the human; what they let be delegated is no call any more."""
    update = cast("AgentUpdate", await approve(state, runtime, parts=agent.parts))
    made = cast("Decisions", update.get("decisions") or {})
    planned = update.get("calls", state.calls)
    asked = next((c for c in planned if c["name"] == DELEGATE and decision_key(c) in made), None)
    if asked is None:
        return update
    scope = replace(await agent.scope(state, runtime), can_ask=True)
    gate = await Gate.for_run(agent.parts.toolbox, scope)
    call = Call.from_pending(asked, scope.emit, gate.find_tool(asked))
    await apply_decision(gate, call, made[decision_key(asked)])
    if call.result is not None:  # it goes with the answers to the other calls
        return update
    update["calls"] = [one for one in planned if one["id"] != call.id]
    given = update_call(asked, args=call.args, action="allow")
    return update | AgentUpdate(delegations=[*state.delegations, given])
