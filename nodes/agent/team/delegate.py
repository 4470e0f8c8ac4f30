"""delegate: sub-agents work on the calls of a message, each in a namespace of its own."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from langgraph.runtime import Runtime

from ....calls.approval import Decisions, apply_decision, decision_key
from ....calls.call_records import Call, PendingCall, update_call
from ....calls.gate import Gate
from ....state.agent import DELEGATE, AgentState, AgentUpdate, TaskAgentState, make_agent_path
from ....state.context import Context
from ....text.sentences import say
from ....turn.begin import How, describe_rows
from ....turn.schedule import sum_spend
from ....turn.scope import RunScope
from ...approve import approve
from ..shared.agent import Agent
from .background import RUNNING, keep_background_running
from .sub_agents import RunAgent, SubAgents, list_rows, read_call_status


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


async def delegate(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent, runs: Mapping[str, RunAgent]
) -> AgentUpdate:
    """Run sub-agents side by side; those for the background only begin, with a handle as answer."""
    scope = await agent.scope(state, runtime)
    crew = SubAgents(scope, state, agent, runs, state.delegations)
    later = [
        update_call(call, place=f"delegate:{state.turn_id}.{make_agent_path(state.path, call)}")
        for call in state.delegations
        if call["args"].get("background") and not crew.build_objective(call)[1]
    ]
    order = [name for name in crew.calls if name not in {call["id"] for call in later}]
    background = [*state.background, *later]
    with keep_background_running(scope, state, agent, runs, background):
        ended = await crew.run_all(runtime, order)
    for call in later:
        _answer_background_call(crew, call)
    update = crew.update(ended) | AgentUpdate(spend=sum_spend(scope, ended), delegations=[])
    return update | (AgentUpdate(background=background) if later else AgentUpdate())


def _answer_background_call(crew: SubAgents, call: PendingCall) -> None:
    """Answer the call of one that works in the background."""
    path = make_agent_path(crew.state.path, call)
    told = {"agent": call["args"]["agent_name"], "status": RUNNING, "path": path}
    text = {"agent": told["agent"], "status": RUNNING, "handle": path, "told": say("in_background")}
    crew.answer(call, told, json.dumps(text, ensure_ascii=False, indent=1))


async def recover_delegations(scope: RunScope, state: TaskAgentState) -> dict[str, How]:
    """By call id, what became of the sub-agents of a turn that was cut off."""
    known: dict[str, How] = {
        end["call"]: (end["text"], {"status": read_call_status(end["told"])})
        for end in state.cut_off
    }
    for call in (call for call in state.delegations if call["id"] not in known):
        if made := await list_rows(scope, make_agent_path(state.path, call)):
            known[call["id"]] = describe_rows(made), {"status": "cancelled", "reason": "superseded"}
    return known
