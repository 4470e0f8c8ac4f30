"""Intake: begins a turn of the graph's own agent; calls that were cut off are answered."""

from langgraph.runtime import Runtime

from ...state.agent import AgentUpdate, TaskAgentState, merge_limits
from ...state.context import Context
from ...turn.begin import answer_open_calls, begin_turn
from ...turn.scope import RunScope, make_scope
from .shared.agent import Agent
from .shared.requests import append_to_newest
from .team.background import recover_background
from .team.delegate import recover_delegations


async def agent_intake(
    state: TaskAgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Begin the turn, with the agent's limits or the run's where those are tighter."""
    scope = await make_scope(state, runtime, agent.parts)

    async def adopt_state(scope: RunScope, state: TaskAgentState) -> AgentUpdate:
        known = await recover_delegations(scope, state)
        beside, evidence = await recover_background(scope, state)
        messages = await answer_open_calls(scope, state, [*state.calls, *state.delegations], known)
        messages += append_to_newest(state, beside) if beside else []
        limits = merge_limits(scope.context, agent.definition.limits)
        update = AgentUpdate(messages=messages, limits=limits, background=[], awaited=False)
        if state.stopping and (state.cut_off or evidence):
            ended = [record for end in state.cut_off for record in end["evidence"]]
            update["evidence"] = [*ended, *evidence]
        return update

    for text in agent.definition.warnings:
        scope.emit({"type": "warning", "text": text})
    update: AgentUpdate = await begin_turn(scope, state, adopt_state, agent.parts.find_missing)
    update["found"] = await agent.parts.find_likely_tools(scope, state, update)
    return update
